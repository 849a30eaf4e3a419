//! A compaction of the conversation.

use super::RecordType;
use pinion_protocol::{CompactionReason, EventKind, Spend};
use serde::{Deserialize, Serialize};

/// The conversation was compacted. Its summary is a separate message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// The run that compacted it.
    pub run_id: String,
    /// The number of messages that the model no longer sees.
    pub dropped: u64,
    /// Estimated tokens of the conversation before.
    pub before: u64,
    /// Estimated tokens of the conversation after it.
    pub after: u64,
    /// Tokens and cost of the summary, if the user asked for it; other summaries are counted in the record of their
    /// run.
    #[serde(default, skip_serializing_if = "is_unwritable")]
    pub asked: Option<Spend>,
}

/// Returns whether there is no spend, or its cost is not finite: JSON has no such number, and the record would be unreadable.
fn is_unwritable(spend: &Option<Spend>) -> bool {
    !spend.is_some_and(|spend| spend.dollars().is_finite())
}

impl RecordType for Compacted {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::Compaction { reason, dropped, before, after, spend, .. } = event else { return None };
        Some(Self {
            run_id: run_id.to_owned(),
            dropped: *dropped as u64,
            before: *before,
            after: *after,
            asked: (*reason == CompactionReason::Asked).then_some(*spend),
        })
    }

    fn into_event(self) -> Option<EventKind> {
        let Self { dropped, before, after, asked, .. } = self;
        Some(EventKind::Compaction {
            reason: if asked.is_some() { CompactionReason::Asked } else { CompactionReason::Threshold },
            dropped: usize::try_from(dropped).unwrap_or(usize::MAX),
            summary: String::new(),
            failure: None,
            before,
            after,
            spend: asked.unwrap_or_default(),
        })
    }

    fn describe(&self) -> String {
        format!("Messages that the model no longer sees: {}", self.dropped)
    }
}
