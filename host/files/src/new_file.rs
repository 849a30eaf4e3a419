//! A new file in an open directory, which gets its name when it is complete.
//!
//! Everything happens relative to the handle of the directory, so that a rename race can put the file into a directory
//! that was moved, but never elsewhere. On Linux a file can be without a name until it is complete (`O_TMPFILE`), so that a
//! kill leaves nothing behind.
//!
//! `cap-tempfile` is not used: it creates files with the default mode, so that the new content of a private file could be
//! read under the temporary name where the system lacks `O_TMPFILE`, and its names do not identify files that are left
//! over after a crash.

use cap_std::fs::{Dir, File, OpenOptions};
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::io;

/// Temporary names that are tried. A collision is an accident.
const MAX_NAMES: u32 = 16;

/// A file that has not got its final name yet. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct NewFile<'a> {
    directory: &'a Dir,
    file: File,
    /// The temporary name; `None` while the file is unnamed.
    name: Option<String>,
}

impl<'a> NewFile<'a> {
    /// Creates a file without a name, which is gone when the process is. A private one has mode 0600, others the mode that
    /// the umask leaves of 0666.
    ///
    /// # Errors
    /// The system or the file system has no such files, or refuses.
    pub fn anonymous(directory: &'a Dir, is_private: bool) -> io::Result<Self> {
        Ok(Self { directory, file: unnamed::create(directory, is_private)?, name: None })
    }

    /// Creates a file with a temporary name. A private one is readable by its owner alone until its mode is set.
    ///
    /// # Errors
    /// The system refuses.
    pub fn named(directory: &'a Dir, is_private: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if is_private {
            cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        #[cfg(not(unix))]
        let _ = is_private;
        for _ in 0..MAX_NAMES {
            let name = temporary_name();
            match directory.open_with(&name, &options) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return Ok(Self { directory, file: opened?, name: Some(name) }),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file"))
    }

    /// Returns the open file, for its content, mode and sync.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, in place of a file that has it. With `is_new`, no file is expected there.
    ///
    /// # Errors
    /// The system refuses.
    pub fn publish(mut self, name: &OsStr, is_new: bool) -> io::Result<()> {
        if self.name.is_none() {
            if is_new {
                match unnamed::link(&self.file, self.directory, name) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    linked => return linked,
                }
            }
            // A link cannot replace a name; only a rename can.
            let temporary = temporary_name();
            unnamed::link(&self.file, self.directory, OsStr::new(&temporary))?;
            self.name = Some(temporary);
        }
        if let Some(temporary) = &self.name {
            self.directory.rename(temporary, self.directory, name)?;
            self.name = None;
        }
        Ok(())
    }

    /// Gives the file its name unless that is taken; then another one can be tried. If the file system has no hard links,
    /// an empty file claims the name first.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if something has the name, or the system refuses.
    pub fn publish_new(&mut self, name: &OsStr) -> io::Result<()> {
        let Some(temporary) = &self.name else { return unnamed::link(&self.file, self.directory, name) };
        match self.directory.hard_link(temporary, self.directory, name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                self.directory.open_with(name, OpenOptions::new().write(true).create_new(true))?;
                self.directory.rename(temporary, self.directory, name)?;
                self.name = None;
                Ok(())
            }
            linked => linked,
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Best effort: the error that led here is the one that matters. The name tells that the file is temporary.
            let _ = self.directory.remove_file(name);
        }
    }
}

/// Returns a name that cannot be guessed: 64 bits that depend on a key from the operating system's randomness. Prefix and
/// suffix identify files that are left over when the host is killed.
fn temporary_name() -> String {
    format!(".pinion-{:016x}.tmp", RandomState::new().hash_one(()))
}

/// Files without a name.
#[cfg(target_os = "linux")]
mod unnamed {
    use super::{Dir, File, OsStr, io};
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
    use std::os::fd::AsRawFd as _;

    /// Creates a file without a name in a directory.
    pub(super) fn create(directory: &Dir, is_private: bool) -> io::Result<File> {
        let mode = Mode::from_raw_mode(if is_private { 0o600 } else { 0o666 });
        let file = openat(directory, c".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode)?;
        Ok(File::from_std(file.into()))
    }

    /// Gives a file without a name one. Fails where `/proc` is not mounted.
    pub(super) fn link(file: &File, directory: &Dir, name: &OsStr) -> io::Result<()> {
        let file = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(linkat(CWD, file, directory, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod unnamed {
    use super::{Dir, File, OsStr, io};

    pub(super) fn create(_directory: &Dir, _is_private: bool) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn link(_file: &File, _directory: &Dir, _name: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn temporary_names_cannot_be_guessed() {
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| temporary_name()).collect();
        assert_eq!(names.len(), 1000);
        // Nor by counting.
        let numbers = names.iter().map(|name| u64::from_str_radix(&name[8..24], 16).unwrap());
        assert!(numbers.is_sorted_by(|a, b| b - a > 1));
    }

    #[test]
    fn file_gets_a_name_that_is_free_or_replaces_the_one_that_has_it() {
        let root = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(root.path(), cap_std::ambient_authority()).unwrap();
        fs::write(root.path().join("taken"), "old").unwrap();
        let content = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
        let mut new = NewFile::named(&directory, true).unwrap();
        new.file().write_all(b"new").unwrap();
        assert_eq!(new.publish_new(OsStr::new("taken")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        new.publish_new(OsStr::new("free")).unwrap();
        drop(new);
        assert_eq!((content("taken"), content("free")), ("old".to_owned(), "new".to_owned()));
        assert_eq!(fs::metadata(root.path().join("free")).unwrap().permissions().mode() & 0o777, 0o600);
        for make in [NewFile::named, NewFile::anonymous] {
            let Ok(new) = make(&directory, false) else { continue };
            new.file().write_all(b"other").unwrap();
            new.publish(OsStr::new("taken"), false).unwrap();
            assert_eq!(content("taken"), "other");
            drop(make(&directory, false).unwrap());
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
