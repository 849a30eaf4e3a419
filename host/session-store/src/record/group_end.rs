//! The end of a parallel group.

use super::RecordType;
use pinion_protocol::Usage;
use serde::{Deserialize, Serialize};

/// A parallel group ended. The entry follows the branch that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupEnd {
    /// The id of the group.
    pub group_id: String,
    /// The run that was chosen; none when all failed or were aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Tokens that the choice took.
    #[serde(default)]
    pub usage: Usage,
}

impl RecordType for GroupEnd {
    fn describe(&self) -> String {
        match &self.chosen {
            Some(chosen) => format!("Group {} ended; chosen: run {chosen}", self.group_id),
            None => format!("Group {} ended; none was chosen", self.group_id),
        }
    }
}
