//! The port that stores sessions.

use crate::event::EventKind;
use crate::identity::RunNumbers;
use crate::message::Message;
use crate::outcome::{RunError, RunErrorKind};
use crate::usage::Spend;
use serde_json::Value;
use std::sync::Arc;

/// Records the conversation. The agent loop writes each message to the store before it notifies anyone else, so that a
/// kill never loses anything that was displayed.
pub trait SessionStore: Send + Sync {
    /// Appends a message to the conversation. Once this returns `Ok`, the message survives a kill of the process at any
    /// moment.
    ///
    /// Results of concurrent calls arrive in the order that the calls end. When the conversation is loaded,
    /// [`sort_results`](crate::result_order::sort_results) restores the order of the calls.
    ///
    /// # Errors
    /// Fails if the message was not stored; no partial record remains. The agent loop then ends the run.
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError>;

    /// Observes each event of a run whose messages this store keeps, before any watcher gets it, so that the store can
    /// record the data that it needs. Must not block for long.
    fn observe(&self, run_id: &Arc<str>, event: &EventKind) {
        let _ = (run_id, event);
    }

    /// Creates a session for a sub-agent that a call of this session starts. Returns `None` if the store does not keep
    /// sessions of sub-agents.
    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        let _ = call;
        None
    }

    /// Returns entries of the current branch after the one with this id, or from the start: at most `limit`, with at most
    /// `bytes` of data together, unless the first one alone has more.
    ///
    /// # Errors
    /// There is no such entry, or the session cannot be read.
    fn entries(&self, after: Option<&str>, limit: usize, bytes: usize) -> Result<Vec<StoredEntry>, SessionAccessError> {
        let _ = (after, limit, bytes);
        Err(SessionAccessError::NotKept)
    }

    /// Appends an entry of a plugin, which no model sees, and returns its id. A session has at most
    /// [`MAX_PLUGIN_ENTRIES`] of a plugin.
    ///
    /// # Errors
    /// There are too many, the data nests too deep, or the session cannot be written.
    fn append_of_plugin(&self, plugin: &str, data: Value) -> Result<String, SessionAccessError> {
        let _ = (plugin, data);
        Err(SessionAccessError::NotKept)
    }

    /// Returns the title of the session.
    ///
    /// # Errors
    /// The session cannot be read.
    fn title(&self) -> Result<Option<String>, SessionAccessError> {
        Err(SessionAccessError::NotKept)
    }

    /// Sets the title of the session.
    ///
    /// # Errors
    /// The session cannot be written.
    fn set_title(&self, title: &str) -> Result<(), SessionAccessError> {
        let _ = title;
        Err(SessionAccessError::NotKept)
    }

    /// Creates one branch for each of `run_ids`, which run the same prompt concurrently. Returns `None` if the store
    /// does not support branches; it then gets only the messages of the chosen run, once it is chosen.
    ///
    /// # Errors
    /// Fails if the session cannot be written.
    fn begin_group(
        self: Arc<Self>,
        group_id: &str,
        run_ids: &[String],
    ) -> Result<Option<Box<dyn SessionGroup>>, StoreError> {
        let _ = (group_id, run_ids);
        Ok(None)
    }
}

/// Maximum number of entries of a plugin in a session.
pub const MAX_PLUGIN_ENTRIES: usize = 1_000;

/// An entry of a session, as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Id of the entry.
    pub id: String,
    /// The entry in JSON.
    pub data: String,
}

/// A plugin could not use a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionAccessError {
    /// The plugin can fix it: there is no such entry, or the data is refused.
    #[error("{0}")]
    Invalid(String),
    /// The session cannot be read or written.
    #[error("{0}")]
    Io(String),
    /// The session is not kept on disk.
    #[error("the session is not kept")]
    NotKept,
}

/// Branches of a session, one for each run of a group.
pub trait SessionGroup: Send + Sync {
    /// Returns the store of the branch with this number, counted from 0.
    fn branch(&self, number: usize) -> Arc<dyn SessionStore>;

    /// Notes that a choice begins that takes runs with these numbers, so that later runs get other ids even if the program
    /// is killed before [`end`](Self::end).
    ///
    /// # Errors
    /// Fails if the session cannot be written.
    fn begin_choice(&self, runs: RunNumbers) -> Result<(), StoreError> {
        let _ = runs;
        Ok(())
    }

    /// Ends the group. The session continues from the end of the chosen branch or, with `None`, from the start of the
    /// group. `choice` accounts for the runs that the choice took, which leave no record elsewhere.
    ///
    /// # Errors
    /// Fails if the session cannot be written.
    fn end(&self, chosen: Option<usize>, choice: ChoiceAccount) -> Result<(), StoreError>;
}

/// The runs that a choice among branches took, such as a judge's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChoiceAccount {
    /// The numbers of these runs, so that later runs get other ids.
    pub runs: RunNumbers,
    /// Their turns.
    pub turns: u32,
    /// Their tokens and cost.
    pub spend: Spend,
}

/// The call that starts a sub-agent.
#[derive(Debug, Clone, Copy)]
pub struct ChildCall<'a> {
    /// Id of the call.
    pub call_id: &'a str,
    /// Name of the tool.
    pub tool: &'a str,
    /// Id of the sub-agent: the name of its kind.
    pub agent_id: &'a str,
    /// Id of the run that made the call.
    pub run_id: &'a str,
}

/// The session of a sub-agent.
#[derive(Clone)]
pub struct ChildSession {
    /// Id of the session.
    pub id: Arc<str>,
    /// Store of the session.
    pub store: Arc<dyn SessionStore>,
}

/// Stores nothing, for agents whose conversation need not outlive the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStore;

impl SessionStore for NoStore {
    fn append(&self, _: &Arc<Message>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A failure to write a session.
#[derive(Debug, thiserror::Error)]
#[error("could not write the session: {message}")]
pub struct StoreError {
    /// The operation that failed, and its file.
    pub message: String,
    /// The underlying I/O error.
    #[source]
    pub source: Option<std::io::Error>,
}

impl StoreError {
    /// Returns whether the disk, or the user's quota, has no room left.
    pub fn is_full(&self) -> bool {
        let kind = self.source.as_ref().map(std::io::Error::kind);
        matches!(kind, Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded))
    }

    /// Returns the error text with its cause, for people.
    pub fn full_text(&self) -> String {
        match &self.source {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> Self {
        let kind = if error.is_full() { RunErrorKind::StoreFull } else { RunErrorKind::Store };
        Self::new(kind, error.full_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_and_exceeded_quota_differ_from_other_failures_of_the_store() {
        let kind = |source: Option<std::io::ErrorKind>| {
            let source = source.map(std::io::Error::from);
            RunError::from(StoreError { message: "s.jsonl".into(), source }).kind
        };
        assert_eq!(kind(Some(std::io::ErrorKind::StorageFull)), RunErrorKind::StoreFull);
        assert_eq!(kind(Some(std::io::ErrorKind::QuotaExceeded)), RunErrorKind::StoreFull);
        assert_eq!(kind(Some(std::io::ErrorKind::PermissionDenied)), RunErrorKind::Store);
        assert_eq!(kind(None), RunErrorKind::Store);
    }
}
