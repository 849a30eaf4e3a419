//! The start of a parallel group.

use super::RecordType;
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
