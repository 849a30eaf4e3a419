//! One writer per session: an exclusive lock on the session's own file.
//!
//! The system releases the lock when the process ends in any way, so no session stays locked. Readers take no lock.

use crate::error::{LOCK, SessionError, SessionErrorKind};
use pinion_files::open::open_regular;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::path::Path;

/// The open file of a session, and its lock if this process took it.
///
/// Ends the lock itself, not by closing: while a program starts, it shares all open files of this process, and their locks,
/// until its own code runs. A session that was closed at that moment would stay locked.
#[derive(Debug)]
pub(crate) struct OpenSession {
    file: File,
    is_locked: bool,
}

impl OpenSession {
    /// A file that is only read.
    pub(crate) fn unlocked(file: File) -> Self {
        Self { file, is_locked: false }
    }

    /// Locks a file, without waiting for another process.
    pub(crate) fn lock(file: File) -> Result<Self, (File, TryLockError)> {
        match file.try_lock() {
            Ok(()) => Ok(Self { file, is_locked: true }),
            Err(error) => Err((file, error)),
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        if self.is_locked {
            // Fails on a file system without locks, where closing the file is all there is to do.
            let _ = self.file.unlock();
        }
    }
}

impl Deref for OpenSession {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Read for OpenSession {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for OpenSession {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Write for OpenSession {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens an existing file for reading and appending, and locks it.
pub(crate) fn open_locked(path: &Path) -> Result<OpenSession, SessionError> {
    require_file(path)?;
    let file =
        open_regular(path, OpenOptions::new().read(true).append(true)).map_err(SessionError::io("open", path))?;
    let file = OpenSession::lock(file).map_err(|(file, error)| match error {
        TryLockError::WouldBlock => SessionError::new(path, SessionErrorKind::Locked { pid: holder(&file) }),
        TryLockError::Error(source) => SessionError::io(LOCK, path)(source),
    })?;
    make_private(&file);
    match is_deleted(&file) {
        // Another process deleted the file between opening and locking: writes would be lost.
        true => Err(SessionError::new(path, SessionErrorKind::NotFound { recent: Vec::new() })),
        false => Ok(file),
    }
}

/// Fails unless there is a regular file: opening a pipe can block without end, and a device never ends.
pub(crate) fn require_file(path: &Path) -> Result<(), SessionError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(SessionError::new(path, SessionErrorKind::Corrupt)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(SessionError::new(path, SessionErrorKind::NotFound { recent: Vec::new() }))
        }
        Err(error) => Err(SessionError::io("open", path)(error)),
    }
}

/// Revokes the permissions of other users, such as a copied file may have. A failure is ignored: the session is usable
/// anyway.
#[cfg(unix)]
fn make_private(file: &File) {
    use std::os::unix::fs::PermissionsExt as _;
    if file.metadata().is_ok_and(|found| found.permissions().mode() & 0o077 != 0) {
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o600));
    }
}

/// Other systems have no such modes.
#[cfg(not(unix))]
fn make_private(_: &File) {}

#[cfg(unix)]
pub(crate) fn is_deleted(file: &File) -> bool {
    file.metadata().is_ok_and(|found| std::os::unix::fs::MetadataExt::nlink(&found) == 0)
}

/// Other systems do not delete a file that is open.
#[cfg(not(unix))]
pub(crate) fn is_deleted(_: &File) -> bool {
    false
}

/// Returns the process that holds the lock on a file.
#[cfg(target_os = "linux")]
fn holder(file: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    let found = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let mut locks = String::new();
    File::open("/proc/locks").ok()?.take(1 << 20).read_to_string(&mut locks).ok()?;
    holder_in(&locks, &place)
}

/// Other systems do not report the process.
#[cfg(not(target_os = "linux"))]
fn holder(_: &File) -> Option<u32> {
    None
}

/// Finds the holder of a lock on `place` in the text of `/proc/locks`. Its lines look like `1: FLOCK  ADVISORY  WRITE
/// 4242 fe:00:1234 0 EOF`, with `->` before `FLOCK` for a waiting process. The process is 0 when it belongs to another
/// container.
#[cfg(target_os = "linux")]
fn holder_in(locks: &str, place: &str) -> Option<u32> {
    let pid = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next()?;
        let (pid, at) = (words.nth(2)?, words.next()?);
        (kind == "FLOCK" && at == place).then(|| pid.parse::<u32>().ok()).flatten()
    });
    pid.filter(|pid| *pid > 0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 7 fe:00:1 0 EOF\n\
        2: FLOCK  ADVISORY  WRITE 4242 fe:00:1 0 EOF\n\
        2: -> FLOCK  ADVISORY  WRITE 4343 fe:00:1 0 EOF\n\
        3: FLOCK  ADVISORY  WRITE 0 fe:00:2 0 EOF\n\
        nonsense\n";

    #[test]
    fn lock_holder_is_found_by_device_and_inode() {
        assert_eq!(holder_in(LOCKS, "fe:00:1"), Some(4242));
        assert_eq!(holder_in(LOCKS, "fe:00:2"), None);
        assert_eq!(holder_in(LOCKS, "fe:01:1"), None);
        assert_eq!(holder_in("", "fe:00:1"), None);
    }

    #[test]
    fn second_lock_is_refused_and_names_the_holder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let _held = open_locked(file.path()).unwrap();
        let error = open_locked(file.path()).unwrap_err();
        let SessionErrorKind::Locked { pid } = &error.kind else { panic!("{error:?}") };
        assert_eq!(*pid, Some(std::process::id()));
        assert!(error.to_string().ends_with(&format!("is in use by process {}", std::process::id())), "{error}");
    }

    #[test]
    fn lock_ends_with_its_holder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        drop(open_locked(file.path()).unwrap());
        open_locked(file.path()).unwrap();
    }

    #[test]
    fn lock_ends_although_a_starting_program_has_the_file_too() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let held = open_locked(file.path()).unwrap();
        // What a program has between its creation and its own code.
        let inherited = held.try_clone().unwrap();
        drop(held);
        open_locked(file.path()).unwrap();
        drop(inherited);
    }
}
