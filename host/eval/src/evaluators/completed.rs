//! The run ended because the model finished.

use super::evaluator::{Evaluator, MetricScore};
use super::evidence::TrialEvidence;
use crate::case::EvaluationCase;
use pinion_protocol::RunEnd;

/// Scores the end of the run, for every case.
pub(super) struct CompletedEvaluator;

impl Evaluator for CompletedEvaluator {
    fn name(&self) -> &'static str {
        "completed"
    }

    fn evaluate(&self, _: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let finding = match &evidence.trajectory.end {
            Some(RunEnd::Done { .. }) => None,
            Some(end) => Some(format!("the run did not finish: {end}")),
            None => Some("the run has no end".to_owned()),
        };
        MetricScore::of_all(self.name(), 1, finding.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{case, seen};
    use super::*;
    use pinion_protocol::{Limit, StopReason};
    use serde_json::json;

    #[test]
    fn only_a_finished_run_passes() {
        let evaluate = |end| {
            let mut evidence = TrialEvidence::default();
            evidence.trajectory.end = end;
            seen(CompletedEvaluator.evaluate(&case(json!({})), &evidence)).unwrap()
        };
        assert_eq!(evaluate(Some(RunEnd::Done { stop_reason: StopReason::Stop })), (1.0, true, vec![]));
        let (value, passed, findings) = evaluate(Some(RunEnd::Limit { limit: Limit::Turns(2) }));
        assert_eq!((value, passed), (0.0, false));
        assert_eq!(findings, ["the run did not finish: the limit of 2 turns was reached"]);
        assert!(!evaluate(None).1);
    }
}
