//! Changes of sub-agents in copies of the workspace.

use super::RecordType;
use serde::{Deserialize, Serialize};

/// A sub-agent changed files in a copy of the workspace. Its parent can ask for the changes as long as the snapshots are
/// kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentChanges {
    /// The sub-agent's run.
    pub run_id: String,
    /// The name of the snapshot before its work.
    pub before: String,
    /// The name of the snapshot after its work.
    pub after: String,
    /// The number of changed paths.
    pub changed: u64,
}

impl RecordType for AgentChanges {
    fn describe(&self) -> String {
        format!("A sub-agent changed a copy: run {}, changed paths: {}", self.run_id, self.changed)
    }
}
