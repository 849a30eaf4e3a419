//! A return to an earlier turn.

use super::RecordType;
use crate::id::EntryId;
use serde::{Deserialize, Serialize};

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
