//! Messages that the model gets with the next one of the user: the shell commands that the user ran.

use pinion_agent::Message;
use std::sync::{Arc, Mutex, PoisonError};

/// Messages that wait for the next one of the user, whether it begins a run or steers one.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingMessages(Arc<Mutex<Vec<Message>>>);

impl PendingMessages {
    pub(crate) fn add(&self, messages: impl IntoIterator<Item = Message>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
    }

    pub(crate) fn take_messages(&self) -> Vec<Message> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
