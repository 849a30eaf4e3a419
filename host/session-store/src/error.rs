//! Errors of sessions: the session, the problem, and the cause as the error's source.

use crate::id::EntryId;
use crate::log::Loss;
use pinion_protocol::StoreError;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A session could not be found, opened, read, written or deleted.
///
/// The text names the session and the problem. The cause is the error's source, and [`SessionError::hint`] has the
/// remedy.
#[derive(Debug)]
pub struct SessionError {
    /// The session.
    pub subject: ErrorSubject,
    /// The kind of failure, with its cause.
    pub kind: SessionErrorKind,
}

/// The session that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorSubject {
    /// The start of an id, as a user gives it.
    Id(String),
    /// A file or directory of sessions.
    File(PathBuf),
}

/// The kinds of errors of sessions, grouped by who can fix them.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionErrorKind {
    /// The user: there is no such session.
    NotFound {
        /// Ids of the latest sessions, newest first, at most ten; empty when a file is missing.
        recent: Vec<String>,
    },

    /// The user: several ids start with the given text.
    Ambiguous {
        /// The number of these ids.
        count: usize,
        /// The ids themselves, newest first, at most ten.
        candidates: Vec<String>,
    },

    /// The user: another process writes to the session.
    Locked {
        /// The other process, if the system reports it.
        pid: Option<u32>,
    },

    /// The user: the session has no such entry.
    UnknownEntry {
        /// The entry.
        entry: EntryId,
    },

    /// The user: the session has no messages yet.
    Empty,

    /// The user: the session has changed since the snapshot was taken.
    Outdated,

    /// The user: a newer program wrote the session.
    UnsupportedVersion {
        /// The version of its format.
        found: u64,
    },

    /// The user: the file is not a session, or nothing in it can be read. The file is unchanged.
    Corrupt,

    /// The user: another program deleted, replaced or truncated the file while it was in use.
    Lost(Loss),

    /// The user: there is no space left. The session is as it was before.
    DiskFull {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },

    /// The system: an operation on a file failed.
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },

    /// The application: the entry cannot be written in a form that can be read back. The session is as it was before.
    Unwritable {
        /// The cause: the entry is too long, nests too deep, or there are too many.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Characters of an id in lists.
const SHORT_ID: usize = 8;
/// The operation that some file systems do not have.
pub(crate) const LOCK: &str = "lock";

impl SessionError {
    /// An error of the session in the file `path`.
    pub fn new(path: &Path, kind: SessionErrorKind) -> Self {
        Self { subject: ErrorSubject::File(path.to_owned()), kind }
    }

    /// Returns a function for `map_err` that names the operation that failed, as a verb, and the file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            let kind = match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    SessionErrorKind::DiskFull { action, source }
                }
                _ => SessionErrorKind::Io { action, source },
            };
            Self { subject: ErrorSubject::File(path), kind }
        }
    }

    /// Returns the user's remedy for the error; `None` when there is no general advice.
    pub fn hint(&self) -> Option<String> {
        Some(match &self.kind {
            SessionErrorKind::NotFound { recent } if !recent.is_empty() => {
                format!("the latest sessions are {}", brief(recent))
            }
            SessionErrorKind::Ambiguous { .. } => "give more characters of the id".to_owned(),
            SessionErrorKind::Locked { .. } => "quit the other process, or fork the session".to_owned(),
            SessionErrorKind::UnsupportedVersion { .. } => "update this program".to_owned(),
            SessionErrorKind::DiskFull { .. } => "free some space on the disk".to_owned(),
            SessionErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                "raise the limit on the size of files: `ulimit -f unlimited`".to_owned()
            }
            // For any cause: some network file systems have no locks, or no server for them.
            SessionErrorKind::Io { action: LOCK, .. } => {
                "sessions need locks, which some network file systems lack: set \
                 `PINION_HOME` to a local directory, or keep no session with --no-session"
                    .to_owned()
            }
            _ => return None,
        })
    }
}

/// Joins the beginnings of ids that tell them apart, of at least as many characters as lists show.
fn brief(ids: &[String]) -> String {
    let beginnings = |length: usize| ids.iter().map(move |id| id.get(..length).unwrap_or(id));
    let longest = ids.iter().map(String::len).max().unwrap_or_default();
    let is_enough = |length: &usize| beginnings(*length).collect::<BTreeSet<_>>().len() == ids.len();
    let length = (SHORT_ID..longest).find(is_enough).unwrap_or(longest);
    beginnings(length).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = &self.subject;
        match &self.kind {
            SessionErrorKind::NotFound { .. } => match subject {
                ErrorSubject::Id(id) => write!(f, "no session id starts with `{id}`"),
                ErrorSubject::File(path) => write!(f, "session `{}` does not exist", path.display()),
            },
            SessionErrorKind::Ambiguous { count, candidates } => {
                write!(f, "{count} session ids start with `{subject}`: {}", brief(candidates))
            }
            SessionErrorKind::Locked { pid: Some(pid) } => {
                write!(f, "session `{}` is in use by process {pid}", subject.brief())
            }
            SessionErrorKind::Locked { pid: None } => {
                write!(f, "session `{}` is in use by another process", subject.brief())
            }
            SessionErrorKind::UnknownEntry { entry } => write!(f, "session `{subject}` has no entry `{entry}`"),
            SessionErrorKind::Empty => write!(f, "session `{subject}` is empty"),
            SessionErrorKind::Outdated => {
                write!(f, "session `{subject}` has changed since the snapshot was taken")
            }
            SessionErrorKind::UnsupportedVersion { found } => {
                let known = crate::VERSION;
                write!(f, "session `{subject}` has format version {found}, but this program reads version {known}")
            }
            SessionErrorKind::Lost(loss) => {
                let how = match loss {
                    Loss::Deleted => "deleted",
                    Loss::Replaced => "replaced",
                    Loss::Truncated => "truncated",
                };
                write!(f, "session `{subject}` was {how} while it was in use")
            }
            SessionErrorKind::Corrupt => write!(f, "`{subject}` is not a session"),
            SessionErrorKind::DiskFull { action, .. } | SessionErrorKind::Io { action, .. } => {
                write!(f, "could not {action} `{subject}`")
            }
            SessionErrorKind::Unwritable { .. } => write!(f, "could not add an entry to session `{subject}`"),
        }
    }
}

impl Error for SessionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            SessionErrorKind::DiskFull { source, .. } | SessionErrorKind::Io { source, .. } => Some(source),
            SessionErrorKind::Unwritable { source } => Some(&**source),
            _ => None,
        }
    }
}

impl ErrorSubject {
    /// Returns the beginning of the session's id, which is enough to name it. For a file without an id in its name, its
    /// path.
    fn brief(&self) -> Cow<'_, str> {
        let Self::File(path) = self else { return self.to_string().into() };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let id = stem.rsplit_once('_').and_then(|(_, id)| id.get(..8));
        match id.filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            Some(id) => id.to_owned().into(),
            None => path.to_string_lossy(),
        }
    }
}

impl fmt::Display for ErrorSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => f.write_str(id),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl From<SessionError> for StoreError {
    fn from(error: SessionError) -> Self {
        let message = error.to_string();
        match error.kind {
            SessionErrorKind::DiskFull { source, .. } | SessionErrorKind::Io { source, .. } => {
                Self { message, source: Some(source) }
            }
            SessionErrorKind::Unwritable { source } => Self { message: format!("{message}: {source}"), source: None },
            _ => Self { message, source: None },
        }
    }
}

/// A line of a session that could not be read, and was skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadLine {
    /// Its number from 1; the header is line 1.
    pub line: u64,
    /// The reason, for people.
    pub reason: String,
}

/// The lines of a session that were skipped.
///
/// This stays small however broken a file is: lines beyond [`BadLines::MAX_REASONS`] are only counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BadLines {
    first: Vec<BadLine>,
    count: u64,
}

impl BadLines {
    /// The most lines that have a reason.
    pub const MAX_REASONS: usize = 100;

    /// The first of them, in the order of the file.
    pub fn first(&self) -> &[BadLine] {
        &self.first
    }

    /// The number of skipped lines, with and without a reason.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn push(&mut self, bad: BadLine) {
        self.count += 1;
        if self.first.len() < Self::MAX_REASONS {
            self.first.push(bad);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_full_has_a_kind_a_hint_and_its_cause_as_source() {
        let error = SessionError::io("append to", Path::new("/s"))(io::ErrorKind::StorageFull.into());
        assert!(matches!(error.kind, SessionErrorKind::DiskFull { action: "append to", .. }));
        assert_eq!(error.to_string(), "could not append to `/s`");
        assert!(error.source().is_some());
        assert_eq!(error.hint().as_deref(), Some("free some space on the disk"));
    }

    #[test]
    fn file_system_without_locks_is_explained() {
        let error = SessionError::io(LOCK, Path::new("/nfs/s"))(io::Error::from_raw_os_error(37));
        assert_eq!(error.to_string(), "could not lock `/nfs/s`");
        assert!(error.hint().unwrap().contains("`PINION_HOME`"));
        assert_eq!(SessionError::io("read", Path::new("/s"))(io::ErrorKind::Other.into()).hint(), None);
        let limited = SessionError::io("append to", Path::new("/s"))(io::ErrorKind::FileTooLarge.into());
        assert!(limited.hint().unwrap().contains("`ulimit -f unlimited`"));
    }

    #[test]
    fn ids_are_as_long_as_it_takes_to_tell_them_apart() {
        let ids = |ids: &[&str]| brief(&ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        assert_eq!(ids(&["92bd5ca2-19c4-4853", "0195fd3a-1"]), "92bd5ca2, 0195fd3a");
        assert_eq!(ids(&["92bd5ca2-19c4", "92bd5ca2-1fc4", "short"]), "92bd5ca2-19, 92bd5ca2-1f, short");
        assert_eq!(ids(&["same", "same"]), "same, same");
    }

    #[test]
    fn session_in_use_is_named_by_its_short_id() {
        let locked =
            |path: &str| SessionError::new(Path::new(path), SessionErrorKind::Locked { pid: Some(7) }).to_string();
        let path = "/h/sessions/work-1/20261122T040000Z_0195fd3a-7c1e-7a00-8000-000000000000.jsonl";
        assert_eq!(locked(path), "session `0195fd3a` is in use by process 7");
        assert_eq!(locked("/my_notes.jsonl"), "session `/my_notes.jsonl` is in use by process 7");
    }

    #[test]
    fn store_error_keeps_the_io_error_and_inlines_other_causes() {
        let io = SessionError::io("sync", Path::new("/s"))(io::ErrorKind::PermissionDenied.into());
        let store = StoreError::from(io);
        assert_eq!(store.source.unwrap().kind(), io::ErrorKind::PermissionDenied);
        let source = "too long".into();
        let store = StoreError::from(SessionError::new(Path::new("/s"), SessionErrorKind::Unwritable { source }));
        assert_eq!(
            (store.message.as_str(), store.source.is_none()),
            ("could not add an entry to session `/s`: too long", true)
        );
    }
}
