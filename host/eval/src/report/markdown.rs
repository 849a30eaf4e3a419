//! Markdown: a table of the cases, for the page of a pull request.

use super::{comparison_cells, cost_label};
use crate::compare::CaseComparison;
use crate::gate::missed_bounds;
use crate::result::{SetResult, SetSums};
use std::fmt::Write as _;

/// Returns a result as Markdown: sums, missed bounds, a row for each case and model, and the findings.
pub fn result_summary(result: &SetResult) -> String {
    let (sums, (low, high)) = (&result.sums, result.sums.interval);
    let mut out = format!("# {}\n\n", escaped(result.name.as_deref().unwrap_or(&result.set)));
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{} of {} trials passed, {:.0} % (95 % confidence: {:.0} to {:.0} %).\n",
        sums.passed,
        sums.trials,
        sums.pass_rate * 100.0,
        low * 100.0,
        high * 100.0
    );
    let missed = missed_bounds(result);
    for bound in &missed {
        let _ = writeln!(out, "- **missed:** {}", escaped(bound));
    }
    if !missed.is_empty() {
        out.push('\n');
    }
    out.push_str(
        "| case | model | passed | input tokens | output tokens | cost | seconds |\n|---|---|---|---|---|---|---|\n",
    );
    for case in &result.cases {
        let SetSums { passed, trials, usage, cost, duration_ms, .. } = &case.sums;
        let cost = cost_label(*cost);
        let (name, model) = (escaped(&case.case), escaped(case.model.as_deref().unwrap_or("default")));
        let seconds = *duration_ms as f64 / 1_000.0;
        let (input, output) = (usage.context(), usage.output);
        let _ = writeln!(out, "| {name} | {model} | {passed}/{trials} | {input} | {output} | {cost} | {seconds:.1} |");
    }
    let findings = result.trials.iter().flat_map(|trial| {
        trial
            .findings()
            .into_iter()
            .map(|finding| format!("- {}, trial {}: {}", escaped(&trial.case), trial.trial, escaped(&finding)))
    });
    let findings: Vec<String> = findings.collect();
    if !findings.is_empty() {
        let _ = writeln!(out, "\n{}", findings.join("\n"));
    }
    out
}

/// Returns a comparison as a table in Markdown.
pub fn comparison_table(cases: &[CaseComparison]) -> String {
    let mut out = String::from("| case | model | change | pass rate | cost | tokens |\n|---|---|---|---|---|---|\n");
    for case in cases {
        let (name, model) = (escaped(&case.case), escaped(case.model.as_deref().unwrap_or("default")));
        let [change, rates, costs, tokens] = comparison_cells(case);
        let _ = writeln!(out, "| {name} | {model} | {change} | {rates} | {costs} | {tokens} |");
    }
    out
}

/// Neutralizes the characters that Markdown or HTML gives a meaning to, and joins lines.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '&' | '!' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{TrialResult, TrialVerdict};
    use crate::trajectory::Trajectory;
    use pinion_protocol::Usage;

    #[test]
    fn table_has_rows_and_findings_without_markup() {
        let failed = TrialResult {
            verdict: TrialVerdict::Failed,
            error: Some("a|b\n<c>".to_owned()),
            trajectory: Some(Trajectory {
                usage: Usage { input: 5, output: 2, cache_read: 4, cache_write: 0 },
                cost: Some(0.0),
                ..Trajectory::default()
            }),
            ..TrialResult::planned("x", None, 1)
        };
        let expected = "# s\n\n0 of 1 trials passed, 0 % (95 % confidence: 0 to 79 %).\n\n- **missed:** pass-rate is 0.000, at least 1 \
                        expected\n\n| case | model | passed | input tokens | output tokens | cost | seconds |\n\
                        |---|---|---|---|---|---|---|\n\
                        | x | default | 0/1 | 9 | 2 | $0.0000 | 0.0 |\n\n- x, trial 1: a\\|b \\<c\\>\n";
        let result = SetResult::new("s", vec![failed]);
        assert_eq!(result_summary(&result), expected);
        let expected = "| case | model | change | pass rate | cost | tokens |\n|---|---|---|---|---|---|\n\
                        | x | default | same | 0.00 → 0.00 | $0.0000 → $0.0000 | 11 → 11 |\n";
        assert_eq!(comparison_table(&crate::compare::compare(&result, &result)), expected);
    }
}
