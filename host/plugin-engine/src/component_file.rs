//! Reading component files: regular files of bounded size, without ever blocking on one.
//!
//! Plugin directories may hold anything: named pipes, devices, links to either, sparse files of many gigabytes, files that
//! grow while they are read. Every reader of a component, in the runtime and in the commands of the `pinion` program, uses
//! [`read_component`].

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Bytes of the largest component that is loaded. CPython with its standard library is a component of 18 MB, and one
/// with numpy of 40 MB.
pub const MAX_COMPONENT_BYTES: u64 = 64 * 1024 * 1024;

/// The reason why a component file was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The system cannot open or read the file.
    #[error("could not read the file: {0}")]
    Io(String),
    /// A directory, a named pipe, a socket or a device, or a link to one.
    #[error("could not read the file: not a regular file")]
    NotRegular,
    /// The file is larger than [`MAX_COMPONENT_BYTES`].
    #[error(
        "could not read the file: it has {bytes} bytes, more than the {MAX_COMPONENT_BYTES} that a component may have"
    )]
    TooLarge {
        /// The size of the file.
        bytes: u64,
    },
    /// The file grew or shrank while it was read.
    #[error("could not read the file: it changed during the read")]
    Changed,
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

/// Reads a component file. Follows symbolic links, and requires a regular file of at most [`MAX_COMPONENT_BYTES`] at
/// their end; allocates nothing before it knows the size. Blocks no longer than the file system does.
///
/// # Errors
/// The file cannot be read, is not a regular file, is too large, or changes size during the read.
pub fn read_component(path: &Path) -> Result<Vec<u8>, ReadError> {
    // Checked before the file is opened, because opening some devices has effects.
    check(&std::fs::metadata(path)?)?;
    let file = open(path)?;
    // Checked again on the handle, because another file may have taken its place.
    let size = check(&file.metadata()?)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
    file.take(size + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size { Ok(bytes) } else { Err(ReadError::Changed) }
}

fn check(metadata: &Metadata) -> Result<u64, ReadError> {
    match metadata.len() {
        _ if !metadata.is_file() => Err(ReadError::NotRegular),
        bytes if bytes > MAX_COMPONENT_BYTES => Err(ReadError::TooLarge { bytes }),
        bytes => Ok(bytes),
    }
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt as _;
    // A pipe that appeared meanwhile does not block, and a terminal does not become the controlling one.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_file_is_read_completely() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.wasm");
        std::fs::write(&file, b"abc").unwrap();
        assert_eq!(read_component(&file).unwrap(), b"abc");
    }

    #[test]
    fn directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_component(directory.path()), Err(ReadError::NotRegular));
    }

    #[test]
    fn size_is_checked_before_reading() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sparse.wasm");
        File::create(&file).unwrap().set_len(12 << 30).unwrap();
        assert_eq!(read_component(&file), Err(ReadError::TooLarge { bytes: 12 << 30 }));
    }

    #[cfg(unix)]
    #[test]
    fn links_to_devices_are_refused_and_links_to_files_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (device, file) = (directory.path().join("zero.wasm"), directory.path().join("link.wasm"));
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        std::fs::write(directory.path().join("real"), b"abc").unwrap();
        std::os::unix::fs::symlink("real", &file).unwrap();
        assert_eq!(read_component(&device), Err(ReadError::NotRegular));
        assert_eq!(read_component(&file).unwrap(), b"abc");
    }
}
