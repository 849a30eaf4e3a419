//! The name that the user gives a session, and the title that a plugin gave it last, each in a file next to the
//! session's file. Lists show them and read only the start of a session.

use crate::error::SessionError;
use crate::files;
use crate::transcript::open_file;
use pinion_files::Durability;
use pinion_protocol::text::printable;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Maximum characters of a name.
const MAX_CHARACTERS: usize = 100;
/// Maximum bytes of the file that are read.
const MAX_BYTES: u64 = 1_024;

/// A name for lists of sessions, and the extension of its file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SessionFileName {
    /// The user's.
    OfUser,
    /// A plugin's, which is also a record of the session.
    OfPlugin,
}

impl SessionFileName {
    /// Returns the file with this name of the session in the file `path`.
    pub(crate) fn file_of(self, path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(match self {
            Self::OfUser => ".name",
            Self::OfPlugin => ".title",
        });
        name.into()
    }
}

/// Returns the name of a session for lists, made harmless for a terminal: the user's before a plugin's. `None` if it
/// has no name, or an unreadable one.
pub(crate) fn shown(path: &Path) -> Option<String> {
    read(path, SessionFileName::OfUser).or_else(|| read(path, SessionFileName::OfPlugin))
}

fn read(path: &Path, name: SessionFileName) -> Option<String> {
    let file = name.file_of(path);
    if !fs::symlink_metadata(&file).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    open_file(&file).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    clean(&String::from_utf8_lossy(&bytes))
}

/// Names a session; an empty name removes the one that it has.
pub(crate) fn write(path: &Path, which: SessionFileName, name: &str) -> Result<(), SessionError> {
    let file = which.file_of(path);
    let Some(name) = clean(name) else { return remove(path, which) };
    let mut part = files::create_part(&file, Durability::Buffered)?;
    let written = part.write_all(name.as_bytes());
    written.map_err(SessionError::io("write", &file))?;
    part.replace(&file).map(drop).map_err(|unplaced| SessionError::io("write", &file)(unplaced.cause))
}

/// Removes a name of a session, if it has it.
pub(crate) fn remove(path: &Path, name: SessionFileName) -> Result<(), SessionError> {
    let file = name.file_of(path);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SessionError::io("delete", &file)(error)),
        _ => Ok(()),
    }
}

fn clean(name: &str) -> Option<String> {
    let line = name.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(printable(line).replace('\t', " ").chars().take(MAX_CHARACTERS).collect())
}
