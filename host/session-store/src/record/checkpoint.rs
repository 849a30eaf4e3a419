//! Snapshots of the workspace, and returns to an earlier turn.

use super::RecordType;
use crate::id::EntryId;
use serde::{Deserialize, Serialize};

/// A snapshot of the workspace was taken, or could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The relation of the snapshot to the work of the agent.
    pub moment: Moment,
    /// The name of the snapshot; `None` if it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The reason why it was not taken, cut to [`Record::MAX_TEXT`](super::Record::MAX_TEXT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The relation of a snapshot to the work of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Moment {
    /// Before the first call that may change files.
    Before,
    /// After the work.
    After,
}

impl RecordType for Checkpoint {
    fn describe(&self) -> String {
        let moment = match self.moment {
            Moment::Before => "before the agent changed files",
            Moment::After => "after the agent changed files",
        };
        match &self.problem {
            Some(problem) => format!("No checkpoint {moment}: {problem}"),
            None => format!("Checkpoint {moment}"),
        }
    }
}

/// A call that may change files ended. Recorded while the journal is on, in the order in which the calls ended; the
/// entry precedes the call's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSnapshots {
    /// The id of the call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The beginning of the arguments, as JSON. Sub-agents' calls have their messages in other sessions.
    pub arguments: String,
    /// The name of the snapshot before the call; of concurrent calls, the one at the end of the call that ended last.
    pub before: String,
    /// The name of the snapshot at the end of the call.
    pub after: String,
}

impl RecordType for CallSnapshots {
    fn describe(&self) -> String {
        let effect = if self.before == self.after { "no files changed" } else { "files changed" };
        format!("Snapshots around call {} of {}: {effect}", self.call_id, self.tool)
    }
}

/// Turns of the user were undone. A checkpoint of the moment `after` follows when the files were restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewound {
    /// The number of turns.
    pub turns: u64,
    /// The position of the conversation before, if the conversation was rewound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<EntryId>,
    /// The snapshot of the workspace before, if files were restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl RecordType for Rewound {
    fn describe(&self) -> String {
        let what = match (self.left.is_some(), self.before.is_some()) {
            (true, true) => "files and conversation",
            (false, true) => "files",
            (_, false) => "conversation",
        };
        format!("Undone turns: {} ({what})", self.turns)
    }
}
