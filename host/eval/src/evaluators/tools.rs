//! Tools that the agent calls.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence};
use crate::case::{EvaluationCase, ExpectedCall, ToolOrder};
use crate::trajectory::TrajectoryCall;
use serde_json::Value;

/// Maximum number of calls of a trial that are compared.
const MAX_CALLS: usize = 2_000;

/// Scores the share of expected calls that were found. In the mode `exact`, further calls lower it: the share is of the
/// longer sequence.
pub(super) struct ToolEvaluator;

impl Evaluator for ToolEvaluator {
    fn name(&self) -> &'static str {
        "tools"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let tools = case.expect.tools.as_ref()?;
        let made: Vec<&TrajectoryCall> = evidence.trajectory.calls(tools.sub_agents).take(MAX_CALLS).collect();
        let found = match tools.mode {
            ToolOrder::Exact | ToolOrder::InOrder => in_order(&tools.calls, &made),
            ToolOrder::AnyOrder => any_order(&tools.calls, &made),
        };
        let of = match tools.mode {
            ToolOrder::Exact => tools.calls.len().max(made.len()),
            ToolOrder::InOrder | ToolOrder::AnyOrder => tools.calls.len(),
        };
        let met = found.iter().filter(|found| **found).count();
        let missing = tools.calls.iter().zip(&found).filter(|(_, found)| !**found);
        let mut findings: Vec<String> = missing.map(|(call, _)| format!("no call of {}", shown(call))).collect();
        if tools.mode == ToolOrder::Exact && met < made.len() {
            let names: Vec<&str> = made.iter().map(|call| call.tool.as_str()).collect();
            findings.push(format!("the calls were {}", names.join(", ")));
        }
        (of > 0).then(|| MetricScore::new(self.name(), met as f64 / of as f64, tools.threshold, findings))
    }
}

fn shown(call: &ExpectedCall) -> String {
    match &call.arguments {
        Some(arguments) => format!("`{}` with {arguments}", call.name),
        None => format!("`{}`", call.name),
    }
}

fn matches(expected: &ExpectedCall, call: &TrajectoryCall) -> bool {
    expected.name == call.tool && expected.arguments.as_ref().is_none_or(|wanted| contains(&call.arguments, wanted))
}

/// Returns whether a value has everything that is wanted: of an object at least these fields, anything else as it is.
fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(fields), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| fields.get(name).is_some_and(|value| contains(value, wanted)))
        }
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (value, wanted) => value == wanted,
    }
}

/// Returns which of the expected calls are in a longest common subsequence.
fn in_order(expected: &[ExpectedCall], made: &[&TrajectoryCall]) -> Vec<bool> {
    // The entry of `i` and `j` is the length for the rest of both from there on.
    let width = made.len() + 1;
    let mut lengths = vec![0_usize; (expected.len() + 1) * width];
    for i in (0..expected.len()).rev() {
        for j in (0..made.len()).rev() {
            lengths[i * width + j] = match matches(&expected[i], made[j]) {
                true => 1 + lengths[(i + 1) * width + j + 1],
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut found, mut i, mut j) = (vec![false; expected.len()], 0, 0);
    while i < expected.len() && j < made.len() {
        if matches(&expected[i], made[j]) && lengths[i * width + j] == 1 + lengths[(i + 1) * width + j + 1] {
            found[i] = true;
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

/// Returns which of the expected calls a largest assignment pairs with distinct calls.
fn any_order(expected: &[ExpectedCall], made: &[&TrajectoryCall]) -> Vec<bool> {
    let mut partner: Vec<Option<usize>> = vec![None; made.len()];
    for i in 0..expected.len() {
        assign(i, expected, made, &mut partner, &mut vec![false; made.len()]);
    }
    (0..expected.len()).map(|i| partner.contains(&Some(i))).collect()
}

/// Finds a call for an expected one, and other calls for those that it displaces.
fn assign(
    i: usize,
    expected: &[ExpectedCall],
    made: &[&TrajectoryCall],
    partner: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for j in 0..made.len() {
        if tried[j] || !matches(&expected[i], made[j]) {
            continue;
        }
        tried[j] = true;
        if partner[j].is_none_or(|other| assign(other, expected, made, partner, tried)) {
            partner[j] = Some(i);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, case, turns};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn score(mode: &str, expected: Value, made: &[(&str, Value)]) -> (f64, Vec<String>) {
        let case = case(json!({ "tools": { "mode": mode, "calls": expected } }));
        let made = made.iter().map(|(tool, arguments)| vec![call(tool, arguments.clone())]).collect();
        let score = ToolEvaluator.evaluate(&case, &turns(made)).unwrap();
        assert_eq!(score.passed, score.value >= 1.0);
        (score.value, score.findings)
    }

    fn names(names: &str) -> Value {
        names.chars().map(|name| json!({ "name": name.to_string() })).collect()
    }

    fn plain(mode: &str, expected: &str, made: &str) -> f64 {
        let made: Vec<String> = made.chars().map(String::from).collect();
        let made: Vec<(&str, Value)> = made.iter().map(|name| (name.as_str(), json!({}))).collect();
        score(mode, names(expected), &made).0
    }

    #[test]
    fn scores_have_values_computed_by_hand() {
        for (expected, made, exact, in_order, any_order) in [
            ("abc", "abc", 1.0, 1.0, 1.0),
            ("abc", "axbyc", 0.6, 1.0, 1.0),
            ("abc", "cba", 1.0 / 3.0, 1.0 / 3.0, 1.0),
            ("abc", "ab", 2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0),
            ("aab", "ab", 2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0),
            ("ab", "", 0.0, 0.0, 0.0),
            ("ab", "bbaa", 0.25, 0.5, 1.0),
        ] {
            assert_eq!(plain("exact", expected, made), exact, "{expected} {made}");
            assert_eq!(plain("in-order", expected, made), in_order, "{expected} {made}");
            assert_eq!(plain("any-order", expected, made), any_order, "{expected} {made}");
        }
    }

    #[test]
    fn arguments_are_a_part_of_those_of_the_call() {
        let made =
            [("read", json!({ "path": "a", "range": { "from": 1, "to": 9 } })), ("read", json!({ "path": "b" }))];
        let expected = |arguments| json!([{ "name": "read", "arguments": arguments }]);
        assert_eq!(score("any-order", expected(json!({ "range": { "from": 1.0 } })), &made).0, 1.0);
        let (value, findings) = score("any-order", expected(json!({ "path": "c" })), &made);
        assert_eq!((value, findings), (0.0, vec!["no call of `read` with {\"path\":\"c\"}".to_owned()]));
    }

    /// An expected call without arguments must leave the call that another one needs.
    #[test]
    fn assignment_is_the_largest_one() {
        let expected = json!([{ "name": "read" }, { "name": "read", "arguments": { "path": "a" } }]);
        let made = [("read", json!({ "path": "a" })), ("read", json!({ "path": "b" }))];
        assert_eq!(score("any-order", expected, &made).0, 1.0);
    }

    #[test]
    fn findings_name_missing_calls_and_the_calls_of_another_sequence() {
        let made = [("a", json!({})), ("c", json!({}))];
        let missing = "no call of `b`".to_owned();
        assert_eq!(score("exact", names("ab"), &made), (0.5, vec![missing.clone(), "the calls were a, c".to_owned()]));
        assert_eq!(score("in-order", names("ab"), &made), (0.5, vec![missing]));
        assert_eq!(score("exact", names("ac"), &made), (1.0, vec![]));
    }

    #[test]
    fn threshold_and_sub_agents_count() {
        let mut evidence = turns(vec![vec![call("a", json!({}))], vec![call("b", json!({}))]]);
        evidence.trajectory.turns[1].is_sub_agent = true;
        let passed = |more: Value| {
            let mut tools = json!({ "calls": names("ab") });
            tools.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            ToolEvaluator.evaluate(&case(json!({ "tools": tools })), &evidence).unwrap().passed
        };
        assert_eq!(
            [passed(json!({})), passed(json!({ "threshold": 0.5 })), passed(json!({ "sub-agents": true }))],
            [false, true, true]
        );
    }

    proptest! {
        #[test]
        fn stricter_modes_score_lower(expected in "[a-c]{1,8}", made in "[a-c]{0,8}") {
            let (exact, in_order, any_order) =
                (plain("exact", &expected, &made), plain("in-order", &expected, &made), plain("any-order", &expected, &made));
            prop_assert!(0.0 <= exact && exact <= in_order && in_order <= any_order && any_order <= 1.0);
            prop_assert_eq!(exact == 1.0, expected == made);
            // Of plain names, the largest assignment pairs as many of each name as both have.
            let count = |text: &str, name| text.chars().filter(|c| *c == name).count();
            let common: usize = "abc".chars().map(|name| count(&expected, name).min(count(&made, name))).sum();
            prop_assert_eq!(any_order, common as f64 / expected.len() as f64);
        }
    }
}
