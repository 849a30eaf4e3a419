//! Tools of plugins that score a trial.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence};
use crate::case::EvaluationCase;
use serde_json::Value;

/// The verdict of a tool on a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionOutcome {
    /// Score, 0 to 1.
    pub score: f64,
    /// The reason of the score, or of the failure.
    pub finding: Option<String>,
}

impl FunctionOutcome {
    /// Reads the reply of a tool. A failed call, or a reply without a score from 0 to 1, scores 0.
    pub fn of_reply(reply: Result<&str, &str>) -> Self {
        let failed = |finding: String| Self { score: 0.0, finding: Some(finding) };
        let text = match reply {
            Ok(text) => text.trim(),
            Err(problem) => return failed(problem.to_owned()),
        };
        let value = serde_json::from_str(text).unwrap_or_default();
        let score = match &value {
            Value::Bool(met) => Some(f64::from(u8::from(*met))),
            Value::Object(fields) => match fields.get("score") {
                Some(Value::Bool(met)) => Some(f64::from(u8::from(*met))),
                score => score.and_then(Value::as_f64),
            },
            value => value.as_f64(),
        };
        match score.filter(|score| (0.0..=1.0).contains(score)) {
            Some(score) => Self { score, finding: value["finding"].as_str().map(str::to_owned) },
            None => {
                failed(format!("it returned no score from 0 to 1: `{}`", text.chars().take(200).collect::<String>()))
            }
        }
    }
}

/// Scores the share of tools whose score reaches their threshold; all must.
pub(super) struct FunctionEvaluator;

impl Evaluator for FunctionEvaluator {
    fn name(&self) -> &'static str {
        "functions"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let functions = case.expect.functions.iter().enumerate();
        let findings = functions.filter_map(|(number, function)| {
            let name = format!("`{}` of the plugin `{}`", function.tool, function.plugin);
            let Some(outcome) = evidence.functions.get(number) else { return Some(format!("{name} did not run")) };
            let reason = outcome.finding.as_ref().map(|finding| format!(": {finding}")).unwrap_or_default();
            (outcome.score < function.threshold).then(|| format!("{name} scored {}{reason}", outcome.score))
        });
        MetricScore::of_all(self.name(), case.expect.functions.len(), findings.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{case, seen};
    use super::*;
    use serde_json::json;

    #[test]
    fn reply_is_a_number_a_truth_value_or_an_object() {
        let score = |text| FunctionOutcome::of_reply(Ok(text));
        let plain = |score| FunctionOutcome { score, finding: None };
        assert_eq!(["0.25", " 1\n", "true", "false"].map(score), [0.25, 1.0, 1.0, 0.0].map(plain));
        let with = FunctionOutcome { score: 0.5, finding: Some("half".to_owned()) };
        assert_eq!(score(r#"{"score":0.5,"finding":"half"}"#), with);
        assert_eq!(score(r#"{"score":true}"#), plain(1.0));
        for wrong in ["2", "-1", "good", "{}", "[1]", "null", ""] {
            let outcome = score(wrong);
            assert_eq!(outcome.score, 0.0, "{wrong}");
            assert!(outcome.finding.unwrap().starts_with("it returned no score"), "{wrong}");
        }
        let failed = FunctionOutcome::of_reply(Err("no plugin"));
        assert_eq!((failed.score, failed.finding.as_deref()), (0.0, Some("no plugin")));
    }

    #[test]
    fn each_score_reaches_its_threshold() {
        let function = |threshold: f64| json!({ "plugin": "p", "tool": "t", "threshold": threshold });
        let case = case(json!({ "functions": [function(0.5), function(0.75), function(1.0)] }));
        let outcome = |score, finding: Option<&str>| FunctionOutcome { score, finding: finding.map(str::to_owned) };
        let functions = vec![outcome(0.5, None), outcome(0.5, Some("half"))];
        let evidence = TrialEvidence { functions, ..TrialEvidence::default() };
        let findings = ["`t` of the plugin `p` scored 0.5: half", "`t` of the plugin `p` did not run"];
        let expected = (1.0 / 3.0, false, findings.map(str::to_owned).to_vec());
        assert_eq!(seen(FunctionEvaluator.evaluate(&case, &evidence)), Some(expected));
        assert_eq!(FunctionEvaluator.evaluate(&super::super::testing::case(json!({})), &evidence), None);
    }
}
