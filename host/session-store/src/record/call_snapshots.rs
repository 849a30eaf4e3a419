//! The snapshots around one call.

use super::RecordType;
use serde::{Deserialize, Serialize};

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
