//! The state of an idle agent, for later or elsewhere.

use crate::context::Context;
use pinion_protocol::identity::RunNumbers;
use pinion_protocol::message::Message;
pub use pinion_protocol::usage::Totals;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
