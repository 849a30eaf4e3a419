//! The free space of a disk.

use std::path::Path;

/// Returns the bytes that the user can still write below a directory; `None` where the system does not say.
#[cfg(unix)]
pub(crate) fn free_space(directory: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns `None`: the system is not asked.
#[cfg(not(unix))]
pub(crate) fn free_space(_directory: &Path) -> Option<u64> {
    None
}
