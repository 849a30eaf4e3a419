//! Plugins of installed packages: the store of this user, and the versions in `plugins.lock` that the user agreed to.

use crate::failure::{Failure, Result};
use crate::files::private::read_or_create;
use crate::plugins::builtin::BUILT_IN;
use crate::plugins::grants::Pin;
use crate::plugins::package_lock::{InstalledPackages, LockView};
use crate::plugins::project_packages::ProjectComponents;
use crate::workspace_base::Base;
use pinion_packages::{ComponentFacts, ComponentReader, PackageStore, StorePaths};
use pinion_plugin_runtime::{Ceiling, Component, FileOrigin, GrantTable, Inspection, LoadError, is_alike, shell_word};
use std::path::Path;
use std::sync::Arc;

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

    /// Completes an installation whose process was killed.
    pub(super) fn recover_packages(&self) {
        if !self.installed_packages().as_ref().as_ref().is_ok_and(|installed| installed.has_pending) {
            return;
        }
        let recovered = self.package_store().map(|store| store.recover().map_err(|error| error.to_string()));
        match recovered {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error, "an installation was not completed"),
            Err(failure) => tracing::warn!(%failure, "an installation was not completed"),
        }
    }

    /// Returns the installed packages, reading the lock file again only if it has changed.
    pub(crate) fn installed_packages(&self) -> Arc<LockView> {
        self.package_lock.view(&self.paths.plugin_lock_file(), || {
            let store = self.package_store().map_err(|failure| failure.message())?;
            let lock = store.read().map_err(|error| error.to_string())?;
            Ok(InstalledPackages::from_lock(lock, |digest| store.directory(digest)))
        })
    }
}

/// Checks that a component in the user's plugin directory is one that the user agreed to, if a package put it there.
/// `plugins` is that directory, without links. In a project, versions that the project names come from the store.
///
/// # Errors
/// The bytes differ from all kept versions, or the lock file is not usable.
pub(super) fn check(
    view: &LockView,
    plugins: Option<&Path>,
    project: &ProjectComponents,
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
    let is_in_place = path.parent() == plugins;
    let name = &component.manifest.name;
    if let Some(named) = project.name_at(path) {
        return match named == name && installed.find(name, component.digest).is_some() {
            true => Ok(()),
            false => refused(format!(
                "{} is not the version that the project names\nhint: see: pinion plugin verify",
                shell_word(path)
            )),
        };
    }
    if project.replaces(path, name) {
        // The project's version has the name, which is not worth a notice.
        return Err(LoadError::Disabled(name.clone()));
    }
    if is_in_place && *name == stem && installed.find(name, component.digest).is_some() {
        return Ok(());
    }
    if is_in_place && installed.has_component(&stem) {
        let path = shell_word(path);
        return refused(format!(
            "{path} is not a version that you installed\nhint: remove its package, then install it again"
        ));
    }
    match installed.has_component(name) {
        true => refused(format!("an installed package has the plugin `{name}`\nhint: remove the package first")),
        false => Ok(()),
    }
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
    // A file whose name is not its manifest's was refused before.
    let agreed = installed.find(&component.manifest.name, component.digest)?;
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
