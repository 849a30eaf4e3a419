//! The versions of files that sessions have read.
//!
//! A file may change after the model read it: a person edits it, or another agent, or a program. Replacing it with the
//! model's edit of the old version would lose that change. So the tool that shows a file to the model notes its version
//! here, and the one that replaces it whole fails if the version differs.
//!
//! Reads of a session in an earlier process are not known. When it continues, every file that changed since its last
//! activity counts as changed until the session reads it.
//!
//! A version is the file's identity, size and time of change, not its content: comparing costs one `stat`. Sub-agents
//! are separate sessions, so a write by one of them is a change for its parent.

use crate::paths::identity::{Identity, identity};
use cap_primitives::fs::Metadata;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Files that are remembered for all sessions together; the half noted longest ago makes room.
const MAX_FILES: usize = 20_000;
/// Files that can be replaced at once; more may have to wait for each other.
const LOCKS: usize = 64;

/// The versions of files that sessions have read.
#[derive(Debug)]
pub struct ReadFiles {
    noted: Mutex<Noted>,
    locks: [Mutex<()>; LOCKS],
}

/// A file's state, compared with the version that a session knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownFileState {
    /// The file does not exist, or is as the session last read or wrote it.
    Current,
    /// The file is not as the session knows it.
    Changed,
    /// The session has not read the file.
    Unread,
}

#[derive(Debug, Default)]
struct Noted {
    files: HashMap<(Arc<str>, PathBuf), (u64, Version)>,
    /// The number of the next note.
    next: u64,
    /// The times when resumed sessions were last active and when they resumed.
    absences: HashMap<Arc<str>, (SystemTime, SystemTime)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    identity: Option<Identity>,
    length: u64,
    modified: Option<SystemTime>,
}

impl Version {
    fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            identity: identity(metadata),
            length: metadata.len(),
            modified: metadata.modified().ok().map(|time| time.into_std()),
        }
    }
}

impl Default for ReadFiles {
    fn default() -> Self {
        Self { noted: Mutex::default(), locks: [const { Mutex::new(()) }; LOCKS] }
    }
}

impl ReadFiles {
    /// Remembers the version of a file, by its real path.
    pub fn note(&self, session: &Arc<str>, file: &Path, metadata: &Metadata) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.files.len() >= MAX_FILES {
            let kept_from = noted.next.saturating_sub(MAX_FILES as u64 / 2);
            noted.files.retain(|_, (number, _)| *number >= kept_from);
        }
        let number = noted.next;
        noted.next += 1;
        noted.files.insert((session.clone(), file.to_owned()), (number, Version::from_metadata(metadata)));
    }

    /// Begins an absence of a session at `since`, which ends now.
    pub fn continue_session(&self, session: Arc<str>, since: SystemTime) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.absences.insert(session, (since, SystemTime::now()));
    }

    /// Compares a file, which may be missing, with the version that the session knows.
    pub fn known(&self, session: &Arc<str>, file: &Path, found: Option<&Metadata>) -> KnownFileState {
        let Some(found) = found else { return KnownFileState::Current };
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        match noted.files.get(&(session.clone(), file.to_owned())) {
            Some((_, version)) if *version == Version::from_metadata(found) => KnownFileState::Current,
            Some(_) => KnownFileState::Changed,
            None => match (noted.absences.get(session), found.modified()) {
                (Some((since, until)), Ok(modified)) if (*since..*until).contains(&modified.into_std()) => {
                    KnownFileState::Changed
                }
                _ => KnownFileState::Unread,
            },
        }
    }

    /// Waits until all other calls have finished replacing the file.
    pub fn alone(&self, file: &Path) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        file.hash(&mut hasher);
        let lock = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or(0);
        self.locks[lock].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn metadata(file: &Path) -> Metadata {
        Metadata::from_just_metadata(fs::metadata(file).unwrap())
    }

    fn known(files: &ReadFiles, session: &str, file: &Path) -> KnownFileState {
        files.known(&session.into(), file, Some(&metadata(file)))
    }

    #[test]
    fn change_is_seen_by_the_session_that_read_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "one").unwrap();
        let files = ReadFiles::default();
        assert_eq!(known(&files, "a", &file), KnownFileState::Unread);
        files.note(&"a".into(), &file, &metadata(&file));
        assert_eq!(
            (known(&files, "a", &file), known(&files, "b", &file)),
            (KnownFileState::Current, KnownFileState::Unread)
        );
        fs::write(&file, "longer").unwrap();
        assert_eq!(known(&files, "a", &file), KnownFileState::Changed);
        assert_eq!(files.known(&"a".into(), &file, None), KnownFileState::Current);
    }

    #[test]
    fn file_that_changed_while_its_session_was_away_is_changed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "one").unwrap();
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        let files = ReadFiles::default();
        files.continue_session("before".into(), modified - Duration::from_secs(1));
        files.continue_session("after".into(), modified + Duration::from_secs(1));
        let all = ["before", "after", "new"].map(|session| known(&files, session, &file));
        assert_eq!(all, [KnownFileState::Changed, KnownFileState::Unread, KnownFileState::Unread]);
        files.note(&"before".into(), &file, &metadata(&file));
        assert_eq!(known(&files, "before", &file), KnownFileState::Current);
    }

    #[test]
    fn oldest_notes_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let metadata = metadata(directory.path());
        let files = ReadFiles::default();
        let session: Arc<str> = "a".into();
        for number in 0..=MAX_FILES {
            files.note(&session, Path::new(&number.to_string()), &metadata);
        }
        let known = |number: usize| files.known(&session, Path::new(&number.to_string()), Some(&metadata));
        assert_eq!((known(0), known(MAX_FILES)), (KnownFileState::Unread, KnownFileState::Current));
        assert!(files.noted.lock().unwrap().files.len() <= MAX_FILES);
    }
}
