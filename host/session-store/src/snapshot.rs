//! Snapshots: stop in one process and continue in another.
//!
//! A snapshot is small. The session is on disk, so the snapshot only names it and the position of the conversation.
//! When the session has grown since, restoring starts a new branch.

use crate::error::{SessionError, SessionErrorKind};
use crate::files;
use crate::id::EntryId;
use crate::recovery::{ResumableSession, open_to_continue};
use crate::session::Session;
use crate::transcript::Transcript;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The position of a conversation. Serializable; has no messages and no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSnapshot {
    /// The session's id.
    pub session: String,
    /// The session's file.
    pub path: PathBuf,
    /// The working directory of the session.
    pub workspace: PathBuf,
    /// The entry at the position; `None` before the first one.
    pub entry: Option<EntryId>,
    /// A digest of that entry's line, to find out whether it has changed.
    pub digest: Option<String>,
    /// The agent, where agents have ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The last run, which the next run continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

impl Session {
    /// Takes a snapshot of the position of the conversation. Everything appended is on the disk then, and survives a
    /// loss of power.
    ///
    /// # Errors
    /// The session has no messages yet, or cannot be read or written.
    pub fn snapshot(&self, agent_id: Option<&str>, run_id: Option<&str>) -> Result<SessionSnapshot, SessionError> {
        if !self.path().exists() {
            return Err(SessionError::new(self.path(), SessionErrorKind::Empty));
        }
        self.sync()?;
        let entry = self.position();
        let digest = digest(self.path(), entry)?;
        let path = std::path::absolute(self.path()).map_err(SessionError::io("find", self.path()))?;
        Ok(SessionSnapshot {
            session: self.id().to_owned(),
            path,
            workspace: self.header().workspace.clone(),
            entry,
            digest,
            agent_id: agent_id.map(str::to_owned),
            run_id: run_id.map(str::to_owned),
        })
    }
}

/// Opens a session at the position of a snapshot, for this process alone. Later entries stay in the session, on a
/// separate branch.
///
/// # Errors
/// As [`open_to_continue`]; or the entry has changed.
pub fn restore(snapshot: &SessionSnapshot) -> Result<ResumableSession, SessionError> {
    let mut opened = open_to_continue(&snapshot.path, &snapshot.workspace)?;
    let outdated = || SessionError::new(&snapshot.path, SessionErrorKind::Outdated);
    let digest = digest(&snapshot.path, snapshot.entry).map_err(|error| match error.kind {
        SessionErrorKind::UnknownEntry { .. } => outdated(),
        _ => error,
    })?;
    if digest != snapshot.digest {
        return Err(outdated());
    }
    // Results that opening added belong to the state of the snapshot.
    if said_since(&snapshot.path, snapshot.entry)? != Some(opened.recovery.pairing.at_end) {
        opened.messages = opened.session.go_back(snapshot.entry)?;
    }
    Ok(opened)
}

fn digest(path: &Path, entry: Option<EntryId>) -> Result<Option<String>, SessionError> {
    let Some(entry) = entry else { return Ok(None) };
    let mut transcript = Transcript::open(path)?;
    let unknown = || SessionError::new(path, SessionErrorKind::UnknownEntry { entry });
    let node = transcript.index().find(entry).ok_or_else(unknown)?;
    let nodes = transcript.index().nodes.get(node).copied().into_iter().collect();
    let mut line = transcript.entries(nodes);
    let line = line.next_line().ok_or_else(unknown)??.1;
    Ok(Some(files::digest(line)))
}

/// Counts the entries after this one up to the position; `None` when it is on another branch.
fn said_since(path: &Path, entry: Option<EntryId>) -> Result<Option<usize>, SessionError> {
    let transcript = Transcript::open(path)?;
    let branch = transcript.index().branch(transcript.index().position());
    Ok(match entry {
        None => Some(branch.len()),
        Some(entry) => branch.iter().rev().position(|node| node.id == entry),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{calls, prompts_of, user, workspace};
    use pinion_protocol::SessionStore as _;
    use tempfile::TempDir;

    fn session(directory: &TempDir, texts: &[&str]) -> Session {
        let session = Session::begin(&directory.path().join("a.jsonl"), workspace());
        texts.iter().for_each(|text| session.append(&user(text)).unwrap());
        session
    }

    /// Returns the snapshot as another process reads it.
    fn sent(snapshot: &SessionSnapshot) -> SessionSnapshot {
        serde_json::from_str(&serde_json::to_string(snapshot).unwrap()).unwrap()
    }

    #[test]
    fn restored_session_is_at_its_old_position() {
        let directory = TempDir::new().unwrap();
        let first = session(&directory, &["one", "two"]);
        let snapshot = sent(&first.snapshot(Some("agent"), Some("s.c.1")).unwrap());
        assert!(matches!(restore(&snapshot).unwrap_err().kind, SessionErrorKind::Locked { .. }));
        drop(first);
        let before = std::fs::read(&snapshot.path).unwrap();
        let opened = restore(&snapshot).unwrap();
        assert_eq!(opened.messages, [user("one"), user("two")]);
        assert_eq!(std::fs::read(&snapshot.path).unwrap(), before);
        assert_eq!((snapshot.agent_id.as_deref(), snapshot.run_id.as_deref()), (Some("agent"), Some("s.c.1")));
    }

    #[test]
    fn messages_after_a_snapshot_stay_on_their_own_branch() {
        let directory = TempDir::new().unwrap();
        let first = session(&directory, &["one"]);
        let snapshot = first.snapshot(None, None).unwrap();
        first.append(&user("since")).unwrap();
        drop(first);
        let opened = restore(&snapshot).unwrap();
        assert_eq!(opened.messages, [user("one")]);
        opened.session.append(&user("instead")).unwrap();
        let mut transcript = Transcript::open(&snapshot.path).unwrap();
        assert_eq!(prompts_of(transcript.branch()), ["one", "instead"]);
        assert_eq!(transcript.branches().len(), 2);
    }

    #[test]
    fn open_calls_of_a_snapshot_are_answered_once() {
        let directory = TempDir::new().unwrap();
        let first = session(&directory, &["one"]);
        first.append(&calls(&["1", "2"])).unwrap();
        let snapshot = first.snapshot(None, None).unwrap();
        drop(first);
        let opened = restore(&snapshot).unwrap();
        assert_eq!((opened.messages.len(), opened.recovery.pairing.at_end), (4, 2));
        drop(opened);
        assert_eq!(Transcript::open(&snapshot.path).unwrap().branches().len(), 1);
    }

    #[test]
    fn restoring_a_changed_session_is_an_error() {
        let directory = TempDir::new().unwrap();
        let first = session(&directory, &["one", "two"]);
        let snapshot = first.snapshot(None, None).unwrap();
        drop(first);
        let text = std::fs::read_to_string(&snapshot.path).unwrap();
        for changed in [text.replace("two", "too"), text.lines().take(2).collect::<Vec<_>>().join("\n") + "\n"] {
            std::fs::write(&snapshot.path, changed).unwrap();
            assert!(matches!(restore(&snapshot).unwrap_err().kind, SessionErrorKind::Outdated));
        }
        let unsaid = Session::begin(&directory.path().join("b.jsonl"), workspace());
        assert!(matches!(unsaid.snapshot(None, None).unwrap_err().kind, SessionErrorKind::Empty));
    }
}
