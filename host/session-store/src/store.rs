//! A session as the place where an agent's loop keeps its conversation.

use crate::record::Record;
use crate::session::Session;
use crate::side::Group;
use pinion_protocol::{ChildCall, ChildSession, EventKind, Message, SessionGroup, SessionStore, StoreError};
use std::sync::Arc;

impl SessionStore for Session {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        Ok(self.append_message(message)?)
    }

    fn observe(&self, loop_id: &Arc<str>, event: &EventKind) {
        if let Some(record) = Record::from_event(loop_id, event) {
            self.record_event(record);
        }
    }

    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        Some(self.child_of(call, self.entry_of_call(call.call_id)))
    }

    fn begin_group(
        self: Arc<Self>,
        group_id: &str,
        loop_ids: &[String],
    ) -> Result<Option<Box<dyn SessionGroup>>, StoreError> {
        Ok(Some(Box::new(Group::begin(self, group_id, loop_ids)?)))
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
