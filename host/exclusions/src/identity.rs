//! Files under any name: device, inode, and the system's facts about them.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// Device and inode of a file.
pub(crate) type FileIdentity = (u64, u64);

/// Identity of a regular file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// The device.
    pub device: u64,
    /// The inode on the device.
    pub inode: u64,
    /// The number of its names.
    pub names: u64,
    /// The time of the last change of its content, its names or its attributes, which no program sets.
    pub changed: SystemTime,
}

impl FileId {
    /// Returns the identity of a regular file; `None` where the system shows no such thing.
    pub fn from_metadata(metadata: &Metadata) -> Option<Self> {
        let (device, inode) = identity(metadata).filter(|_| metadata.is_file())?;
        Some(Self { device, inode, names: names(metadata), changed: changed(metadata) })
    }

    /// Returns a time in seconds and nanoseconds since 1970.
    pub fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
        let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        SystemTime::UNIX_EPOCH + seconds + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
    }
}

#[cfg(unix)]
pub(crate) fn identity(metadata: &Metadata) -> Option<FileIdentity> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(unix)]
pub(crate) fn names(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(unix)]
pub(crate) fn is_program(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(metadata) & 0o111 != 0
}

/// Returns the time after a change during which another change may leave the same timestamp. Clocks of file systems go
/// in steps; those without parts of seconds have steps of up to two.
pub(crate) fn step(changed: SystemTime) -> Duration {
    const STEP: Duration = Duration::from_millis(50);
    let is_whole = changed.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|time| time.subsec_nanos() == 0);
    if is_whole { Duration::from_secs(2) + STEP } else { STEP }
}

/// Returns the time of the last change of content, names or attributes.
#[cfg(unix)]
pub(crate) fn changed(metadata: &Metadata) -> SystemTime {
    use std::os::unix::fs::MetadataExt as _;
    FileId::time(metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
pub(crate) fn identity(_metadata: &Metadata) -> Option<FileIdentity> {
    None
}

#[cfg(not(unix))]
pub(crate) fn names(_metadata: &Metadata) -> u64 {
    1
}

#[cfg(not(unix))]
pub(crate) fn is_program(_metadata: &Metadata) -> bool {
    false
}

#[cfg(not(unix))]
pub(crate) fn changed(_metadata: &Metadata) -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_may_hide_a_change_for_two_seconds() {
        assert!(step(FileId::time(1_700_000_000, 0)) > Duration::from_secs(2));
        assert!(step(FileId::time(1_700_000_000, 4_000_000)) < Duration::from_secs(1));
    }
}
