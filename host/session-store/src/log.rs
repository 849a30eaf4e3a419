//! Appends complete lines to a file, or nothing.
//!
//! Each append is one write at the end of the file. After it returns, no kill of this process can remove the bytes.
//! When it fails halfway, the file is cut back to its last complete line, so that the next line does not start inside a
//! broken one.

use crate::lock::OpenSession;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The file of a log. A trait, so that tests can fill a disk at the right moment.
pub(crate) trait Backing: Write + Send {
    /// Cuts the file to `length` bytes.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Blocks until the bytes are on the disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Returns the change by another program that made `path` no longer name this file with at least `length` bytes.
    fn loss(&self, path: &Path, length: u64) -> Option<Loss> {
        let _ = (path, length);
        None
    }
}

/// A change by another program that loses entries of a session in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The file was deleted or moved away.
    Deleted,
    /// Another file has its name.
    Replaced,
    /// Its end was cut off.
    Truncated,
}

impl Backing for OpenSession {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.sync_data() {
            // Some file systems have no such operation.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
            synced => synced,
        }
    }

    fn loss(&self, path: &Path, length: u64) -> Option<Loss> {
        // An error of the open file shows in the next write.
        let open = self.metadata().ok()?;
        if open.len() < length {
            return Some(Loss::Truncated);
        }
        match fs::metadata(path) {
            Ok(named) if is_same(&open, &named) => None,
            Ok(_) => Some(Loss::Replaced),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Some(Loss::Deleted)
            }
            Err(_) => None,
        }
    }
}

#[cfg(unix)]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Other systems do not replace a file that is open.
#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// A file of lines, open for appending.
pub(crate) struct Log {
    backing: Box<dyn Backing>,
    /// The length of the file up to the end of its last complete line.
    good: u64,
    /// Set while bytes may follow `good`: an append failed, and cutting the file back failed as well.
    dirty: bool,
}

impl Log {
    /// Continues a file of `good` bytes.
    pub(crate) fn new(backing: impl Backing + 'static, good: u64) -> Self {
        Self { backing: Box::new(backing), good, dirty: false }
    }

    /// Appends `lines`, which end with a newline. On an error the file is unchanged.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.dirty {
            self.cut()?;
        }
        // A file takes all bytes in one call, unless a signal or a full disk interrupts it.
        if let Err(error) = self.backing.write_all(lines) {
            self.dirty = true;
            // When this fails as well, the next append tries again, and after a crash the next opening does.
            let _ = self.cut();
            return Err(error);
        }
        self.good += lines.len() as u64;
        Ok(())
    }

    /// Returns the change by another program that made `path` no longer name everything that was appended.
    pub(crate) fn loss(&self, path: &Path) -> Option<Loss> {
        self.backing.loss(path, self.good)
    }

    /// Blocks until everything is on the disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.backing.sync()
    }

    fn cut(&mut self) -> io::Result<()> {
        self.backing.truncate(self.good)?;
        self.dirty = false;
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A disk with limited space.
    #[derive(Default)]
    pub(crate) struct Disk {
        pub(crate) bytes: Vec<u8>,
        /// The most bytes that fit.
        pub(crate) space: usize,
        pub(crate) truncation_fails: bool,
    }

    /// A file on it.
    #[derive(Clone, Default)]
    pub(crate) struct DiskFile(pub(crate) Arc<Mutex<Disk>>);

    impl Write for DiskFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let fits = bytes.len().min(disk.space.saturating_sub(disk.bytes.len()));
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.bytes.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Backing for DiskFile {
        fn truncate(&mut self, length: u64) -> io::Result<()> {
            let mut disk = self.0.lock().unwrap();
            if disk.truncation_fails {
                return Err(io::ErrorKind::Other.into());
            }
            disk.bytes.truncate(length as usize);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::DiskFile;
    use super::*;

    fn disk(space: usize) -> (DiskFile, Log) {
        let file = DiskFile::default();
        file.0.lock().unwrap().space = space;
        (file.clone(), Log::new(file, 0))
    }

    fn bytes(file: &DiskFile) -> String {
        String::from_utf8(file.0.lock().unwrap().bytes.clone()).unwrap()
    }

    #[test]
    fn full_disk_leaves_no_partial_line() {
        let (file, mut log) = disk(7);
        log.append(b"one\n").unwrap();
        assert_eq!(log.append(b"second\n").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(bytes(&file), "one\n");
        file.0.lock().unwrap().space = 100;
        log.append(b"third\n").unwrap();
        assert_eq!(bytes(&file), "one\nthird\n");
    }

    #[test]
    fn append_fails_while_a_partial_line_remains() {
        let (file, mut log) = disk(5);
        log.append(b"one\n").unwrap();
        file.0.lock().unwrap().truncation_fails = true;
        log.append(b"two\n").unwrap_err();
        file.0.lock().unwrap().space = 100;
        log.append(b"two\n").unwrap_err();
        assert_eq!(bytes(&file), "one\nt");
        file.0.lock().unwrap().truncation_fails = false;
        log.append(b"two\n").unwrap();
        assert_eq!(bytes(&file), "one\ntwo\n");
    }
}
