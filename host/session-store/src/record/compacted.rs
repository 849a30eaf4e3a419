//! A compaction of the conversation.

use super::RecordType;
use pinion_protocol::EventKind;
use serde::{Deserialize, Serialize};

/// The conversation was compacted. Its summary is a message of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// The run that compacted it.
    pub loop_id: String,
    /// The number of messages that the model no longer sees.
    pub dropped: u64,
}

impl RecordType for Compacted {
    fn from_event(loop_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::Compaction { dropped, .. } = event else { return None };
        Some(Self { loop_id: loop_id.to_owned(), dropped: *dropped as u64 })
    }

    fn describe(&self) -> String {
        format!("Messages that the model no longer sees: {}", self.dropped)
    }
}
