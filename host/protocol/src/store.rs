//! What the loop asks of whoever keeps sessions.

use crate::event::EventKind;
use crate::message::Message;
use crate::usage::Usage;
use std::sync::Arc;

/// Keeps what happened. The loop tells it everything before it tells anyone else, so that nothing is ever shown as done
/// that a kill could lose.
pub trait SessionStore: Send + Sync {
    /// Keeps a message at the end of the conversation. When this returns `Ok`, the message survives a kill of this
    /// process at any moment.
    ///
    /// Results of calls that run beside each other come as the calls end. [`sort_results`](crate::order::sort_results) puts
    /// them in the order of the calls when the conversation is loaded.
    ///
    /// # Errors
    /// The message was not kept, and nothing half-written is left in its place. The loop ends the run then.
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError>;

    /// Observes every event of the runs whose messages this store keeps, before any watcher does, so that it can record
    /// what it needs. Must not block for long.
    fn observe(&self, loop_id: &Arc<str>, event: &EventKind) {
        let _ = (loop_id, event);
    }

    /// A session for a sub-agent that works on a call of this one. None where sub-agents' sessions are not kept.
    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        let _ = call;
        None
    }

    /// Branches for loops that work on the same prompt side by side, in the order of their ids. None where a session has
    /// no branches: then only what the chosen loop says is kept, once it is chosen.
    ///
    /// # Errors
    /// The session could not be written.
    fn begin_group(
        self: Arc<Self>,
        group_id: &str,
        loop_ids: &[String],
    ) -> Result<Option<Box<dyn SessionGroup>>, StoreError> {
        let _ = (group_id, loop_ids);
        Ok(None)
    }
}

/// Branches of a session, one for each of the loops of a group.
pub trait SessionGroup: Send + Sync {
    /// Where the loop of this number, counted from 0, keeps its messages.
    fn branch(&self, number: usize) -> Arc<dyn SessionStore>;

    /// The session goes on from the end of the chosen branch, or with none from where the group began. `usage` is what
    /// choosing took.
    ///
    /// # Errors
    /// The session could not be written.
    fn end(&self, chosen: Option<usize>, usage: Usage) -> Result<(), StoreError>;
}

/// The call that a sub-agent works on.
#[derive(Debug, Clone, Copy)]
pub struct ChildCall<'a> {
    /// The call.
    pub call_id: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The loop that made it.
    pub loop_id: &'a str,
}

/// A session of a sub-agent.
#[derive(Clone)]
pub struct ChildSession {
    /// Its id.
    pub id: Arc<str>,
    /// Where it is kept.
    pub store: Arc<dyn SessionStore>,
}

/// Keeps nothing: for agents whose conversation need not outlive the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStore;

impl SessionStore for NoStore {
    fn append(&self, _: &Arc<Message>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A session could not be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write the session: {message}")]
pub struct StoreError {
    /// What failed, on which file.
    pub message: String,
    /// Why.
    #[source]
    pub source: Option<std::io::Error>,
}

impl StoreError {
    /// Returns the error with its cause, for people.
    pub fn full_text(&self) -> String {
        match &self.source {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}
