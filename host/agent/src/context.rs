//! The conversation that runs share, and the state of an idle agent.

use pinion_protocol::identity::{Continuation, RunNumbers, TurnTrigger, new_agent_id};
use pinion_protocol::message::Message;
use pinion_protocol::usage::Totals;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A conversation with its identity.
#[derive(Debug, Clone)]
pub struct Context {
    /// The system prompt, without the guidelines of tools.
    pub system_prompt: Arc<str>,
    /// The history. Every tool call in it is followed by its result.
    pub messages: Vec<Arc<Message>>,
    /// Id of the agent: random, unless the application sets it.
    pub agent_id: Arc<str>,
    /// Id of the session.
    pub session_id: Arc<str>,
    /// Id of the current or last run.
    pub run_id: Arc<str>,
    /// Numbers of the runs in the session.
    pub runs: RunNumbers,
    /// Id of the parent run: the previous run, or the run whose tool started this one.
    pub parent_run_id: Option<Arc<str>>,
    /// Id of the parent run's tool call that this run works for.
    pub call_id: Option<Arc<str>>,
    /// Relation to the parent run; `None` for a run with a prompt.
    pub continuation: Option<Continuation>,
    /// Cause of the first turn of a run with a prompt.
    pub first_trigger: TurnTrigger,
    /// True if the vendor rejected the last request as too long.
    pub is_too_long: bool,
    /// Ratio of the tokens that the vendor reported to those that were estimated, see
    /// [`ContextTracker`](crate::tokens::ContextTracker); `None` until the first run, which derives it from the history.
    pub calibration: Option<f64>,
}

impl Context {
    /// Creates an empty conversation of a new agent.
    pub fn new(system_prompt: impl Into<Arc<str>>, session_id: impl Into<Arc<str>>) -> Self {
        Self {
            system_prompt: system_prompt.into(),
            messages: Vec::new(),
            agent_id: new_agent_id().into(),
            session_id: session_id.into(),
            run_id: "".into(),
            runs: RunNumbers::default(),
            parent_run_id: None,
            call_id: None,
            continuation: None,
            first_trigger: TurnTrigger::User,
            is_too_long: false,
            calibration: None,
        }
    }
}

/// State of an idle agent, from [`Agent::snapshot`](crate::Agent::snapshot). It serializes; `pinion_session_store` saves it
/// to a file and loads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSnapshot {
    /// The agent.
    pub agent_id: Arc<str>,
    /// Its session.
    pub session_id: Arc<str>,
    /// The id of the last run.
    pub run_id: Arc<str>,
    /// The system prompt.
    pub system_prompt: Arc<str>,
    /// The history.
    pub messages: Vec<Arc<Message>>,
    /// Queued steering messages.
    pub steering: Vec<Message>,
    /// Queued follow-up messages.
    pub follow_up: Vec<Message>,
    /// Numbers of the runs so far.
    pub runs: RunNumbers,
    /// Totals so far.
    pub totals: Totals,
    /// Ratio of reported to estimated tokens, see [`Context::calibration`].
    #[serde(default)]
    pub calibration: Option<f64>,
}

impl AgentSnapshot {
    /// Returns the conversation.
    pub(crate) fn into_context(self) -> Context {
        Context {
            messages: self.messages,
            agent_id: self.agent_id,
            run_id: self.run_id,
            runs: self.runs,
            calibration: self.calibration,
            ..Context::new(self.system_prompt, self.session_id)
        }
    }
}
