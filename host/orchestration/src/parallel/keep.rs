//! What branches say, until one of them is chosen: on branches of the session, or in memory where it has none.

use pinion_protocol::event::EventKind;
use pinion_protocol::message::Message;
use pinion_protocol::store::{ChildCall, ChildSession, SessionGroup, SessionStore, StoreError};
use pinion_protocol::usage::Usage;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where branches keep what they say.
pub(super) enum Kept {
    /// On branches of the session.
    Session(Box<dyn SessionGroup>),
    /// In memory, one for each branch.
    Memory(Vec<Arc<Buffer>>),
}

impl Kept {
    /// # Errors
    /// The session could not be written.
    pub(super) fn begin(
        store: &Arc<dyn SessionStore>,
        group_id: &str,
        loop_ids: &[Arc<str>],
    ) -> Result<Self, StoreError> {
        let names: Vec<String> = loop_ids.iter().map(|id| id.to_string()).collect();
        let group = store.clone().begin_group(group_id, &names)?;
        let buffer = |_| Arc::new(Buffer { store: store.clone(), held: Mutex::default() });
        Ok(group.map_or_else(|| Self::Memory(names.iter().map(buffer).collect()), Self::Session))
    }

    /// The store of a branch, counted from 0, of those that were begun.
    pub(super) fn branch(&self, number: usize) -> Arc<dyn SessionStore> {
        match self {
            Self::Session(group) => group.branch(number),
            Self::Memory(buffers) => buffers[number].clone(),
        }
    }

    /// # Errors
    /// The session could not be written. What it took of a branch in memory until then stays in it: there is no way to
    /// take it back.
    pub(super) fn end(&self, chosen: Option<usize>, usage: Usage) -> Result<(), StoreError> {
        match self {
            Self::Session(group) => group.end(chosen, usage),
            Self::Memory(buffers) => chosen.map_or(Ok(()), |number| buffers[number].release()),
        }
    }
}

/// Holds what a loop says and does back from a store.
pub(super) struct Buffer {
    store: Arc<dyn SessionStore>,
    held: Mutex<Vec<Held>>,
}

enum Held {
    Message(Arc<Message>),
    Event(Arc<str>, Box<EventKind>),
}

impl Buffer {
    /// Gives everything to the store, in order.
    fn release(&self) -> Result<(), StoreError> {
        for held in self.held().drain(..) {
            match held {
                Held::Message(message) => self.store.append(&message)?,
                Held::Event(loop_id, kind) => self.store.observe(&loop_id, &kind),
            }
        }
        Ok(())
    }

    /// Nothing is left half-done in it when a thread panics.
    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for Buffer {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        self.held().push(Held::Message(message.clone()));
        Ok(())
    }

    fn observe(&self, loop_id: &Arc<str>, event: &EventKind) {
        // A preview is worth nothing when what it previewed is there.
        if !event.is_preview() {
            self.held().push(Held::Event(loop_id.clone(), Box::new(event.clone())));
        }
    }

    /// Sub-agents have sessions of their own, which nothing has to be held back from.
    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        self.store.child(call)
    }
}
