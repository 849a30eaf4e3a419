//! The start of the choice among the branches of a parallel group.

use super::RecordType;
use pinion_protocol::RunNumbers;
use serde::{Deserialize, Serialize};

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
