//! Calls of a session that were repeated from its journal.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence, counted};
use crate::case::EvaluationCase;
use serde::Deserialize;

/// Name of the evaluator.
pub(crate) const RECORDED_CALLS: &str = "recorded-calls";
/// Maximum number of calls that findings name.
const SHOWN: usize = 20;

/// The outcome of repeating the calls of a session, as `pinion plugin replay --json` prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct RepeatedCalls {
    /// Number of repeated calls.
    pub calls: u64,
    /// Number of calls with the recorded imports and result.
    pub same: u64,
    /// Calls that differ from the recorded ones.
    #[serde(default)]
    pub differences: Vec<UnequalCall>,
    /// Calls that could not be repeated.
    #[serde(default)]
    pub skips: Vec<UnequalCall>,
}

/// A call that differs or could not be repeated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct UnequalCall {
    /// Number in the session, from 1.
    pub call: u64,
    /// Name of the plugin.
    pub plugin: String,
    /// The difference, or the reason.
    pub reason: String,
}

impl RepeatedCalls {
    /// Reads the output of the command.
    ///
    /// # Errors
    /// The output is no report; the text is for people.
    pub fn from_report(output: &str) -> Result<Self, String> {
        serde_json::from_str(output).map_err(|error| format!("the calls were not repeated: {error}"))
    }
}

/// Scores the share of recorded calls that are the same when they are repeated. A call that could not be repeated is not
/// the same. The first finding counts both kinds, so that a result shows them even where a threshold allows them.
pub(super) struct RecordedCallEvaluator;

impl Evaluator for RecordedCallEvaluator {
    fn name(&self) -> &'static str {
        RECORDED_CALLS
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let threshold = case.expect.recorded_calls.as_ref()?.threshold;
        let Some(repeated) = evidence.repeated_calls.as_ref().filter(|repeated| repeated.calls > 0) else {
            let findings = vec!["no call was repeated".to_owned()];
            return Some(MetricScore::new(self.name(), 0.0, threshold, findings));
        };
        let differ = repeated.differences.iter().map(|call| (call, "differs"));
        let unequal: Vec<_> = differ.chain(repeated.skips.iter().map(|call| (call, "is not replayable"))).collect();
        let finding = |(call, state): &(&UnequalCall, &str)| {
            let reason: Vec<&str> = call.reason.lines().map(str::trim).collect();
            format!("call {} of `{}` {state}: {}", call.call, call.plugin, reason.join(", "))
        };
        let counts = format!(
            "{} of {} the same, {} differ, {} not replayable",
            repeated.same,
            counted(repeated.calls, "call"),
            repeated.differences.len(),
            repeated.skips.len()
        );
        let mut findings: Vec<String> = (!unequal.is_empty()).then_some(counts).into_iter().collect();
        findings.extend(unequal.iter().take(SHOWN).map(finding));
        let rest = unequal.len().saturating_sub(SHOWN) as u64;
        findings.extend((rest > 0).then(|| format!("{} more", counted(rest, "call"))));
        let value = repeated.same as f64 / repeated.calls as f64;
        Some(MetricScore::new(self.name(), value, threshold, findings))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{case, seen};
    use super::*;
    use serde_json::json;

    fn score(threshold: f64, repeated_calls: Option<RepeatedCalls>) -> (f64, bool, Vec<String>) {
        let evidence = TrialEvidence { repeated_calls, ..TrialEvidence::default() };
        let case = case(json!({ "recorded-calls": { "threshold": threshold } }));
        seen(RecordedCallEvaluator.evaluate(&case, &evidence)).unwrap()
    }

    #[test]
    fn share_of_same_calls_is_the_score() {
        let report = json!({
            "calls": 4, "same": 2, "differ": 1, "skipped": 1,
            "differences": [{ "call": 2, "plugin": "a", "export": "e", "arguments": [], "reason": "result\n- 1\n+ 2" }],
            "skips": [{ "call": 4, "plugin": "b", "export": "e", "arguments": [], "reason": "stopped" }],
        });
        let repeated = RepeatedCalls::from_report(&report.to_string()).unwrap();
        let findings = [
            "2 of 4 calls the same, 1 differ, 1 not replayable",
            "call 2 of `a` differs: result, - 1, + 2",
            "call 4 of `b` is not replayable: stopped",
        ];
        let findings = findings.map(str::to_owned).to_vec();
        assert_eq!(score(1.0, Some(repeated.clone())), (0.5, false, findings.clone()));
        assert_eq!(score(0.5, Some(repeated)), (0.5, true, findings));
        let whole = RepeatedCalls { calls: 3, same: 3, ..RepeatedCalls::default() };
        assert_eq!(score(1.0, Some(whole)), (1.0, true, vec![]));
        assert!(RepeatedCalls::from_report("no journal").is_err());
    }

    #[test]
    fn session_without_repeated_calls_fails() {
        let expected = (0.0, false, vec!["no call was repeated".to_owned()]);
        assert_eq!(score(1.0, None), expected);
        assert_eq!(score(1.0, Some(RepeatedCalls::default())), expected);
        assert_eq!(RecordedCallEvaluator.evaluate(&case(json!({})), &TrialEvidence::default()), None);
    }

    #[test]
    fn findings_are_bounded() {
        let unequal = |call| UnequalCall { call, plugin: "a".to_owned(), reason: "r".to_owned() };
        let differences: Vec<_> = (1..=25).map(unequal).collect();
        let (value, _, findings) =
            score(1.0, Some(RepeatedCalls { calls: 25, differences, ..RepeatedCalls::default() }));
        assert_eq!((value, findings.len(), findings[21].as_str()), (0.0, 22, "5 calls more"));
    }
}
