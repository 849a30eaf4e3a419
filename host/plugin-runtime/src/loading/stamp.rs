//! The state of a plugin file on disk.

use std::path::Path;
use std::time::{Duration, SystemTime};

/// Distinguishes one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: SystemTime,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Stamp {
    /// Reads the state of a file with one `stat`, in about a microsecond. None when the file is missing.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok()?,
            length: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&metadata),
        })
    }

    /// The time since the last write; none when that lies in the future.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.modified.elapsed().ok()
    }
}
