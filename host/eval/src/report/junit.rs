//! JUnit XML: a test suite for each set, a test case for each trial.

use super::{case_label, escape_markup};
use crate::result::{SetResult, TrialResult, TrialVerdict};
use std::fmt::Write as _;

/// Returns results as one document of JUnit XML. A failed trial is a `failure`, a broken one an `error`, with its findings.
pub fn junit(results: &[SetResult]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    results.iter().for_each(|result| test_suite(result, &mut out));
    out.push_str("</testsuites>\n");
    out
}

fn test_suite(result: &SetResult, out: &mut String) {
    let count = |verdict| result.trials.iter().filter(|trial| trial.verdict == verdict).count();
    let suite = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\" timestamp=\"{}\"",
        escape_markup(&result.set),
        result.trials.len(),
        count(TrialVerdict::Failed),
        count(TrialVerdict::Broken),
        count(TrialVerdict::Skipped),
        result.sums.duration_ms as f64 / 1_000.0,
        result.started,
    );
    // Writing to a string does not fail.
    let _ = writeln!(out, "  <testsuite {suite}>");
    result.trials.iter().for_each(|trial| test_case(result, trial, out));
    out.push_str("  </testsuite>\n");
}

fn test_case(result: &SetResult, trial: &TrialResult, out: &mut String) {
    let seconds = trial.trajectory.as_ref().map_or(0.0, |trajectory| trajectory.duration_ms as f64 / 1_000.0);
    let name = escape_markup(&format!("{} #{}", case_label(&trial.case, trial.model.as_deref()), trial.trial));
    let head =
        format!("    <testcase classname=\"{}\" name=\"{name}\" time=\"{seconds:.3}\"", escape_markup(&result.set));
    let findings = trial.findings();
    let first = escape_markup(findings.first().map_or("", String::as_str));
    let all = escape_markup(&findings.join("\n"));
    let _ = match trial.verdict {
        TrialVerdict::Passed => writeln!(out, "{head}/>"),
        TrialVerdict::Failed => {
            writeln!(out, "{head}>\n      <failure message=\"{first}\">{all}</failure>\n    </testcase>")
        }
        TrialVerdict::Broken => {
            writeln!(out, "{head}>\n      <error message=\"{first}\">{all}</error>\n    </testcase>")
        }
        TrialVerdict::Skipped => writeln!(out, "{head}>\n      <skipped/>\n    </testcase>"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluators::MetricScore;

    #[test]
    fn suite_has_a_case_for_each_trial() {
        let trial = |number, verdict, finding: &str| TrialResult {
            verdict,
            metrics: vec![MetricScore::new("answer", 0.0, 1.0, vec![finding.to_owned()])],
            ..TrialResult::planned("a", Some("p/m"), number)
        };
        let trials = vec![
            TrialResult { metrics: Vec::new(), ..trial(1, TrialVerdict::Passed, "") },
            trial(2, TrialVerdict::Failed, "<&\"\u{7}>\nx"),
            TrialResult { error: Some("no model".to_owned()), ..TrialResult::planned("b", None, 1) },
        ];
        let mut result = SetResult::new("s", trials);
        result.trials[2].verdict = TrialVerdict::Broken;
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  \
            <testsuite name=\"s\" tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\" time=\"0.000\" timestamp=\"1970-01-01T00:00:00Z\">\n    \
            <testcase classname=\"s\" name=\"a [p/m] #1\" time=\"0.000\"/>\n    \
            <testcase classname=\"s\" name=\"a [p/m] #2\" time=\"0.000\">\n      \
            <failure message=\"answer: &lt;&amp;&quot;\u{fffd}&gt;&#10;x\">answer: &lt;&amp;&quot;\u{fffd}&gt;&#10;x</failure>\n    </testcase>\n    \
            <testcase classname=\"s\" name=\"b #1\" time=\"0.000\">\n      \
            <error message=\"no model\">no model</error>\n    </testcase>\n  </testsuite>\n</testsuites>\n";
        assert_eq!(junit(&[result]), expected);
    }
}
