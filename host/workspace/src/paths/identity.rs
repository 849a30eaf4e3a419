//! Identities of files, by which one is recognized under another name.

use cap_primitives::fs::Metadata;
use pinion_exclusions::FileId;

/// Device and inode of a file.
pub type Identity = (u64, u64);

/// Returns the identity of a file; `None` where the system shows no identity.
#[cfg(not(windows))]
pub fn identity(metadata: &Metadata) -> Option<Identity> {
    use cap_primitives::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns none: the system shows no such thing.
#[cfg(windows)]
pub fn identity(_metadata: &Metadata) -> Option<Identity> {
    None
}

/// Returns the identity of a file from metadata of the standard library, as [`identity`] does.
#[cfg(unix)]
pub fn of_file(metadata: &std::fs::Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns none: the system shows no such thing.
#[cfg(not(unix))]
pub fn of_file(_metadata: &std::fs::Metadata) -> Option<Identity> {
    None
}

/// Returns the data that distinguishes a regular file from all others; `None` where the system shows no such data.
#[cfg(not(windows))]
pub fn file_id(metadata: &Metadata) -> Option<FileId> {
    use cap_primitives::fs::MetadataExt as _;
    metadata.is_file().then(|| FileId {
        device: metadata.dev(),
        inode: metadata.ino(),
        names: metadata.nlink(),
        changed: FileId::time(metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// Returns none: the system shows no such thing.
#[cfg(windows)]
pub fn file_id(_metadata: &Metadata) -> Option<FileId> {
    None
}
