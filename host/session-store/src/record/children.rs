//! Runs with a separate branch or session: parallel groups, and the sub-agents of tool calls.

use super::RecordType;
use pinion_protocol::{Cost, EventKind, Message, RunNumbers, Usage};
use serde::{Deserialize, Serialize};

/// Several runs started on the same prompt. Each writes its messages to a separate branch, which starts at this entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStart {
    /// The id of the group.
    pub group_id: String,
    /// The group's runs, in the order of its branches.
    pub run_ids: Vec<String>,
}

impl RecordType for GroupStart {
    fn describe(&self) -> String {
        format!("Group {} started, with runs {}", self.group_id, self.run_ids.join(", "))
    }
}

/// A parallel group ended. The entry follows the branch that was chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupEnd {
    /// The id of the group.
    pub group_id: String,
    /// The run that was chosen; `None` when all failed or were aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Tokens that the choice took.
    #[serde(default)]
    pub usage: Usage,
    /// Their cost, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Turns that the choice took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u32,
    /// The numbers of the runs for the choice, which leave no further record.
    #[serde(default, skip_serializing_if = "RunNumbers::is_empty")]
    pub runs: RunNumbers,
}

/// Returns whether no turns are to be written. The signature is the one that serde requires.
fn is_zero(turns: &u32) -> bool {
    *turns == 0
}

impl RecordType for GroupEnd {
    fn describe(&self) -> String {
        match &self.chosen {
            Some(chosen) => format!("Group {} ended; chosen: run {chosen}", self.group_id),
            None => format!("Group {} ended; none was chosen", self.group_id),
        }
    }
}

/// The choice among the branches of a group begins. The entry is at the end of the group's first branch. After a kill
/// during the choice, it is the only trace of the runs that choose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupChoice {
    /// The id of the group.
    pub group_id: String,
    /// The numbers of the runs that choose.
    #[serde(default)]
    pub runs: RunNumbers,
}

impl RecordType for GroupChoice {
    fn describe(&self) -> String {
        let runs = self.runs.clone().into_iter().map(|(config, number)| format!("{config} {number}"));
        format!("Choice in group {} started, by {}", self.group_id, runs.collect::<Vec<_>>().join(", "))
    }
}

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
