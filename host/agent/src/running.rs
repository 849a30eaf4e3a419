//! The use of an agent's conversation: how it is aborted, and when it last was in use.

use jiff::Timestamp;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The present use of a conversation, or the last one.
#[derive(Default)]
pub(crate) struct ConversationUse(Mutex<RunningState>);

#[derive(Default)]
struct RunningState {
    token: CancellationToken,
    /// Number of resets that wait for the conversation.
    resets: usize,
    last_active: Option<Timestamp>,
}

impl ConversationUse {
    /// Begins a use and returns its token, which is cancelled already if a reset waits for the conversation.
    pub(crate) fn begin(&self) -> CancellationToken {
        let mut state = self.lock();
        (state.token, state.last_active) = (CancellationToken::new(), Some(Timestamp::now()));
        if state.resets > 0 {
            state.token.cancel();
        }
        state.token.clone()
    }

    /// Notes the end of a use.
    pub(crate) fn end(&self) {
        self.lock().last_active = Some(Timestamp::now());
    }

    /// Aborts the present use.
    pub(crate) fn abort(&self) {
        self.lock().token.cancel();
    }

    /// Aborts the present use, and those that begin until the result is dropped.
    pub(crate) fn abort_all(&self) -> AbortsAll<'_> {
        let mut state = self.lock();
        state.resets += 1;
        state.token.cancel();
        AbortsAll(self)
    }

    /// Returns the last start or end of a use.
    pub(crate) fn last_active(&self) -> Option<Timestamp> {
        self.lock().last_active
    }

    fn lock(&self) -> MutexGuard<'_, RunningState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Aborts every use that begins, until it is dropped.
pub(crate) struct AbortsAll<'a>(&'a ConversationUse);

impl Drop for AbortsAll<'_> {
    fn drop(&mut self) {
        self.0.lock().resets -= 1;
    }
}
