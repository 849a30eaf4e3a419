//! Upper bounds of calls, turns, tokens, cost and time.

use super::evaluator::{Evaluator, MetricScore, counted};
use super::evidence::TrialEvidence;
use crate::case::EvaluationCase;

/// Scores the share of bounds that are kept; all must be. Sub-agents count.
pub(super) struct BudgetEvaluator;

impl Evaluator for BudgetEvaluator {
    fn name(&self) -> &'static str {
        "budget"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let bounds = case.expect.budget?;
        let trajectory = &evidence.trajectory;
        let (mut expected, mut findings) = (0, Vec::new());
        let counts = [
            (bounds.calls, trajectory.calls(true).count() as u64, "call"),
            (bounds.turns, trajectory.turns.len() as u64, "turn"),
            (bounds.input_tokens, trajectory.usage.context(), "input token"),
            (bounds.output_tokens, trajectory.usage.output, "output token"),
        ];
        for (bound, count, noun) in counts {
            let Some(bound) = bound else { continue };
            expected += 1;
            findings.extend((count > bound).then(|| format!("{}, at most {bound} expected", counted(count, noun))));
        }
        if let Some(bound) = bounds.cost {
            expected += 1;
            findings.extend(match trajectory.cost {
                Some(cost) if cost <= bound => None,
                Some(cost) => Some(format!("{cost} US dollars, at most {bound} expected")),
                None => Some(format!("the cost is unknown, at most {bound} US dollars expected")),
            });
        }
        if let Some(bound) = bounds.seconds {
            expected += 1;
            let seconds = trajectory.duration_ms as f64 / 1_000.0;
            findings.extend((seconds > bound).then(|| format!("{seconds} seconds, at most {bound} expected")));
        }
        MetricScore::of_all(self.name(), expected, findings)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, case, seen, turns};
    use super::*;
    use pinion_protocol::Usage;
    use serde_json::{Value, json};

    fn score(bounds: Value, cost: Option<f64>) -> Option<(f64, bool, Vec<String>)> {
        let mut evidence =
            turns(vec![vec![call("a", json!({})), call("b", json!({}))], vec![call("a", json!({}))], vec![]]);
        evidence.trajectory.usage = Usage { input: 100, output: 30, cache_read: 20, cache_write: 5 };
        (evidence.trajectory.cost, evidence.trajectory.duration_ms) = (cost, 1_500);
        seen(BudgetEvaluator.evaluate(&case(json!({ "budget": bounds })), &evidence))
    }

    #[test]
    fn bound_itself_is_kept_and_one_less_is_not() {
        let kept =
            json!({ "calls": 3, "turns": 3, "input-tokens": 125, "output-tokens": 30, "cost": 0.25, "seconds": 1.5 });
        assert_eq!(score(kept, Some(0.25)), Some((1.0, true, vec![])));
        let exceeded =
            json!({ "calls": 2, "turns": 2, "input-tokens": 124, "output-tokens": 29, "cost": 0.24, "seconds": 1.4 });
        let (value, passed, findings) = score(exceeded, Some(0.25)).unwrap();
        assert_eq!((value, passed), (0.0, false));
        let expected = [
            "3 calls, at most 2 expected",
            "3 turns, at most 2 expected",
            "125 input tokens, at most 124 expected",
            "30 output tokens, at most 29 expected",
            "0.25 US dollars, at most 0.24 expected",
            "1.5 seconds, at most 1.4 expected",
        ];
        assert_eq!(findings, expected.map(str::to_owned));
        assert_eq!(score(json!({}), None), None);
    }

    #[test]
    fn unknown_cost_exceeds_a_bound() {
        let (value, passed, findings) = score(json!({ "cost": 9.0, "calls": 3 }), None).unwrap();
        assert_eq!((value, passed), (0.5, false));
        assert_eq!(findings, ["the cost is unknown, at most 9 US dollars expected".to_owned()]);
    }

    #[test]
    fn calls_of_sub_agents_count() {
        let mut evidence = turns(vec![vec![call("a", json!({}))], vec![call("b", json!({}))]]);
        evidence.trajectory.turns[0].is_sub_agent = true;
        let case = case(json!({ "budget": { "calls": 1 } }));
        let expected = (0.0, false, vec!["2 calls, at most 1 expected".to_owned()]);
        assert_eq!(seen(BudgetEvaluator.evaluate(&case, &evidence)), Some(expected));
    }
}
