//! Bounded reads and atomic writes, which never wait for a pipe.

use pinion_files::{AtomicWrite, Durability};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// The file is of another kind, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    open_existing(OpenOptions::new().read(true), path)
}

/// Makes an open return at once, although the file is a pipe.
fn flags(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    #[cfg(not(unix))]
    let _ = options;
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// The file is longer, of another kind, or cannot be read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if open(path)?.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::other(format!("longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Creates a file. Fails if the path exists.
///
/// # Errors
/// The file cannot be created or written.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
}

/// Opens a regular file as the options say.
///
/// # Errors
/// The file is of another kind, or cannot be opened.
pub fn open_existing(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    flags(options);
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Replaces a file, or creates it, so that readers see either content and never a part.
///
/// # Errors
/// The file or its directory cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_private(directory)?;
    AtomicWrite::private().durability(Durability::Content).replace(path, bytes)
}

/// Creates a directory that only the user can enter, and those above it.
fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_as_a_whole_and_read_within_its_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b.json");
        replace(&path, b"first").unwrap();
        replace(&path, b"second").unwrap();
        assert_eq!(read(&path, 6).unwrap(), b"second");
        assert!(read(&path, 5).unwrap_err().to_string().contains("longer"));
        assert_eq!(std::fs::read_dir(directory.path().join("a")).unwrap().count(), 1);
        assert!(read(directory.path(), 5).is_err() && create(&path, b"").is_err());
    }
}
