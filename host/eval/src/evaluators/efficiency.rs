//! The directness of the work: repeated calls, and more turns than needed.

use super::evaluator::{Evaluator, MetricScore, counted};
use super::evidence::TrialEvidence;
use crate::case::EvaluationCase;
use std::collections::HashSet;

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
    crate::canonical::text(value)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, case, seen, turns};
    use super::*;
    use serde_json::json;

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
