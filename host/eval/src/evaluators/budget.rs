//! Upper bounds of calls, turns, tokens, cost and time, and detours: repeated calls, and more turns than needed.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence, counted};
use crate::case::EvaluationCase;
use std::collections::HashSet;

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
            (bounds.tokens, trajectory.usage.total(), "token"),
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

/// Weights of the share of distinct calls, and of the ratio of needed turns.
const DISTINCT: f64 = 0.6;
const STEPS: f64 = 0.4;

/// Scores `0.6 × distinct calls / calls + 0.4 × min(needed, actual turns) / actual turns`, of the agent itself. There is
/// no score without calls.
pub(super) struct EfficiencyEvaluator;

impl Evaluator for EfficiencyEvaluator {
    fn name(&self) -> &'static str {
        "efficiency"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let expected = case.expect.efficiency?;
        let trajectory = &evidence.trajectory;
        // The arguments are compared in a form with sorted keys.
        let calls: Vec<_> = trajectory.calls(false).map(|call| (&call.tool, sorted(&call.arguments))).collect();
        let turns = trajectory.turns.iter().filter(|turn| !turn.is_sub_agent).count() as u64;
        if calls.is_empty() || turns == 0 {
            return None;
        }
        let distinct = calls.iter().collect::<HashSet<_>>().len();
        let needed = expected.turns.unwrap_or(distinct as u64);
        let duplicates = distinct as f64 / calls.len() as f64;
        let steps = needed.min(turns) as f64 / turns as f64;
        let value = DISTINCT * duplicates + STEPS * steps;
        let repeated = (calls.len() - distinct) as u64;
        let repeated = (repeated > 0).then(|| format!("{} repeated", counted(repeated, "call")));
        let longer = (needed < turns).then(|| format!("{}, {needed} needed", counted(turns, "turn")));
        let findings = repeated.into_iter().chain(longer).collect();
        Some(MetricScore::new(self.name(), value, expected.threshold, findings))
    }
}

fn sorted(value: &serde_json::Value) -> String {
    crate::audit::canonical_text(value)
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
        let kept = json!({ "calls": 3, "turns": 3, "tokens": 155, "input-tokens": 125, "output-tokens": 30, "cost": 0.25,
            "seconds": 1.5 });
        assert_eq!(score(kept, Some(0.25)), Some((1.0, true, vec![])));
        let exceeded = json!({ "calls": 2, "turns": 2, "tokens": 154, "input-tokens": 124, "output-tokens": 29, "cost": 0.24,
            "seconds": 1.4 });
        let (value, passed, findings) = score(exceeded, Some(0.25)).unwrap();
        assert_eq!((value, passed), (0.0, false));
        let expected = [
            "3 calls, at most 2 expected",
            "3 turns, at most 2 expected",
            "155 tokens, at most 154 expected",
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
    fn calls_and_turns_of_sub_agents_count() {
        let mut evidence = turns(vec![vec![call("a", json!({}))], vec![call("b", json!({}))]]);
        evidence.trajectory.turns[0].is_sub_agent = true;
        let case = case(json!({ "budget": { "calls": 1, "turns": 1 } }));
        let findings = ["2 calls, at most 1 expected", "2 turns, at most 1 expected"];
        let expected = (0.0, false, findings.map(str::to_owned).to_vec());
        assert_eq!(seen(BudgetEvaluator.evaluate(&case, &evidence)), Some(expected));
    }

    #[test]
    fn scores_have_values_computed_by_hand() {
        let expect = |expect| case(json!({ "efficiency": expect }));
        let read = |path: &str| call("read", json!({ "path": path }));
        // 3 of 4 calls are distinct, in 5 turns: 0.6 × 3/4 + 0.4 × 3/5.
        let evidence = turns(vec![vec![read("a")], vec![read("b")], vec![read("a")], vec![read("c")], vec![]]);
        let findings = vec!["1 call repeated".to_owned(), "5 turns, 3 needed".to_owned()];
        let (value, passed, found) = seen(EfficiencyEvaluator.evaluate(&expect(json!({})), &evidence)).unwrap();
        assert!((value - 0.69).abs() < 1e-12 && passed);
        assert_eq!(found, findings);
        // With 5 turns needed: 0.6 × 3/4 + 0.4.
        let (value, ..) = seen(EfficiencyEvaluator.evaluate(&expect(json!({ "turns": 9 })), &evidence)).unwrap();
        assert!((value - 0.85).abs() < 1e-12);
        assert!(!EfficiencyEvaluator.evaluate(&expect(json!({ "threshold": 0.7 })), &evidence).unwrap().passed);
        assert_eq!(EfficiencyEvaluator.evaluate(&expect(json!({})), &turns(vec![vec![]])), None);
    }

    #[test]
    fn order_of_arguments_makes_no_difference() {
        let one = call("a", json!({ "x": 1, "y": [{ "p": 1, "q": 2 }] }));
        let other = call("a", json!({ "y": [{ "q": 2, "p": 1 }], "x": 1 }));
        let (value, ..) =
            seen(EfficiencyEvaluator.evaluate(&case(json!({ "efficiency": {} })), &turns(vec![vec![one, other]])))
                .unwrap();
        // 0.6 × 1/2 + 0.4 × 1/1.
        assert!((value - 0.7).abs() < 1e-12);
    }

    #[test]
    fn calls_of_sub_agents_do_not_count() {
        let again = || vec![call("a", json!({}))];
        let mut evidence = turns(vec![again(), again(), again()]);
        evidence.trajectory.turns[0].is_sub_agent = true;
        evidence.trajectory.turns[1].is_sub_agent = true;
        let score = seen(EfficiencyEvaluator.evaluate(&case(json!({ "efficiency": {} })), &evidence));
        assert_eq!(score, Some((1.0, true, vec![])));
    }
}
