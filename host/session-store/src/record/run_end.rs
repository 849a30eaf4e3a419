//! The end of a run.

use super::RecordType;
use pinion_protocol::{Cost, EventKind, RunEnd, Usage};
use serde::{Deserialize, Serialize};

/// A run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The run's id.
    pub run_id: String,
    /// The outcome of the run.
    pub end: RunEnd,
    /// Tokens of its requests together.
    pub usage: Usage,
    /// The cost of these tokens; `None` when the model's prices are unknown.
    #[serde(default, skip_serializing_if = "is_unwritable")]
    pub cost: Option<Cost>,
    /// The number of its turns.
    pub turns: u32,
    /// The number of messages that it added, without those that a compaction replaced.
    pub messages: u64,
}

/// Returns whether the cost is absent or not finite: JSON has no such number, and the record would be unreadable.
fn is_unwritable(cost: &Option<Cost>) -> bool {
    !cost.is_some_and(|cost| cost.total().is_finite())
}

impl RecordType for RunEnded {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::AgentEnd { end, messages, usage, cost, turns, .. } = event else { return None };
        Some(Self {
            run_id: run_id.to_owned(),
            end: end.clone(),
            usage: *usage,
            cost: *cost,
            turns: *turns,
            messages: messages.len() as u64,
        })
    }

    fn into_event(self) -> Option<EventKind> {
        let Self { end, usage, cost, turns, .. } = self;
        Some(EventKind::AgentEnd { end, messages: Vec::new(), usage, cost, turns })
    }

    fn describe(&self) -> String {
        format!("Run {} ended: {}, turns: {}", self.run_id, self.end, self.turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, RecordKind};
    use pinion_protocol::StopReason;

    #[test]
    fn infinite_cost_is_left_out_of_the_file() {
        let end = RunEnd::Done { stop_reason: StopReason::Stop };
        let cost = Some(Cost { input: f64::INFINITY, ..Cost::default() });
        let record = RunEnded { run_id: "s.c.1".into(), end, usage: Usage::default(), cost, turns: 1, messages: 2 };
        let data = serde_json::to_string(&record).unwrap();
        assert_eq!(RecordKind::RunEnded.decode(&data).unwrap(), Record::RunEnded(RunEnded { cost: None, ..record }));
    }
}
