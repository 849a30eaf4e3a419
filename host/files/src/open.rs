//! Opening files and directories without waiting, even if another program put a pipe in their place.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a regular file; one that is created has mode 0600.
///
/// # Errors
/// It is not a regular file, or the system refuses.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    checked(options.open(path)?)
}

/// Opens a regular file for reading.
///
/// # Errors
/// As [`open_regular`].
pub fn open_file(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true))
}

/// Opens a regular file like [`open_regular`], and refuses a link at the end of the path.
///
/// # Errors
/// As [`open_regular`], or it is a link.
pub fn open_unlinked(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    checked(options.open(path)?)
}

fn checked(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Reads a regular file.
///
/// # Errors
/// As [`open_regular`], or the file cannot be read.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_regular`], or the file is longer, or cannot be read.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if open_file(path)?.take(limit + 1).read_to_end(&mut bytes)? as u64 > limit {
        return Err(io::Error::other(format!("it is longer than {limit} bytes")));
    }
    Ok(bytes)
}

/// Opens a directory, for its lock, its mode or a sync.
///
/// # Errors
/// It is not a directory, or the system refuses.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    options.open(path)
}

/// Waits until the entries of a directory are on the disk. Does nothing on systems that cannot open a directory.
///
/// # Errors
/// As [`open_directory`], or the directory cannot be synced.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) { open_directory(path)?.sync_all() } else { Ok(()) }
}

/// Creates a directory and its parents with mode 0700, unless they exist.
///
/// # Errors
/// Something else has the name of one of them, or the system refuses.
pub fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};

    #[test]
    fn pipe_in_the_place_of_a_file_or_directory_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
        let to_write = || open_regular(&path, OpenOptions::new().write(true).create(true).truncate(false));
        assert!(open_unlinked(&path, OpenOptions::new().read(true)).is_err() && read_file(&path).is_err());
        assert!(open_file(&path).is_err() && read_limited(&path, 1).is_err() && to_write().is_err());
        assert!(open_directory(&path).is_err() && sync_directory(&path).is_err());
        // With a reader, the pipe can be opened for writing.
        let _reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(to_write().unwrap_err().to_string(), "it is not a regular file");
        assert!(open_file(directory.path()).is_err());
        assert!(open_directory(directory.path()).is_ok() && sync_directory(directory.path()).is_ok());
    }

    #[test]
    fn new_files_and_directories_are_private_and_reads_are_bounded() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let (directory, file) = (root.path().join("a/b"), root.path().join("a/b/file"));
        create_directory(&directory).unwrap();
        create_directory(&directory).unwrap();
        open_regular(&file, OpenOptions::new().append(true).create(true)).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&root.path().join("a")), mode(&directory), mode(&file)], [0o700, 0o700, 0o600]);
        std::fs::write(&file, "abc").unwrap();
        assert_eq!((read_limited(&file, 3).unwrap(), read_file(&file).unwrap()), (b"abc".to_vec(), b"abc".to_vec()));
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(open_file(&link).is_ok() && open_unlinked(&link, OpenOptions::new().read(true)).is_err());
        assert!(open_unlinked(&file, OpenOptions::new().read(true)).is_ok());
        assert_eq!(read_limited(&file, 2).unwrap_err().to_string(), "it is longer than 2 bytes");
    }
}
