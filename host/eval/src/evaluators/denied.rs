//! No call is denied.

use super::evaluator::{Evaluator, MetricScore};
use super::evidence::TrialEvidence;
use crate::case::EvaluationCase;

/// Scores the share of calls that were not denied; all must be. Sub-agents count.
pub(super) struct DeniedEvaluator;

impl Evaluator for DeniedEvaluator {
    fn name(&self) -> &'static str {
        "denied"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        if !case.expect.no_denied_calls {
            return None;
        }
        let denied = evidence.trajectory.calls(true).filter(|call| call.is_denied);
        let findings = denied.map(|call| call.result.clone().unwrap_or_else(|| format!("`{}` was denied", call.tool)));
        MetricScore::of_all(self.name(), evidence.trajectory.calls(true).count().max(1), findings.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, case, seen, turns};
    use super::*;
    use serde_json::json;

    #[test]
    fn denied_call_fails_the_case() {
        let case = case(json!({ "no-denied-calls": true }));
        let mut evidence = turns(vec![vec![call("a", json!({})), call("b", json!({}))], vec![call("a", json!({}))]]);
        assert_eq!(seen(DeniedEvaluator.evaluate(&case, &evidence)), Some((1.0, true, vec![])));
        let call = &mut evidence.trajectory.turns[0].calls[1];
        (call.is_denied, call.result) = (true, Some("`b`: denied: no".to_owned()));
        let expected = vec!["`b`: denied: no".to_owned()];
        assert_eq!(seen(DeniedEvaluator.evaluate(&case, &evidence)), Some((2.0 / 3.0, false, expected)));
        assert_eq!(DeniedEvaluator.evaluate(&super::super::testing::case(json!({})), &evidence), None);
    }

    #[test]
    fn denied_call_of_a_sub_agent_counts() {
        let mut evidence = turns(vec![vec![call("a", json!({}))], vec![call("b", json!({}))]]);
        evidence.trajectory.turns[0].is_sub_agent = true;
        evidence.trajectory.turns[0].calls[0].is_denied = true;
        let score = seen(DeniedEvaluator.evaluate(&case(json!({ "no-denied-calls": true })), &evidence));
        assert_eq!(score, Some((0.5, false, vec!["`a` was denied".to_owned()])));
    }
}
