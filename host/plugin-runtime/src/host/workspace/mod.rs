//! `workspace`: bulk work on granted directories, on all cores.
//!
//! The crate `pinion-workspace` does the work. Here, each call's authority is checked, paths are resolved to places that
//! it may use, and the ledger counts the files and bytes.

use crate::bindings::pinion::plugin::workspace::{self as wit, ReplaceError};
use crate::calls::state::State;
use crate::capability::authority::Denied;
use crate::capability::files::place::{GrantedLocation, Unopened};
use cap_std::fs::Dir;
use pinion_plugin_contract::workspace::{search_options, walk_options};
use pinion_workspace::grants::access::FileAccess;
use pinion_workspace::grants::roots::{OpenRoot, find};
use pinion_workspace::paths::beneath::{AtEnd, Spot, find_or_make};
use pinion_workspace::paths::identity::identity;
use pinion_workspace::{
    KnownFileState, WalkRoot, WorkspaceError, has_content, io_error, read, read_text, replace_file,
};
use std::io;
use std::path::Path;
use std::sync::Arc;

impl wit::Host for State {
    async fn resolve(&mut self, path: String) -> wasmtime::Result<Result<String, wit::WorkspaceError>> {
        let resolved = match self.call.authority.find_location(&path, FileAccess::Read) {
            Ok(place) if place.relative.as_os_str().is_empty() => Ok(place.root.path.to_string_lossy().into_owned()),
            Ok(place) => Ok(place.root.path.join(&place.relative).to_string_lossy().into_owned()),
            Err(denied) => Err(wit::WorkspaceError::Denied(denied.to_string())),
        };
        Ok(resolved)
    }

    async fn read_file(
        &mut self,
        path: String,
        offset: u64,
        limit: u32,
    ) -> wasmtime::Result<Result<wit::Chunk, wit::WorkspaceError>> {
        let chunk = self.root(&path, FileAccess::Read).and_then(|root| read(&root, offset, limit));
        if let Ok(chunk) = &chunk {
            self.count_read(chunk.content.len());
        }
        Ok(chunk.map(Into::into).map_err(Into::into))
    }

    async fn read_text(&mut self, path: String) -> wasmtime::Result<Result<String, wit::WorkspaceError>> {
        let text = self.root(&path, FileAccess::Read).and_then(|root| read_text(&root));
        if let Ok(text) = &text {
            self.count_read(text.len());
        }
        Ok(text.map_err(Into::into))
    }

    async fn replace_file(
        &mut self,
        path: String,
        content: Vec<u8>,
    ) -> wasmtime::Result<Result<(), wit::WorkspaceError>> {
        self.account.capabilities.files.written.spend_at(0, content.len() as u64)?;
        let replaced = self.replace(&path, &content, &ExpectedFileState::Anything);
        if replaced.is_ok() {
            self.account.capabilities.files.files += 1;
        }
        Ok(replaced.map_err(|refused| match refused {
            ReplaceError::Other(error) => error,
            ReplaceError::Changed => wit::WorkspaceError::Io(format!("`{path}` changed")),
        }))
    }

    async fn note_read(&mut self, path: String) -> wasmtime::Result<Result<(), wit::WorkspaceError>> {
        Ok(self.note(&path).map_err(Into::into))
    }

    async fn replace_unchanged(
        &mut self,
        path: String,
        content: Vec<u8>,
        expected: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<(), ReplaceError>> {
        self.account.capabilities.files.written.spend_at(0, content.len() as u64)?;
        let replaced =
            self.replace(&path, &content, &expected.map_or(ExpectedFileState::AsRead, ExpectedFileState::Content));
        if replaced.is_ok() {
            self.account.capabilities.files.files += 1;
        }
        Ok(replaced)
    }

    async fn walk(
        &mut self,
        options: wit::WalkOptions,
    ) -> wasmtime::Result<Result<wit::WalkResult, wit::WorkspaceError>> {
        let root = self.root(&options.root, FileAccess::Read);
        let result = root.and_then(|root| pinion_workspace::walk(&root, &walk_options(options), &self.call.deadline));
        if let Ok(result) = &result {
            self.account.capabilities.files.files += result.entries.len() as u64;
        }
        Ok(result.map(Into::into).map_err(Into::into))
    }

    async fn search(
        &mut self,
        files: wit::WalkOptions,
        what: wit::SearchOptions,
    ) -> wasmtime::Result<Result<wit::SearchResult, wit::WorkspaceError>> {
        let root = self.root(&files.root, FileAccess::Read);
        let found = root.and_then(|root| {
            let (files, what) = (walk_options(files), search_options(what));
            pinion_workspace::search(&root, &files, &what, &self.call.deadline)
        });
        let counted = found.map(|found| {
            self.account.capabilities.files.files += u64::from(found.result.searched);
            self.account.capabilities.files.searched += found.bytes;
            found.result.into()
        });
        Ok(counted.map_err(Into::into))
    }
}

impl State {
    /// Adds a file that the host read to the ledger.
    fn count_read(&mut self, bytes: usize) {
        self.account.capabilities.files.files += 1;
        self.account.capabilities.files.searched += bytes as u64;
    }

    /// Finds and opens the root of a walk.
    fn root(&self, path: &str, access: FileAccess) -> Result<WalkRoot, WorkspaceError> {
        let (place, opened) = self.granted_root(path, access)?;
        let failed = |error: io::Error| io_error(path, &error);
        let spot = find(opened, &place.relative, AtEnd::Follow).map_err(failed)?;
        let location = spot.target();
        if self.call.authority.access(&location) < Some(access) {
            return Err(WorkspaceError::Denied(self.call.authority.refusal(path, access).to_string()));
        }
        if let Some(denied) = self.call.authority.exclusion(path, &spot, access) {
            return Err(WorkspaceError::Denied(denied.to_string()));
        }
        // Ignore files next to a granted file do not belong to the grant.
        let relative = location.strip_prefix(&opened.location).ok().filter(|_| !opened.is_file());
        let relative = relative.map(Path::to_owned).unwrap_or_default();
        let denied = opened.denied.iter().filter_map(|denied| denied.strip_prefix(&location).ok());
        Ok(WalkRoot {
            directory: Dir::from_std_file(opened.directory.try_clone().map_err(failed)?),
            denied: denied.map(Path::to_owned).collect(),
            exclusions: self.call.authority.plugin().policy().protected().exclusions().clone(),
            relative,
            spot,
            path: path.to_owned(),
        })
    }

    /// Remembers the present state of a file for the session of the call.
    fn note(&self, path: &str) -> Result<(), WorkspaceError> {
        let spot = self.root(path, FileAccess::Read)?.spot;
        if let Some(found) = &spot.found {
            self.read_files.note(&self.call.session, &spot.target(), found);
        }
        Ok(())
    }

    /// Replaces a file that is as expected. Calls that replace the same file wait for each other.
    fn replace(&self, path: &str, content: &[u8], expected: &ExpectedFileState) -> Result<(), ReplaceError> {
        let spot = self.writable(path)?;
        let failed = |error: io::Error| ReplaceError::from(io_error(path, &error));
        let (session, target) = (&self.call.session, spot.target());
        let _alone = self.read_files.alone(&target);
        let found = spot.metadata_now().map_err(failed)?;
        let known = self.read_files.known(session, &target, found.as_ref());
        let is_expected = match expected {
            ExpectedFileState::Anything => true,
            ExpectedFileState::AsRead => known != KnownFileState::Changed,
            ExpectedFileState::Content(old) => has_content(&spot, old).map_err(failed)?,
        };
        if !is_expected {
            return Err(ReplaceError::Changed);
        }
        replace_file(&spot, content).map_err(failed)?;
        // The session knows a file that it wrote whole, and one that it changed in part if it knew the rest.
        if (known == KnownFileState::Current || matches!(expected, ExpectedFileState::AsRead))
            && let Ok(Some(new)) = spot.metadata_now()
        {
            self.read_files.note(session, &target, &new);
        }
        Ok(())
    }

    /// Finds the place of a file to replace, and creates missing directories.
    fn writable(&self, path: &str) -> Result<Spot, WorkspaceError> {
        let (place, opened) = self.granted_root(path, FileAccess::Write)?;
        let (authority, plugin) = (&self.call.authority, self.call.authority.plugin());
        // A granted file may be replaced by another one: the grant is for its place.
        let is_boundary = |target: &Path| match opened.is_file() && *target == place.root.real {
            true => plugin.policy().protected().is_in(target),
            false => plugin.policy().is_pinned(target),
        };
        let may_write = |spot: &Spot| {
            let found = spot.found.as_ref().and_then(identity);
            authority.access(&spot.target()) == Some(FileAccess::Write)
                && !is_boundary(&spot.target())
                && !found.is_some_and(|file| plugin.policy().protected().is_plugin(file))
        };
        let exclusions = plugin.policy().protected().exclusions().exclusions();
        let may_make = |location: &Path| match authority.access(location) {
            Some(FileAccess::Write) if exclusions.find_pattern(location, true).is_none() => Ok(()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        };
        let refused = || WorkspaceError::Denied(authority.refusal(path, FileAccess::Write).to_string());
        // Checked before any directory is created.
        if authority.access(&place.root.real.join(&place.relative)) < Some(FileAccess::Write) {
            return Err(refused());
        }
        if let Some(pattern) = exclusions.find_pattern(&place.root.real.join(&place.relative), false) {
            return Err(WorkspaceError::Denied(authority.excluded(path, pattern, FileAccess::Write).to_string()));
        }
        let spot = find_or_make(&opened.directory, &opened.location, &opened.path(&place.relative), &may_make)
            .map_err(|error| io_error(path, &error))?;
        if !may_write(&spot) {
            return Err(refused());
        }
        match authority.exclusion(path, &spot, FileAccess::Write) {
            Some(denied) => Err(WorkspaceError::Denied(denied.to_string())),
            None => Ok(spot),
        }
    }

    /// Finds the granted directory around a path, open.
    fn granted_root(
        &self,
        path: &str,
        access: FileAccess,
    ) -> Result<(GrantedLocation<'_>, &Arc<OpenRoot>), WorkspaceError> {
        let denied = |denied: Denied| WorkspaceError::Denied(denied.to_string());
        let place = self.call.authority.find_location(path, access).map_err(denied)?;
        let opened = self.call.authority.open(path, &place, access).map_err(|unopened| match unopened {
            Unopened::Denied(refusal) => denied(refusal),
            Unopened::Failed(error) => io_error(path, &error),
        })?;
        Ok((place, opened))
    }
}

/// The condition for replacing a file.
enum ExpectedFileState {
    Anything,
    /// The state that the session of the call last read. A file that the session did not read may be in any state.
    AsRead,
    /// This content.
    Content(Vec<u8>),
}
