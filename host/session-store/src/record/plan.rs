//! The creation and the progress of a plan.

use super::{RecordType, cut};
use pinion_protocol::{EventKind, StepStatus};
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

/// A step of a plan started or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The first run of the step when it started, the last one when it ended.
    pub run_id: String,
    /// The number of the step, from 1.
    pub step: u64,
    /// The number of steps in the plan.
    pub steps: u64,
    /// The step's title, cut to [`Record::MAX_TEXT`](super::Record::MAX_TEXT).
    pub title: String,
    /// The status that the step has from now on.
    pub status: StepStatus,
}

impl RecordType for PlanStep {
    fn from_event(run_id: &str, event: &EventKind) -> Option<Self> {
        let EventKind::PlanStep { step, steps, title, status } = event else { return None };
        Some(Self {
            run_id: run_id.to_owned(),
            step: *step as u64,
            steps: *steps as u64,
            title: cut(title),
            status: *status,
        })
    }

    fn into_event(self) -> Option<EventKind> {
        let Self { step, steps, title, status, .. } = self;
        let number = |n| usize::try_from(n).unwrap_or(usize::MAX);
        Some(EventKind::PlanStep { step: number(step), steps: number(steps), title, status })
    }

    fn describe(&self) -> String {
        format!("Step {} of {} of the plan, {}: {}", self.step, self.steps, self.title, self.status)
    }
}
