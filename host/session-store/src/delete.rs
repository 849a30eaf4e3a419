//! Deleting a session, and what belongs to it.

use crate::error::{SessionError, SessionErrorKind};
use crate::files;
use crate::lock;
use crate::transcript::Transcript;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Deletes a session with what was set aside of it and the sessions of its sub-agents. All are locked before the first
/// is deleted, so that none is half gone because another is in use. The session itself goes last: when something
/// fails before, it is still there to be deleted again.
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
    fs::remove_file(path).map_err(SessionError::io("delete", path))
}

/// A session of a version that this program does not know is one.
fn require_session(path: &Path) -> Result<(), SessionError> {
    match Transcript::open(path) {
        Ok(_) | Err(SessionError { kind: SessionErrorKind::UnsupportedVersion { .. }, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Locks the sessions in a folder and in the folders in it. Links are not followed, as none are when it is deleted.
fn lock_all(folder: &Path, locks: &mut Vec<File>) -> Result<(), SessionError> {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(SessionError::io("read", &folder))?,
        };
        for entry in entries {
            let entry = entry.map_err(SessionError::io("read", &folder))?;
            let kind = entry.file_type().map_err(SessionError::io("read", &entry.path()))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && entry.path().extension().is_some_and(|e| e == files::EXTENSION) {
                locks.push(lock::open_locked(&entry.path())?);
            }
        }
    }
    Ok(())
}
