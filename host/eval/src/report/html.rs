//! HTML: one page without scripts and without references to other files.

use super::plot::{AmountRow, ShareRow, amount_plot, share_plot};
use super::{case_label, comparison_cells, cost_label, escape_markup};
use crate::compare::CaseComparison;
use crate::gate::missed_bounds;
use crate::result::{SetResult, TrialResult, TrialVerdict};
use crate::trajectory::Trajectory;
use std::fmt::Write as _;

/// Head of every page. The policy keeps the page from loading anything, should markup of an answer get into it.
const HEAD: &str = "<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
     style-src 'unsafe-inline'\">\n<style>\nbody{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
     color:#1b1f24;background:#fff}\ntable{border-collapse:collapse}td,th{padding:.2rem .8rem;border-bottom:1px solid #d0d7de;\
     text-align:left;unicode-bidi:isolate}\npre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f8fa;padding:.5rem;\
     unicode-bidi:isolate}\nsvg{max-width:100%;height:auto;font-size:13px}figcaption{font-weight:600}rect{fill:#4078c0}circle{fill:#1b5eab}\n\
     .interval{stroke:#4078c0;stroke-width:3;opacity:.45}.grid{stroke:#d0d7de}.passed{color:#116329}.failed,.broken,.missed{color:#a40e26}\n\
     @media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}text{fill:#e6edf3}\
     .passed{color:#56d364}.failed,.broken,.missed{color:#ff7b72}}\n</style>\n";

/// Returns results as a page: sums, missed bounds, plots of the cases, and each trial with its findings and its work.
pub fn result_page(results: &[SetResult]) -> String {
    let title = results.first().map_or("Evaluation", |result| result.name.as_deref().unwrap_or(&result.set));
    let mut body = String::new();
    results.iter().for_each(|result| result_section(result, &mut body));
    page(title, &body)
}

/// Returns a comparison of two results as a page.
pub fn comparison_page(before: &SetResult, after: &SetResult, cases: &[CaseComparison]) -> String {
    let name = after.name.as_deref().unwrap_or(&after.set);
    let mut body = format!(
        "<h1>{}</h1>\n<p>{} → {}</p>\n",
        escape_markup(name),
        escape_markup(&before.id),
        escape_markup(&after.id)
    );
    body.push_str(&pass_plot("Share of passed trials before", before));
    body.push_str(&pass_plot("Share of passed trials after", after));
    body.push_str("<table>\n<tr><th>case<th>change<th>pass rate<th>cost<th>tokens</tr>\n");
    for case in cases {
        let name = escape_markup(&case_label(&case.case, case.model.as_deref()));
        let [change, rates, costs, tokens] = comparison_cells(case);
        // Writing to a string does not fail.
        let _ = writeln!(body, "<tr><td>{name}<td>{change}<td>{rates}<td>{costs}<td>{tokens}</tr>");
    }
    body.push_str("</table>\n");
    page(name, &body)
}

fn page(title: &str, body: &str) -> String {
    let title = escape_markup(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<title>{title}</title>\n{HEAD}</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

fn result_section(result: &SetResult, out: &mut String) {
    let (sums, (low, high)) = (&result.sums, result.sums.interval);
    let name = escape_markup(result.name.as_deref().unwrap_or(&result.set));
    let _ = writeln!(
        out,
        "<h1>{name}</h1>\n<p>Result {}, {}: {} of {} trials passed, {:.0} % (95 % confidence: {:.0} to {:.0} %); \
         {} input and {} output tokens, {}, \
         {:.1} s.</p>",
        escape_markup(&result.id),
        result.started,
        sums.passed,
        sums.trials,
        sums.pass_rate * 100.0,
        low * 100.0,
        high * 100.0,
        sums.usage.context(),
        sums.usage.output,
        cost_label(sums.cost),
        sums.duration_ms as f64 / 1_000.0
    );
    for bound in missed_bounds(result) {
        let _ = writeln!(out, "<p class=\"missed\">Missed: {}</p>", escape_markup(&bound));
    }
    out.push_str(&pass_plot("Share of passed trials, with intervals of 95 % confidence", result));
    let amounts = |amount: &dyn Fn(&crate::result::SetSums) -> (f64, String)| {
        let rows = result.cases.iter().map(|case| {
            let (amount, note) = amount(&case.sums);
            AmountRow { label: case_label(&case.case, case.model.as_deref()), amount, note }
        });
        rows.collect::<Vec<_>>()
    };
    out.push_str(&amount_plot("Tokens", &amounts(&|sums| (sums.usage.total() as f64, sums.usage.total().to_string()))));
    out.push_str(&amount_plot("Cost", &amounts(&|sums| (sums.cost.unwrap_or_default(), cost_label(sums.cost)))));
    let seconds = |sums: &crate::result::SetSums| sums.duration_ms as f64 / 1_000.0;
    out.push_str(&amount_plot("Seconds", &amounts(&|sums| (seconds(sums), format!("{:.1}", seconds(sums))))));
    out.push_str("<h2>Trials</h2>\n");
    result.trials.iter().for_each(|trial| trial_section(trial, out));
}

fn pass_plot(title: &str, result: &SetResult) -> String {
    let rows = result.cases.iter().map(|case| ShareRow {
        label: case_label(&case.case, case.model.as_deref()),
        share: case.sums.pass_rate,
        interval: case.sums.interval,
        note: format!("{}/{}", case.sums.passed, case.sums.trials),
    });
    share_plot(title, &rows.collect::<Vec<_>>())
}

fn trial_section(trial: &TrialResult, out: &mut String) {
    let verdict = match trial.verdict {
        TrialVerdict::Passed => "passed",
        TrialVerdict::Failed => "failed",
        TrialVerdict::Broken => "broken",
        TrialVerdict::Skipped => "skipped",
    };
    let name = escape_markup(&case_label(&trial.case, trial.model.as_deref()));
    let _ = writeln!(
        out,
        "<details><summary>{name}, trial {}: <span class=\"{verdict}\">{verdict}</span></summary>",
        trial.trial
    );
    let findings = trial.findings();
    if !findings.is_empty() {
        let items: String = findings.iter().map(|finding| format!("<li>{}</li>\n", escape_markup(finding))).collect();
        let _ = writeln!(out, "<ul>\n{items}</ul>");
    }
    if !trial.metrics.is_empty() {
        out.push_str("<table>\n<tr><th>evaluator<th>score<th>threshold</tr>\n");
        for metric in &trial.metrics {
            let (name, verdict) = (escape_markup(&metric.evaluator), if metric.passed { "passed" } else { "failed" });
            let _ =
                writeln!(out, "<tr><td>{name}<td class=\"{verdict}\">{:.3}<td>{}</tr>", metric.value, metric.threshold);
        }
        out.push_str("</table>\n");
    }
    if let Some(trajectory) = &trial.trajectory {
        work(trajectory, out);
    }
    out.push_str("</details>\n");
}

/// Adds the prompts, calls, results and replies of a trial.
fn work(trajectory: &Trajectory, out: &mut String) {
    for turn in &trajectory.turns {
        let by = if turn.is_sub_agent { "Sub-agent" } else { "Agent" };
        for prompt in &turn.prompts {
            let _ = writeln!(out, "<p>Prompt</p>\n<pre>{}</pre>", escape_markup(prompt));
        }
        let _ = writeln!(out, "<p>{by}, turn {}</p>", turn.number);
        if !turn.text.is_empty() {
            let _ = writeln!(out, "<pre>{}</pre>", escape_markup(&turn.text));
        }
        for call in &turn.calls {
            let (tool, arguments) = (escape_markup(&call.tool), escape_markup(&call.arguments.to_string()));
            let state = if call.is_denied {
                " (denied)"
            } else if call.is_error {
                " (failed)"
            } else {
                ""
            };
            let result = escape_markup(call.result.as_deref().unwrap_or_default());
            let _ = writeln!(out, "<p>Call of {tool}{state}</p>\n<pre>{arguments}</pre>\n<pre>{result}</pre>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::evaluators::MetricScore;
    use crate::trajectory::{TrajectoryCall, TrajectoryTurn};
    use serde_json::json;

    const ATTACK: &str = "</pre><script src=https://x.example/a.js></script>\"'&\u{1b}[31m";

    fn hostile() -> SetResult {
        let call = TrajectoryCall {
            tool: ATTACK.to_owned(),
            arguments: json!({ ATTACK: ATTACK }),
            result: Some(ATTACK.to_owned()),
            ..TrajectoryCall::default()
        };
        let turn = TrajectoryTurn {
            prompts: vec![ATTACK.to_owned()],
            text: ATTACK.to_owned(),
            calls: vec![call],
            ..TrajectoryTurn::default()
        };
        let trial = TrialResult {
            verdict: TrialVerdict::Failed,
            metrics: vec![MetricScore::new(ATTACK, 0.25, 1.0, vec![ATTACK.to_owned()])],
            error: Some(ATTACK.to_owned()),
            trajectory: Some(Trajectory { turns: vec![turn], ..Trajectory::default() }),
            ..TrialResult::planned(ATTACK, Some(ATTACK), 1)
        };
        SetResult { name: Some(ATTACK.to_owned()), id: ATTACK.to_owned(), ..SetResult::new(ATTACK, vec![trial]) }
    }

    #[test]
    fn page_contains_no_markup_of_its_texts_and_no_reference() {
        let result = hostile();
        let compared = comparison_page(&result, &result, &compare(&result, &result));
        for page in [result_page(&[result]), compared] {
            for part in ["<script", "src=https", "</pre><", "\u{1b}", "href", "url(", "@import"] {
                // The escaped text has `src=https` without a tag around it.
                let found = page.matches(part).count();
                let allowed = if part == "src=https" { page.matches("&lt;script src=https").count() } else { 0 };
                assert_eq!(found, allowed, "`{part}` is in the page");
            }
            assert!(page.contains("&lt;script src=https") && page.contains("default-src 'none'"), "{page}");
        }
    }

    #[test]
    fn page_has_scores_and_findings() {
        let trials = ["a", "b"].map(|case| TrialResult {
            verdict: TrialVerdict::Failed,
            metrics: vec![MetricScore::new("answer", 0.5, 1.0, vec!["it is wrong".to_owned()])],
            ..TrialResult::planned(case, None, 1)
        });
        let page = result_page(&[SetResult::new("s", trials.into())]);
        for part in [
            "0 of 2 trials passed, 0 % (95 % confidence: 0 to 66 %)",
            "Missed: pass-rate is 0.000, at least 1 expected",
            "<li>answer: it is wrong</li>",
            "<td class=\"failed\">0.500<td>1",
            "b, trial 1: <span class=\"failed\">failed</span>",
        ] {
            assert!(page.contains(part), "`{part}` is not in {page}");
        }
    }
}
