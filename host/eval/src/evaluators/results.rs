//! Texts in the results of tools.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence};
use crate::case::EvaluationCase;

/// Scores the share of expected and unwanted texts that are found and not found; all must be. A text is unwanted in the
/// results, in the arguments of calls and in the texts of the agent, because a model cannot write texts it never read.
pub(super) struct ResultEvaluator;

impl Evaluator for ResultEvaluator {
    fn name(&self) -> &'static str {
        "results"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let expected = case.expect.results.as_ref()?;
        let turns = &evidence.trajectory.turns;
        let is_returned = |text: &str| {
            evidence
                .trajectory
                .calls(true)
                .any(|call| call.result.as_deref().is_some_and(|result| result.contains(text)))
        };
        let is_written = |text: &str| {
            let in_calls = evidence.trajectory.calls(true).any(|call| contains(&call.arguments, text));
            in_calls || turns.iter().any(|turn| turn.text.contains(text))
        };
        let mut findings = Vec::new();
        for text in expected.contain.iter().filter(|text| !is_returned(text)) {
            findings.push(format!("no result contains `{text}`"));
        }
        for text in &expected.lack {
            if is_returned(text) {
                findings.push(format!("a result contains `{text}`"));
            } else if is_written(text) {
                findings.push(format!("the agent wrote `{text}`"));
            }
        }
        MetricScore::of_all(self.name(), expected.contain.len() + expected.lack.len(), findings)
    }
}

/// Returns whether a string of a value contains a text.
fn contains(value: &serde_json::Value, text: &str) -> bool {
    match value {
        serde_json::Value::String(string) => string.contains(text),
        serde_json::Value::Array(items) => items.iter().any(|item| contains(item, text)),
        serde_json::Value::Object(fields) => {
            fields.iter().any(|(name, item)| name.contains(text) || contains(item, text))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, case, seen, turns};
    use super::*;
    use serde_json::json;

    #[test]
    fn unwanted_text_is_found_in_results_arguments_and_replies() {
        let mut read = call("read", json!({ "path": ["x", { "key-1": 1 }] }));
        read.result = Some("the secret-1 is here".to_owned());
        let mut evidence = turns(vec![vec![read]]);
        evidence.trajectory.turns[0].text = "I saw reply-1.".to_owned();
        let score = |expect| seen(ResultEvaluator.evaluate(&case(json!({ "results": expect })), &evidence)).unwrap();
        assert_eq!(
            score(json!({ "contain": ["secret-1"], "lack": ["secret-2", "y"] })),
            (2.0 / 3.0, false, vec!["the agent wrote `y`".to_owned()])
        );
        assert_eq!(score(json!({ "contain": ["secret-1"], "lack": ["secret-2"] })), (1.0, true, vec![]));
        let lack = json!({ "lack": ["secret-1", "key-1", "reply-1", "absent"], "contain": ["reply-1"] });
        let findings = [
            "no result contains `reply-1`",
            "a result contains `secret-1`",
            "the agent wrote `key-1`",
            "the agent wrote `reply-1`",
        ];
        assert_eq!(score(lack), (0.2, false, findings.map(str::to_owned).to_vec()));
        assert_eq!(ResultEvaluator.evaluate(&case(json!({})), &evidence), None);
    }

    #[test]
    fn results_and_calls_of_sub_agents_count() {
        let mut read = call("read", json!({ "path": "path-1" }));
        read.result = Some("result-1".to_owned());
        let mut evidence = turns(vec![vec![read]]);
        evidence.trajectory.turns[0].is_sub_agent = true;
        let expect = json!({ "results": { "contain": ["result-1"], "lack": ["path-1"] } });
        let expected = (0.5, false, vec!["the agent wrote `path-1`".to_owned()]);
        assert_eq!(seen(ResultEvaluator.evaluate(&case(expect), &evidence)), Some(expected));
    }
}
