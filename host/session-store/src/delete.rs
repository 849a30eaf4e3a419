//! Deletes a session with everything that belongs to it.

use crate::error::{SessionError, SessionErrorKind};
use crate::files;
use crate::lock::{self, OpenSession};
use crate::name::{self, SessionFileName};
use crate::transcript::Transcript;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Deletes a session, the parts that were moved out of it, and the sessions of its sub-agents. Locks all of them before
/// it deletes the first, so that a session in use never leaves a half-deleted one. Deletes the session itself last, so
/// that a failure before leaves it to be deleted again.
pub(crate) fn delete(path: &Path) -> Result<(), SessionError> {
    let mut locks = vec![lock::open_locked(path)?];
    require_session(path)?;
    let children = files::children_of(path);
    lock_all(&children, &mut locks)?;
    match fs::remove_dir_all(&children) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(SessionError::io("delete", &children)(error));
        }
        _ => {}
    }
    for aside in files::asides_of(path).map_err(SessionError::io("delete", path))? {
        fs::remove_file(&aside).map_err(SessionError::io("delete", &aside))?;
    }
    name::remove(path, SessionFileName::OfUser)?;
    name::remove(path, SessionFileName::OfPlugin)?;
    fs::remove_file(path).map_err(SessionError::io("delete", path))
}

/// Fails unless the file is a session. A session of an unknown version is one.
fn require_session(path: &Path) -> Result<(), SessionError> {
    match Transcript::open(path) {
        Ok(_) | Err(SessionError { kind: SessionErrorKind::UnsupportedVersion { .. }, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Locks the sessions in a directory and below it. Does not follow links, as `remove_dir_all` does not either.
fn lock_all(directory: &Path, locks: &mut Vec<OpenSession>) -> Result<(), SessionError> {
    let mut directories: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(SessionError::io("read", &directory))?,
        };
        for entry in entries {
            let entry = entry.map_err(SessionError::io("read", &directory))?;
            let kind = entry.file_type().map_err(SessionError::io("read", &entry.path()))?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() && entry.path().extension().is_some_and(|e| e == files::EXTENSION) {
                locks.push(lock::open_locked(&entry.path())?);
            }
        }
    }
    Ok(())
}
