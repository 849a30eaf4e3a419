//! Plugins of installed packages: the store of this user, and the versions in `plugins.lock` that the user agreed to.

use crate::failure::{Failure, Result};
use crate::files::private::read_or_create;
use crate::plugins::builtin::BUILT_IN;
use crate::plugins::file_stamp::Stamp;
use crate::plugins::grants::Pin;
use crate::workspace_base::Base;
use pinion_packages::{
    ComponentFacts, ComponentReader, LockedComponent, LockedRelease, PackageStore, PluginLock, StorePaths,
};
use pinion_plugin_runtime::{Ceiling, Component, FileOrigin, GrantTable, Inspection, LoadError, is_alike, shell_word};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The components of all kept versions, by the names of their plugins.
type AgreedComponents = HashMap<String, Vec<LockedComponent>>;
/// The lock file as it was read last, or the reason why it is not usable.
pub(super) type LockView = std::result::Result<AgreedComponents, String>;

/// Reads components with the rules of this host.
#[derive(Debug, Clone, Copy)]
pub struct HostReader;

impl ComponentReader for HostReader {
    fn read(&self, path: &str, bytes: &[u8]) -> std::result::Result<ComponentFacts, String> {
        let inspection = Inspection::from_file(bytes, Path::new(path));
        let manifest = inspection.map_err(|error| crate::failure::with_causes(&error))?.manifest;
        let asks = manifest.capabilities.spell_asks();
        let is_whole = |word: &&String| GrantTable::default().add(std::slice::from_ref(*word), Path::new(".")).is_ok();
        let grants = asks.iter().filter(is_whole).cloned().collect();
        Ok(ComponentFacts {
            name: manifest.name,
            version: manifest.version,
            description: manifest.description,
            asks,
            grants,
        })
    }

    fn is_alike(&self, one: &str, other: &str) -> bool {
        is_alike(one, other)
    }

    fn is_reserved(&self, name: &str) -> bool {
        BUILT_IN.iter().any(|built_in| is_alike(built_in.name, name))
    }
}

impl Base {
    /// Returns the store of packages, creating the secret that seals its lock file on first use.
    ///
    /// # Errors
    /// The secret can be neither read nor created.
    pub fn package_store(&self) -> Result<PackageStore> {
        let file = self.paths.package_key_file();
        let key = read_or_create(&file);
        let key = key.map_err(|error| Failure::failed(format!("could not use `{}`", file.display())).because(error))?;
        let paths = StorePaths {
            store: self.paths.package_store(),
            plugins: self.paths.plugins(),
            lock: self.paths.plugin_lock_file(),
        };
        Ok(PackageStore::new(paths, key.bytes))
    }

    /// Completes an installation whose process was killed. Costs one look at a file if there is none.
    pub(super) fn recover_packages(&self) {
        if !self.paths.plugin_lock_file().exists() {
            return;
        }
        let recovered = self.package_store().map(|store| store.recover().map_err(|error| error.to_string()));
        match recovered {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error, "an installation was not completed"),
            Err(failure) => tracing::warn!(%failure, "an installation was not completed"),
        }
    }

    /// Returns the active releases of packages with their directories if one may have skills or prompts; none if the lock
    /// file is not usable.
    pub(super) fn active_releases(&self) -> Vec<(LockedRelease, PathBuf)> {
        if !self.paths.plugin_lock_file().exists() {
            return Vec::new();
        }
        let Ok(store) = self.package_store() else { return Vec::new() };
        if !store.may_have_content() {
            return Vec::new();
        }
        let lock = store.read().unwrap_or_default();
        let active = lock.packages.iter().filter_map(|package| package.active_release());
        active.map(|release| (release.clone(), store.directory(&release.digest))).collect()
    }
}

/// The lock file, read again only if it has changed.
#[derive(Debug, Default)]
pub(super) struct InstalledPlugins(Mutex<Option<(Stamp, Arc<LockView>)>>);

impl InstalledPlugins {
    pub(super) fn view(&self, base: &Base) -> Arc<LockView> {
        // A missing file has no stamp and is cheap to look for.
        let Some(stamp) = Stamp::from_path(&base.paths.plugin_lock_file()) else {
            return Arc::new(Ok(AgreedComponents::new()));
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, view)) = known.as_ref().filter(|(at, _)| *at == stamp) {
            return view.clone();
        }
        let store = base.package_store().map_err(|failure| failure.message());
        let lock = store.and_then(|store| store.read().map_err(|error| error.to_string()));
        let view = Arc::new(lock.map(components));
        *known = Some((stamp, view.clone()));
        view
    }
}

/// Returns the components of all kept versions.
fn components(lock: PluginLock) -> AgreedComponents {
    let mut components = AgreedComponents::new();
    let releases = lock.packages.into_iter().flat_map(|package| package.releases);
    for component in releases.flat_map(|release| release.components) {
        components.entry(component.name.clone()).or_default().push(component);
    }
    components
}

/// Checks that a component in the user's plugin directory is one that the user agreed to, if a package put it there.
///
/// # Errors
/// The bytes differ from all kept versions, or the lock file is not usable.
pub(super) fn check(
    view: &LockView,
    base: &Base,
    component: &Component<'_>,
    path: &Path,
    origin: FileOrigin,
) -> std::result::Result<(), LoadError> {
    if origin != FileOrigin::User {
        return Ok(());
    }
    let refused = |why: String| Err(LoadError::Policy(why));
    let installed = match view {
        Ok(installed) => installed,
        Err(problem) => return refused(format!("{problem}\nhint: look at it with: pinion plugin verify --accept")),
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_in_place = path.parent() == base.paths.plugins().canonicalize().ok().as_deref();
    let name = &component.manifest.name;
    if is_in_place && *name == stem && find(installed, name, component.digest).is_some() {
        return Ok(());
    }
    if is_in_place && installed.contains_key(&*stem) {
        let path = shell_word(path);
        return refused(format!(
            "{path} is not a version that you installed\nhint: remove its package, then install it again"
        ));
    }
    match installed.contains_key(name) {
        true => refused(format!("an installed package has the plugin `{name}`\nhint: remove the package first")),
        false => Ok(()),
    }
}

/// Returns the component with these bytes that the user agreed to.
fn find<'a>(installed: &'a AgreedComponents, name: &str, digest: &str) -> Option<&'a LockedComponent> {
    installed.get(name)?.iter().find(|component| component.digest == digest)
}

/// Returns the grants that the user gave to a version when it was installed; `None` for another file. A version that
/// follows another one keeps the ceiling of its tools: effects beyond it wait for `pinion plugin grant`.
pub(super) fn agreed(
    view: &LockView,
    component: &Component<'_>,
    path: &Path,
    origin: FileOrigin,
    before: Option<&Pin>,
    offered: Option<&Ceiling>,
) -> Option<(Pin, bool)> {
    let installed = view.as_ref().ok().filter(|_| origin == FileOrigin::User)?;
    let agreed = find(installed, &path.file_stem()?.to_string_lossy(), component.digest)?;
    let mut grants = GrantTable::default();
    grants.add(&agreed.granted, Path::new(".")).ok()?;
    let is_first = before.is_none_or(|pin| pin.name != component.manifest.name);
    let asks = component.manifest.capabilities.clone();
    let lifetime = component.manifest.lifetime;
    let granted_for = match before.filter(|_| !is_first) {
        Some(pin) => Ceiling { asks, lifetime, ..pin.granted_for.clone() },
        None => offered.cloned().unwrap_or_else(|| Ceiling { asks, lifetime, ..Ceiling::default() }),
    };
    let pin = Pin {
        name: component.manifest.name.clone(),
        source: origin,
        path: path.to_owned(),
        digest: component.digest.to_owned(),
        config: false,
        grants,
        granted_for,
    };
    Some((pin, is_first))
}
