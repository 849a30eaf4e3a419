//! A session without a file, for tests and for users who want no trace.

use pinion_protocol::{Message, SessionStore, StoreError};
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps messages in memory until it is dropped.
#[derive(Debug, Default)]
pub struct MemorySession {
    messages: Mutex<Vec<Arc<Message>>>,
}

impl MemorySession {
    /// Creates an empty session.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the messages so far.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl SessionStore for MemorySession {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::user;

    #[test]
    fn messages_are_kept_in_order() {
        let session = MemorySession::new();
        session.append(&user("one")).unwrap();
        session.append(&user("two")).unwrap();
        assert_eq!(session.messages(), [user("one"), user("two")]);
    }
}
