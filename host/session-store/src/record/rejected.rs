//! A refused prompt.

use super::{RecordType, cut};
use pinion_protocol::EventKind;
use serde::{Deserialize, Serialize};

/// A filter refused a prompt before anything was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The run of the prompt.
    pub run_id: String,
    /// The filter's reason, cut to [`Record::MAX_TEXT`](super::Record::MAX_TEXT).
    pub reason: String,
}

impl RecordType for Rejected {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::InputRejected { reason, .. } = event else { return None };
        Some(Self { run_id: run_id.to_owned(), reason: cut(reason) })
    }

    fn into_event(self) -> Option<EventKind> {
        Some(EventKind::InputRejected { reason: self.reason })
    }

    fn describe(&self) -> String {
        format!("The prompt was refused: {}", self.reason)
    }
}
