//! The start of a run.

use super::RecordType;
use crate::run_name::RunName;
use pinion_protocol::{Continuation, EventKind, TurnTrigger};
use serde::{Deserialize, Serialize};

/// A run started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run's id, `SESSION.CONFIG.NUMBER`; see [`crate::RunName`].
    pub run_id: String,
    /// The agent that ran, where agents have ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The run that it continues, or whose sub-agent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The relation to its parent; `None` for the first run of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Continuation>,
    /// The cause of its first turn. All further turns are continuations.
    #[serde(default)]
    pub trigger: TurnTrigger,
    /// The provider of its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl RecordType for RunStarted {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::AgentStart { agent_id, parent_run_id, continuation, trigger, provider, model, .. } = event
        else {
            return None;
        };
        Some(Self {
            run_id: run_id.to_owned(),
            agent_id: Some(agent_id.to_string()),
            parent_run_id: parent_run_id.as_deref().map(str::to_owned),
            continuation: continuation.clone(),
            trigger: *trigger,
            provider: Some(provider.clone()),
            model: Some(model.clone()),
        })
    }

    fn into_event(self) -> Option<EventKind> {
        let session = RunName::parse(&self.run_id).map_or("", |name| name.session);
        Some(EventKind::AgentStart {
            agent_id: self.agent_id.unwrap_or_default().into(),
            session_id: session.into(),
            parent_run_id: self.parent_run_id.map(Into::into),
            call_id: None,
            continuation: self.continuation,
            trigger: self.trigger,
            provider: self.provider.unwrap_or_default(),
            model: self.model.unwrap_or_default(),
        })
    }

    fn describe(&self) -> String {
        match &self.parent_run_id {
            Some(parent) => format!("Run {} started, after {parent}", self.run_id),
            None => format!("Run {} started", self.run_id),
        }
    }
}
