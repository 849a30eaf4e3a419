//! The sub-agents that run, so that the application can write to one or end it alone.

use pinion_agent::Message;
use pinion_agent::config::Inbox;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The sub-agents of a conversation that run, by the id of their run. Clones share them.
#[derive(Clone, Default)]
pub struct RunningAgents(Arc<Mutex<HashMap<Arc<str>, RunningAgent>>>);

struct RunningAgent {
    inbox: Inbox,
    token: CancellationToken,
}

impl RunningAgents {
    /// Adds a message to a sub-agent's run, which reads it after the calls in progress. Returns `false` if the run has
    /// ended.
    pub fn steer(&self, run_id: &str, message: Message) -> bool {
        let running = self.running();
        let agent = running.get(run_id).filter(|agent| !agent.token.is_cancelled());
        agent.map(|agent| agent.inbox.steering.push_patient(message)).is_some()
    }

    /// Ends a sub-agent's run and the runs below it. The call that started it gets a report that says so. Returns `false` if
    /// the run has ended.
    pub fn end(&self, run_id: &str) -> bool {
        self.running().get(run_id).map(|agent| agent.token.cancel()).is_some()
    }

    /// Adds a run until the entry is dropped.
    pub(crate) fn enter(&self, run_id: Arc<str>, inbox: Inbox, token: CancellationToken) -> RunningEntry {
        self.running().insert(run_id.clone(), RunningAgent { inbox, token });
        RunningEntry { agents: self.clone(), run_id }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Arc<str>, RunningAgent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a run when dropped.
pub(crate) struct RunningEntry {
    agents: RunningAgents,
    run_id: Arc<str>,
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        self.agents.running().remove(&self.run_id);
    }
}
