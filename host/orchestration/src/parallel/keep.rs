//! Stores the messages of branches until one is chosen: on branches of the session, or in memory if branches are not
//! supported.

use pinion_protocol::event::EventKind;
use pinion_protocol::identity::RunNumbers;
use pinion_protocol::message::Message;
use pinion_protocol::store::{ChildCall, ChildSession, ChoiceAccount, SessionGroup, SessionStore, StoreError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Storage for the messages of a group of branches.
pub(super) enum GroupStore {
    /// Branches of the session.
    Session(Box<dyn SessionGroup>),
    /// Memory, with one buffer for each branch.
    Memory(Vec<Arc<Buffer>>),
}

impl GroupStore {
    /// Creates the storage for the runs `run_ids`.
    ///
    /// # Errors
    /// Fails if the session cannot be written.
    pub(super) fn begin(
        store: &Arc<dyn SessionStore>,
        group_id: &str,
        run_ids: &[Arc<str>],
    ) -> Result<Self, StoreError> {
        let names: Vec<String> = run_ids.iter().map(|id| id.to_string()).collect();
        let group = store.clone().begin_group(group_id, &names)?;
        let buffer = |_| Arc::new(Buffer { store: store.clone(), held: Mutex::default() });
        Ok(group.map_or_else(|| Self::Memory(names.iter().map(buffer).collect()), Self::Session))
    }

    /// Returns the store of a branch, counted from 0. Panics if there is no such branch.
    pub(super) fn branch(&self, number: usize) -> Arc<dyn SessionStore> {
        match self {
            Self::Session(group) => group.branch(number),
            Self::Memory(buffers) => buffers[number].clone(),
        }
    }

    /// Notes the runs that a choice takes, before they start.
    ///
    /// # Errors
    /// Fails if the session cannot be written.
    pub(super) fn begin_choice(&self, runs: RunNumbers) -> Result<(), StoreError> {
        match self {
            Self::Session(group) if !runs.is_empty() => group.begin_choice(runs),
            _ => Ok(()),
        }
    }

    /// Continues the session from the chosen branch.
    ///
    /// # Errors
    /// Fails if the session cannot be written. Messages already copied from a branch in memory remain in the session,
    /// because stores cannot remove messages.
    pub(super) fn end(&self, chosen: Option<usize>, choice: ChoiceAccount) -> Result<(), StoreError> {
        match self {
            Self::Session(group) => group.end(chosen, choice),
            Self::Memory(buffers) => chosen.map_or(Ok(()), |number| buffers[number].release()),
        }
    }
}

/// Buffers the messages and events of a run for a store.
pub(super) struct Buffer {
    store: Arc<dyn SessionStore>,
    held: Mutex<Vec<KeptItem>>,
}

enum KeptItem {
    Message(Arc<Message>),
    Event(Arc<str>, Box<EventKind>),
}

impl Buffer {
    /// Passes everything to the store in order.
    fn release(&self) -> Result<(), StoreError> {
        for held in self.held().drain(..) {
            match held {
                KeptItem::Message(message) => self.store.append(&message)?,
                KeptItem::Event(run_id, kind) => self.store.observe(&run_id, &kind),
            }
        }
        Ok(())
    }

    /// Locks the buffer. A panic leaves it consistent, so poisoning is ignored.
    fn held(&self) -> MutexGuard<'_, Vec<KeptItem>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for Buffer {
    fn append(&self, message: &Arc<Message>) -> Result<(), StoreError> {
        self.held().push(KeptItem::Message(message.clone()));
        Ok(())
    }

    fn observe(&self, run_id: &Arc<str>, event: &EventKind) {
        // A preview is useless once the complete event exists.
        if !event.is_preview() {
            self.held().push(KeptItem::Event(run_id.clone(), Box::new(event.clone())));
        }
    }

    /// Sub-agents have separate sessions, which need no buffering.
    fn child(&self, call: ChildCall<'_>) -> Option<ChildSession> {
        self.store.child(call)
    }
}
