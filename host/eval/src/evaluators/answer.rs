//! The end of the run, and the final answer: exact, containing, matching, following a schema, or meeting a judge's criteria.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence};
use crate::case::EvaluationCase;
use pinion_protocol::RunEnd;
use regex::Regex;
use serde_json::Value;

/// Characters of the answer in a finding.
const SHOWN: usize = 200;

/// Scores the share of expectations of the answer, without surrounding white space, that are met; all must be.
pub(super) struct AnswerEvaluator;

impl Evaluator for AnswerEvaluator {
    fn name(&self) -> &'static str {
        "answer"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let expected = case.expect.answer.as_ref()?;
        let answer = evidence.trajectory.answer.trim();
        let (mut count, mut findings) = (0, Vec::new());
        let mut expect = |finding: Option<String>| {
            count += 1;
            findings.extend(finding);
        };
        if let Some(text) = &expected.exact {
            expect((answer != text.trim()).then(|| format!("it is `{}`", start(answer))));
        }
        for text in &expected.contains {
            expect((!answer.contains(text)).then(|| format!("it does not contain `{text}`: `{}`", start(answer))));
        }
        for pattern in &expected.matches {
            let is_match = Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(answer));
            expect((!is_match).then(|| format!("it does not match `{pattern}`: `{}`", start(answer))));
        }
        if let Some(schema) = &expected.schema {
            expect(schema_problem(schema, answer));
        }
        if expected.judge.is_some() {
            expect(match &evidence.verdict {
                Some(verdict) if verdict.met => None,
                Some(verdict) => Some(format!("the judge decided against it: {}", verdict.reason)),
                None => Some("it was not judged".to_owned()),
            });
        }
        MetricScore::of_all(self.name(), count, findings)
    }
}

fn start(answer: &str) -> String {
    let mut characters = answer.chars();
    let mut text: String = characters.by_ref().take(SHOWN).collect();
    text.extend(characters.next().map(|_| '…'));
    text
}

/// Returns the content of an answer that is one fenced block, or the answer.
fn unfenced(answer: &str) -> &str {
    let block = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    block.and_then(|block| block.split_once('\n')).map_or(answer, |(_, content)| content.trim())
}

fn schema_problem(schema: &Value, answer: &str) -> Option<String> {
    let Ok(value) = serde_json::from_str::<Value>(unfenced(answer)) else {
        return Some(format!("it is not JSON: `{}`", start(answer)));
    };
    match jsonschema::validator_for(schema) {
        Ok(validator) => {
            validator.validate(&value).err().map(|error| format!("it does not follow the schema: {error}"))
        }
        Err(error) => Some(format!("the schema is invalid: {error}")),
    }
}

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
    use super::super::JudgeVerdict;
    use super::super::testing::{case, seen};
    use super::*;
    use pinion_protocol::{Limit, StopReason};
    use serde_json::json;

    fn score(expect: Value, answer: &str, verdict: Option<bool>) -> (f64, bool, Vec<String>) {
        let mut evidence = TrialEvidence::default();
        evidence.trajectory.answer = answer.to_owned();
        evidence.verdict = verdict.map(|met| JudgeVerdict { met, reason: "it is rude".to_owned() });
        seen(AnswerEvaluator.evaluate(&case(json!({ "answer": expect })), &evidence)).unwrap()
    }

    #[test]
    fn each_kind_of_expectation_counts_once() {
        let expect = json!({ "exact": "It is 42.", "contains": ["42", "forty"], "matches": ["^It", "[0-9]{3}"] });
        let (value, passed, findings) = score(expect, " It is 42.\n", None);
        assert_eq!((value, passed), (0.6, false));
        assert_eq!(
            findings,
            ["it does not contain `forty`: `It is 42.`", "it does not match `[0-9]{3}`: `It is 42.`"]
                .map(str::to_owned)
        );
        assert!(!score(json!({ "exact": "It is 41." }), "It is 42.", None).1);
    }

    #[test]
    fn answer_follows_a_schema_with_and_without_a_fence() {
        let schema =
            json!({ "schema": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } } });
        for (answer, passes) in [
            ("{\"n\": 1}", true),
            ("```json\n{\"n\": 1}\n```\n", true),
            ("{\"n\": 1.5}", false),
            ("{}", false),
            ("n is 1", false),
        ] {
            assert_eq!(score(schema.clone(), answer, None).1, passes, "{answer}");
        }
    }

    #[test]
    fn judge_decides_on_criteria() {
        let judge = json!({ "judge": { "model": "m", "criteria": "polite" } });
        assert_eq!(score(judge.clone(), "hi", Some(true)), (1.0, true, vec![]));
        let rude = vec!["the judge decided against it: it is rude".to_owned()];
        assert_eq!(score(judge.clone(), "hi", Some(false)), (0.0, false, rude));
        assert!(!score(judge, "hi", None).1);
    }

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
