//! A repeated request.

use super::{RecordType, cut};
use pinion_protocol::EventKind;
use serde::{Deserialize, Serialize};

/// A request to the model failed and was sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The run that sent it.
    pub run_id: String,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The last attempt that the policy allows.
    pub max_attempts: u32,
    /// The wait before this attempt, in milliseconds.
    pub delay_ms: u64,
    /// The failure, cut to [`Record::MAX_TEXT`](super::Record::MAX_TEXT).
    pub cause: String,
}

impl RecordType for Retry {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::Retry { attempt, max_attempts, delay_ms, cause, .. } = event else { return None };
        Some(Self {
            run_id: run_id.to_owned(),
            attempt: *attempt,
            max_attempts: *max_attempts,
            delay_ms: *delay_ms,
            cause: cut(cause),
        })
    }

    fn into_event(self) -> Option<EventKind> {
        let Self { attempt, max_attempts, delay_ms, cause, .. } = self;
        Some(EventKind::Retry { attempt, max_attempts, delay_ms, cause })
    }

    fn describe(&self) -> String {
        let seconds = self.delay_ms as f64 / 1e3;
        format!("Retry {} of {} after {seconds:.1} s: {}", self.attempt, self.max_attempts, self.cause)
    }
}
