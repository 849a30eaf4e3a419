//! MCP servers of installed packages: their switches, and the content of a version before its programs start.

use crate::digest::tree_digest;
use crate::files::PackageFiles;
use crate::lock::PluginLock;
use crate::package::Package;
use crate::store::PackageStore;
use crate::store_error::StoreError;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

impl PackageStore {
    /// Returns whether a package may have MCP servers. Cheap enough to call at each start.
    pub fn may_have_servers(&self) -> bool {
        PluginLock::may_have_servers(self.lock_file())
    }

    /// Switches an MCP server of a package on or off, in all kept versions with the same entry as the active one; off also
    /// where the entry differs. Returns whether the active version has such a server.
    ///
    /// # Errors
    /// The package is not installed, or the lock file is not usable.
    pub fn switch_server(&self, package: &str, server: &str, enabled: bool) -> Result<bool, StoreError> {
        let _held = self.hold()?;
        let mut lock = self.settled()?;
        let found = lock.packages.iter_mut().find(|known| known.name == package);
        let found = found.ok_or_else(|| StoreError::Unknown(package.to_owned()))?;
        let Some(entry) = found.active_release().and_then(|active| Some(active.server(server)?.entry.clone())) else {
            return Ok(false);
        };
        let servers = found.releases.iter_mut().flat_map(|release| &mut release.servers);
        for known in servers.filter(|known| known.name == server && (!enabled || known.entry == entry)) {
            known.enabled = enabled;
        }
        self.write(&mut lock)?;
        Ok(true)
    }
}

/// Checks that the directory of a version has the content that its name is the digest of, before a program in it starts.
///
/// # Errors
/// A file differs, is missing or was added.
pub fn check_directory(root: &Path) -> Result<(), StoreError> {
    let tampered = || StoreError::Tampered { path: root.to_owned() };
    let files = PackageFiles::read_directory(root).map_err(|_| tampered())?;
    let files: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(path, bytes)| (path.to_owned(), bytes.to_owned())).collect();
    let digest = root.file_name().unwrap_or_default().to_string_lossy();
    if tree_digest(&files) == digest { Ok(()) } else { Err(tampered()) }
}

/// Makes the files executable that are programs of servers. Archives need not keep the mode, and the digest has none.
///
/// # Errors
/// The system refuses.
#[cfg(unix)]
pub(crate) fn make_executable(package: &Package, root: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt as _;
    for program in package.servers.iter().filter_map(crate::PackagedServer::program) {
        let path = root.join(program);
        let changed = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700));
        changed.map_err(|cause: io::Error| StoreError::Io { path, cause })?;
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn make_executable(_package: &Package, _root: &Path) -> Result<(), StoreError> {
    Ok(())
}
