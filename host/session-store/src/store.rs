//! Sessions as the place where an agent's loop keeps its conversation: in a file, or in memory only.

use crate::access;
use crate::name::{self, SessionFileName};
use crate::parallel_groups::ParallelGroup;
use crate::record::{Record, Titled};
use crate::session::Session;
use pinion_protocol::{
    ChildCall, ChildSession, EventKind, Message, SessionAccessError, SessionGroup, SessionStore, StoreError,
    StoredEntry,
};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

impl SessionStore for Session {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        Ok(self.append_message(message)?)
    }

    fn observe(&self, run_id: &Arc<str>, event: &EventKind) {
        if let Some(record) = Record::from_event(run_id, event) {
            self.record_event(record);
        }
    }

    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        Some(self.child_of(call, self.entry_of_call(call.call_id)))
    }

    fn entries(&self, after: Option<&str>, limit: usize, bytes: usize) -> Result<Vec<StoredEntry>, SessionAccessError> {
        access::entries(self.path(), self.position(), after, limit, bytes)
    }

    fn append_of_plugin(&self, plugin: &str, data: Value) -> Result<String, SessionAccessError> {
        self.append_plugin_entry(plugin, data, |record| self.record(record))
    }

    fn title(&self) -> Result<Option<String>, SessionAccessError> {
        access::title(self.path(), self.position())
    }

    fn set_title(&self, title: &str) -> Result<(), SessionAccessError> {
        let record = Record::Titled(Titled { title: title.to_owned() });
        self.record(&record).map_err(|error| access::failed(&error))?;
        name::write(self.path(), SessionFileName::OfPlugin, title).map_err(|error| access::failed(&error))
    }

    fn begin_group(
        self: Arc<Self>,
        group_id: &str,
        run_ids: &[String],
    ) -> Result<Option<Box<dyn SessionGroup>>, StoreError> {
        Ok(Some(Box::new(ParallelGroup::begin(self, group_id, run_ids)?)))
    }
}

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
#[path = "store_tests.rs"]
mod tests;
