//! The steps of a plan are done in their order.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence};
use crate::case::EvaluationCase;
use crate::trajectory::PlanProgress;
use pinion_protocol::StepStatus;

/// Scores the share of steps that began after the steps before them and were done; all must be.
pub(super) struct PlanEvaluator;

impl Evaluator for PlanEvaluator {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        if !case.expect.plan_followed {
            return None;
        }
        let progress = &evidence.trajectory.plan;
        let steps = progress.iter().map(|entry| entry.steps.max(entry.step)).max().unwrap_or_default();
        if steps == 0 {
            return MetricScore::of_all(self.name(), 1, vec!["no step of a plan began".to_owned()]);
        }
        let findings = (1..=steps).filter_map(|step| problem(progress, step)).collect();
        MetricScore::of_all(self.name(), steps, findings)
    }
}

/// Returns the reason a step does not count.
fn problem(progress: &[PlanProgress], step: usize) -> Option<String> {
    let Some(began) = progress.iter().position(|entry| entry.step == step) else {
        return Some(format!("step {step} did not begin"));
    };
    if let Some(later) = progress[..began].iter().find(|entry| entry.step > step) {
        return Some(format!("step {step} began after step {}", later.step));
    }
    let last = progress.iter().rfind(|entry| entry.step == step)?;
    let state = match last.status {
        StepStatus::Done => return None,
        StepStatus::Failed => "failed",
        StepStatus::Open | StepStatus::Running => "did not end",
    };
    Some(format!("step {step} {state}: {}", last.title))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{case, seen};
    use super::*;
    use serde_json::json;

    fn score(entries: &[(usize, StepStatus)]) -> (f64, bool, Vec<String>) {
        let progress = entries.iter().map(|(step, status)| PlanProgress {
            step: *step,
            steps: 3,
            title: format!("t{step}"),
            status: *status,
        });
        let mut evidence = TrialEvidence::default();
        evidence.trajectory.plan = progress.collect();
        seen(PlanEvaluator.evaluate(&case(json!({ "plan-followed": true })), &evidence)).unwrap()
    }

    #[test]
    fn each_step_begins_in_order_and_is_done() {
        use StepStatus::{Done, Failed, Running};
        let whole = [(1, Running), (1, Done), (2, Running), (2, Done), (3, Running), (3, Done)];
        assert_eq!(score(&whole), (1.0, true, vec![]));
        // A step that failed and was tried again counts by its last status.
        let again =
            [(1, Running), (1, Failed), (1, Running), (1, Done), (2, Running), (2, Done), (3, Running), (3, Done)];
        assert_eq!(score(&again), (1.0, true, vec![]));
        let late = [(2, Running), (2, Done), (1, Running), (1, Done)];
        let findings = ["step 1 began after step 2", "step 3 did not begin"].map(str::to_owned).to_vec();
        assert_eq!(score(&late), (1.0 / 3.0, false, findings));
        let open = [(1, Running), (1, Done), (2, Running), (2, Failed), (3, Running)];
        let findings = ["step 2 failed: t2", "step 3 did not end: t3"].map(str::to_owned).to_vec();
        assert_eq!(score(&open), (1.0 / 3.0, false, findings));
        // A step beyond the number of steps counts as one.
        let beyond = [(1, Done), (2, Done), (3, Done), (4, Failed)];
        assert_eq!(score(&beyond), (0.75, false, vec!["step 4 failed: t4".to_owned()]));
        assert_eq!(score(&[]), (0.0, false, vec!["no step of a plan began".to_owned()]));
        assert_eq!(PlanEvaluator.evaluate(&case(json!({})), &TrialEvidence::default()), None);
    }
}
