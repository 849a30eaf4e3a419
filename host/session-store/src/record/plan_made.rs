//! The creation of a plan.

use super::{RecordType, cut};
use pinion_protocol::EventKind;
use serde::{Deserialize, Serialize};

/// A planner made a plan. The plan itself is in the arguments of its last call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanMade {
    /// The planner's run.
    pub run_id: String,
    /// The plan's title, cut to [`Record::MAX_TEXT`](super::Record::MAX_TEXT).
    pub title: String,
    /// The number of its steps.
    pub steps: u64,
}

impl RecordType for PlanMade {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::PlanMade { title, steps } = event else { return None };
        Some(Self { run_id: run_id.to_owned(), title: cut(title), steps: *steps as u64 })
    }

    fn into_event(self) -> Option<EventKind> {
        Some(EventKind::PlanMade { title: self.title, steps: usize::try_from(self.steps).unwrap_or(usize::MAX) })
    }

    fn describe(&self) -> String {
        format!("Plan made, with {} steps: {}", self.steps, self.title)
    }
}
