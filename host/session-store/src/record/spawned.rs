//! The link from a tool call to its sub-agent.

use super::RecordType;
use pinion_protocol::{EventKind, Message};
use serde::{Deserialize, Serialize};

/// A sub-agent worked on a tool call, in a separate session. That session's header has the link back, [`crate::Spawn`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// The run that made the call.
    pub run_id: String,
    /// The sub-agent's run. The id of its session is the first part of it, see [`crate::RunName`].
    pub child_run_id: String,
    /// The id of the call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
}

impl RecordType for Spawned {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::MessageEnd { message } = event else { return None };
        let Message::ToolResult(result) = &**message else { return None };
        Some(Self {
            run_id: run_id.to_owned(),
            child_run_id: result.child_run_id.clone()?,
            call_id: result.call_id.clone(),
            tool: result.tool_name.clone(),
        })
    }

    fn describe(&self) -> String {
        format!("A sub-agent worked on call {} of {}: run {}", self.call_id, self.tool, self.child_run_id)
    }
}
