//! Limits of snapshots.

use std::time::Duration;

/// The limits of a snapshot. The snapshot names the paths that exceed them; too many files prevent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Files, directories and links.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Time for listing, and again for copying.
    pub time: Duration,
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { files: 200_000, file_bytes: 512 << 20, bytes: 2 << 30, time: Duration::from_secs(5) }
    }
}
