//! Opening files that another program may have replaced by anything.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a regular file; one that is created has mode 0600. Never blocks, as opening a pipe would.
///
/// # Errors
/// It is not a regular file, or the system refuses.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.mode(0o600).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Opens a regular file for reading, like [`open_regular`].
///
/// # Errors
/// As [`open_regular`].
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true))
}

/// Reads a regular file, like [`open_regular`].
///
/// # Errors
/// As [`open_regular`], or the file cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn pipe_in_the_place_of_a_file_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let to_write = || open_regular(&path, OpenOptions::new().write(true).create(true).truncate(false));
        assert!(read(&path).is_err() && to_write().is_err());
        // With a reader, the pipe can be opened for writing.
        let _reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(to_write().unwrap_err().to_string(), "it is not a regular file");
        assert!(open_to_read(directory.path()).is_err());
    }
}
