//! What the loop asks of whoever keeps sessions.

use crate::message::Message;
use std::sync::Arc;

/// Keeps what happened. The loop tells it everything before it tells anyone else, so that nothing is ever shown as done
/// that a kill could lose.
pub trait SessionStore: Send + Sync {
    /// Keeps a message at the end of the conversation. When this returns `Ok`, the message survives a kill of this
    /// process at any moment.
    ///
    /// # Errors
    /// The message was not kept, and nothing half-written is left in its place. The loop ends the run then.
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError>;
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
