//! What can go wrong with sessions, grouped by who can do something about it.

use crate::id::EntryId;
use pinion_protocol::StoreError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A session could not be opened, found or listed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The user: no session begins with what was given.
    #[error("no session begins with `{prefix}`")]
    UnknownId {
        /// What was looked for.
        prefix: String,
        /// Ids of the sessions used last, newest first, at most ten.
        recent: Vec<String>,
    },

    /// The user: more letters are needed.
    #[error("`{prefix}` is the beginning of {count} sessions: {}", candidates.join(", "))]
    AmbiguousId {
        /// What was looked for.
        prefix: String,
        /// How many sessions begin with it.
        count: usize,
        /// Their ids, newest first, at most ten.
        candidates: Vec<String>,
    },

    /// The user: another process writes to this session.
    #[error("session `{}` is in use by {}", path.display(), Holder(*pid))]
    InUse {
        /// The session's file.
        path: PathBuf,
        /// Who holds it, where the system tells.
        pid: Option<u32>,
    },

    /// The user: the session has no such entry.
    #[error("session `{}` has no entry `{entry}`", path.display())]
    UnknownEntry {
        /// The session's file.
        path: PathBuf,
        /// What was looked for.
        entry: EntryId,
    },

    /// The user: nothing was said in the session yet, so there is nothing to take from it.
    #[error("session `{}` is empty", path.display())]
    Empty {
        /// The session's file.
        path: PathBuf,
    },

    /// The user: the session is no longer what the snapshot was taken of.
    #[error("session `{}` is not as it was when the snapshot was taken", path.display())]
    SnapshotIsOutdated {
        /// The session's file.
        path: PathBuf,
    },

    /// The user: the session was written by a newer version of this program.
    #[error("session `{}` has format version {found}, and this program reads version {}", path.display(), crate::VERSION)]
    UnsupportedVersion {
        /// The session's file.
        path: PathBuf,
        /// The version that it has.
        found: u64,
    },

    /// The user: the file is something else. It was not touched.
    #[error("`{}` is not a session", path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
    },

    /// The system: a file could not be read or written.
    #[error("could not {action} `{}`", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },

    /// The system: the session was read, and could not be written to.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SessionError {
    /// Makes an I/O error into one that says what was tried, on which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

struct Holder(Option<u32>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another process"),
        }
    }
}

/// A line of a session that could not be read, and was left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadLine {
    /// From 1; the header is line 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// The lines that were left out of a session.
///
/// However broken a file is, this stays small: beyond [`BadLines::KEPT`] they are only counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BadLines {
    first: Vec<BadLine>,
    count: u64,
}

impl BadLines {
    /// How many are kept with their reason.
    pub const KEPT: usize = 100;

    /// The first of them, in the order in which they were found.
    pub fn first(&self) -> &[BadLine] {
        &self.first
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn push(&mut self, bad: BadLine) {
        self.count += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(bad);
        }
    }
}
