//! The lock file of packages in memory, so that a start reads it once however many plugins there are.

use crate::plugins::file_stamp::Stamp;
use pinion_packages::{LockedComponent, LockedPackage, LockedRelease, PluginLock};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The components of all kept versions, by the names of their plugins.
type AgreedComponents = HashMap<String, Vec<LockedComponent>>;

/// The content of the lock file.
#[derive(Debug, Default)]
pub(crate) struct InstalledPackages {
    packages: Vec<LockedPackage>,
    components: AgreedComponents,
    /// The active releases with skills or prompts, with their directories.
    pub(super) content: Vec<(LockedRelease, PathBuf)>,
    /// A process was killed while it changed the installation.
    pub(super) has_pending: bool,
}

/// The lock file as it was read last, or the reason why it is not usable.
pub(crate) type LockView = std::result::Result<InstalledPackages, String>;

/// The lock file, read again only if it has changed.
#[derive(Debug, Default)]
pub struct PackageLockCache(Mutex<Option<(PathBuf, Stamp, Arc<LockView>)>>);

impl PackageLockCache {
    /// Returns the content of the lock file at `path`, which `read` reads if it has changed.
    pub(super) fn view(&self, path: &Path, read: impl FnOnce() -> LockView) -> Arc<LockView> {
        // A missing file has no stamp and is cheap to look for.
        let Some(stamp) = Stamp::from_path(path) else {
            return Arc::new(Ok(InstalledPackages::default()));
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, view)) = known.as_ref().filter(|(of, at, _)| of == path && *at == stamp) {
            return view.clone();
        }
        let view = Arc::new(read());
        *known = Some((path.to_owned(), stamp, view.clone()));
        view
    }
}

impl InstalledPackages {
    pub(super) fn from_lock(lock: PluginLock, directory: impl Fn(&str) -> PathBuf) -> Self {
        let has_pending = lock.has_pending();
        let has_content = |release: &&LockedRelease| release.skills || !release.prompts.is_empty();
        let active = lock.packages.iter().filter_map(|package| package.active_release()).filter(has_content);
        let content = active.map(|release| (release.clone(), directory(&release.digest))).collect();
        let mut components = AgreedComponents::new();
        let releases = lock.packages.iter().flat_map(|package| &package.releases);
        for component in releases.flat_map(|release| &release.components) {
            components.entry(component.name.clone()).or_default().push(component.clone());
        }
        Self { packages: lock.packages, components, content, has_pending }
    }

    /// Returns the package of this name.
    pub(super) fn package(&self, name: &str) -> Option<&LockedPackage> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Returns the component with these bytes that the user agreed to.
    pub(super) fn find(&self, name: &str, digest: &str) -> Option<&LockedComponent> {
        self.components.get(name)?.iter().find(|component| component.digest == digest)
    }

    /// Returns whether a file name without its extension belongs to a component of a package. No component with another
    /// name in its manifest is loaded from this file.
    pub(super) fn has_component(&self, stem: &str) -> bool {
        self.components.contains_key(stem)
    }
}
