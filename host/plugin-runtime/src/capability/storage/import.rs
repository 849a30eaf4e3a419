//! The imports `storage` and, through `keyvalue`, `wasi:keyvalue`.

use super::Storage;
use crate::bindings::pinion::plugin::storage::{self, Scope, StorageError, Stored};
use crate::calls::state::State;
use crate::capability::authority::Denied;
use crate::capability::definition::Capability as _;
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_storage::{ExpectedVersion, StorageLocation, ValueStore};
use std::sync::Arc;
use wasmtime::component::HasSelf;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    storage::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    super::keyvalue::link(linker)
}

impl storage::Host for State {
    async fn get(&mut self, scope: Scope, key: String) -> wasmtime::Result<Result<Option<Stored>, StorageError>> {
        let Allowed { store, .. } = match self.storage(scope) {
            Ok(allowed) => allowed,
            Err(denied) => return Ok(Err(denied.into())),
        };
        let found = store.get(&key).await;
        Ok(found.map(|found| found.map(|(value, version)| Stored { value, version })).map_err(StorageError::from))
    }

    async fn set(&mut self, scope: Scope, key: String, value: Vec<u8>) -> wasmtime::Result<Result<u32, StorageError>> {
        self.write(scope, key, value, ExpectedVersion::Anything).await
    }

    async fn replace(
        &mut self,
        scope: Scope,
        key: String,
        expected: Option<u32>,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<u32, StorageError>> {
        self.write(scope, key, value, ExpectedVersion::Version(expected)).await
    }

    async fn remove(&mut self, scope: Scope, key: String) -> wasmtime::Result<Result<(), StorageError>> {
        let Allowed { store, .. } = match self.changeable(scope) {
            Ok(allowed) => allowed,
            Err(denied) => return Ok(Err(denied.into())),
        };
        let removed = store.remove(&key).await;
        self.account.capabilities.storage.changes += u64::from(matches!(removed, Ok(true)));
        Ok(removed.map(|_| ()).map_err(StorageError::from))
    }

    async fn keys(
        &mut self,
        scope: Scope,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<String>, StorageError>> {
        let Allowed { store, .. } = match self.storage(scope) {
            Ok(allowed) => allowed,
            Err(denied) => return Ok(Err(denied.into())),
        };
        Ok(store.keys(&prefix, after.as_deref(), limit).await.map_err(StorageError::from))
    }
}

/// The values that a call may use.
pub(super) struct Allowed {
    store: Arc<ValueStore>,
    quota: u64,
}

impl State {
    async fn write(
        &mut self,
        scope: Scope,
        key: String,
        value: Vec<u8>,
        expected: ExpectedVersion,
    ) -> wasmtime::Result<Result<u32, StorageError>> {
        let Allowed { store, quota } = match self.changeable(scope) {
            Ok(allowed) => allowed,
            Err(denied) => return Ok(Err(denied.into())),
        };
        self.account.capabilities.files.written.spend((key.len() + value.len()) as u64)?;
        let written = store.write(&key, &value, expected, quota).await;
        self.account.capabilities.storage.changes += u64::from(written.is_ok());
        Ok(written.map_err(StorageError::from))
    }

    /// Returns the values of a scope, for a call that may change them.
    fn changeable(&self, scope: Scope) -> Result<Allowed, Denied> {
        let allowed = self.storage(scope)?;
        self.call.authority.check_change(Storage::phrase(true))?;
        Ok(allowed)
    }

    /// Returns the values of a scope.
    pub(super) fn storage(&self, scope: Scope) -> Result<Allowed, Denied> {
        let authority = &self.call.authority;
        let grant = authority.check::<Storage>()?;
        let (root, identity) = (&grant.directory, authority.plugin().identity());
        if root.as_os_str().is_empty() || identity.key().is_empty() {
            return Err(authority.denied("store values", "this host keeps none"));
        }
        let place = match scope {
            Scope::Plugin => StorageLocation::of_plugin(root, identity),
            Scope::Workspace => StorageLocation::of_workspace(root, identity, authority.real_workspace()),
            Scope::Session if self.call.session.is_empty() => {
                return Err(authority.denied("store values of a session", "the call belongs to no session"));
            }
            Scope::Session => StorageLocation::of_session(root, identity, &self.call.session),
        };
        Ok(Allowed { store: self.stores.at(place), quota: grant.quota_bytes })
    }
}

impl From<Denied> for StorageError {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied.to_string())
    }
}
