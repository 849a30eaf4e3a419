//! The state of a plugin file on disk.

use std::fs::Metadata;
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
    /// Reads the state of a file with one `stat`, in about a microsecond. `None` when the file is missing.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        Self::from_metadata(&std::fs::metadata(path).ok()?)
    }

    /// The state that this metadata of a file shows.
    pub(crate) fn from_metadata(metadata: &Metadata) -> Option<Self> {
        Some(Self {
            modified: metadata.modified().ok()?,
            length: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(metadata),
        })
    }

    /// The time since the last write; `None` when that lies in the future.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.modified.elapsed().ok()
    }
}
