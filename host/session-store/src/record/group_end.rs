//! The end of a parallel group.

use super::RecordType;
use pinion_protocol::{Cost, RunNumbers, Usage};
use serde::{Deserialize, Serialize};

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
