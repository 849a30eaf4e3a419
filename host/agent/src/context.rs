//! What a loop carries from run to run.

use pinion_protocol::identity::{Continuation, TurnTrigger};
use pinion_protocol::message::Message;
use std::sync::Arc;

/// A conversation, and whose it is.
#[derive(Debug, Clone)]
pub struct Context {
    /// The system prompt, without the guidelines of tools.
    pub system_prompt: Arc<str>,
    /// The history. Every tool call in it is followed by its result.
    pub messages: Vec<Arc<Message>>,
    /// The agent.
    pub agent_id: Arc<str>,
    /// The session.
    pub session_id: Arc<str>,
    /// The loop that runs, or ran last.
    pub loop_id: Arc<str>,
    /// Loops that the session has seen.
    pub loops: u32,
    /// The loop from which this one came: the one before it, or the one whose tool began it.
    pub parent_loop_id: Option<Arc<str>>,
    /// How it goes on from there; none for a loop that begins with a prompt.
    pub continuation: Option<Continuation>,
    /// What begins the first turn of a loop that begins with a prompt.
    pub first_trigger: TurnTrigger,
}

impl Context {
    /// Counts a run, which has this id.
    pub(crate) fn begin_run(&mut self, loop_id: Arc<str>) {
        self.loop_id = loop_id;
        self.loops = self.loops.saturating_add(1);
    }

    /// An empty conversation.
    pub fn new(system_prompt: impl Into<Arc<str>>, session_id: impl Into<Arc<str>>) -> Self {
        Self {
            system_prompt: system_prompt.into(),
            messages: Vec::new(),
            agent_id: "agent".into(),
            session_id: session_id.into(),
            loop_id: "".into(),
            loops: 0,
            parent_loop_id: None,
            continuation: None,
            first_trigger: TurnTrigger::User,
        }
    }
}
