//! Results as rows for people.

use pinion_console::output::{Text, fit, left, line, short, text};
use pinion_eval::compare::{CaseComparison, PassChange};
use pinion_eval::result::{SetCompletion, SetResult, SetSums, TrialResult, TrialVerdict};
use pinion_eval::store::StoredSummary;

/// Columns of the name of a case, and of a model.
const NAME: usize = 28;
const MODEL: usize = 24;
/// Maximum characters of a finding.
const FINDING: usize = 300;

/// Returns the word for a trial's verdict.
fn verdict(trial: &TrialResult) -> &'static str {
    match trial.verdict {
        TrialVerdict::Passed => "passed",
        TrialVerdict::Failed => "failed",
        TrialVerdict::Broken => "broken",
        TrialVerdict::Skipped => "skipped",
    }
}

/// Describes a trial that ended.
pub(super) fn progress(trial: &TrialResult) -> Text {
    let name = name(&trial.case, trial.model.as_deref());
    text!("{} {}, trial {}", left(verdict(trial), 7), name.as_str(), trial.trial.to_string())
}

fn name(case: &str, model: Option<&str>) -> String {
    model.map_or_else(|| case.to_owned(), |model| format!("{case} with {model}"))
}

/// Lays out a result: a row for each case and model, the problems, and the sums.
pub(super) fn table(result: &SetResult) -> Text {
    let mut lines = Text::default();
    let set = result.name.as_deref().unwrap_or(&result.set);
    // Only a stored result has an id.
    lines.line(if result.id.is_empty() { text!("set {}", set) } else { text!("set {}, result {}", set, result.id) });
    lines.line(columns(["case", "model", "passed", "pass^k", "in", "out", "cost", "time"]));
    for case in &result.cases {
        let hat = case.sums.pass_hat.last_key_value().map_or("-".to_owned(), |(_, share)| format!("{share:.2}"));
        let (model, passed) = (case.model.as_deref().unwrap_or("default"), passed(&case.sums));
        let sums = &case.sums;
        let (input, output) = (short(sums.usage.context()), short(sums.usage.output));
        lines.line(columns([&case.case, model, &passed, &hat, &input, &output, &cost(sums), &time(sums)]));
    }
    for trial in &result.trials {
        for finding in trial.findings() {
            let name = name(&trial.case, trial.model.as_deref());
            lines.line(text!(
                "{}, trial {}: {}",
                name.as_str(),
                trial.trial.to_string(),
                fit(&line(&finding), FINDING)
            ));
        }
    }
    lines.line(sums(result));
    lines
}

fn columns([case, model, passed, hat, input, output, cost, time]: [&str; 8]) -> Text {
    let numbers = format!("{passed:>7} {hat:>6} {input:>7} {output:>6} {cost:>9} {time:>8}");
    text!("{} {} {}", left(fit(case, NAME), NAME), left(fit(model, MODEL), MODEL), numbers.as_str())
}

fn passed(sums: &SetSums) -> String {
    format!("{}/{}", sums.passed, sums.trials)
}

fn cost(sums: &SetSums) -> String {
    sums.cost.map_or("unknown".to_owned(), |cost| format!("${cost:.4}"))
}

fn time(sums: &SetSums) -> String {
    format!("{:.1} s", sums.duration_ms as f64 / 1_000.0)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn sums(result: &SetResult) -> Text {
    let sums = &result.sums;
    let (low, high) = sums.interval;
    let end = match result.completion {
        SetCompletion::Complete => "",
        SetCompletion::Interrupted => ", interrupted",
        SetCompletion::BudgetSpent => ", budget spent",
    };
    let trials = format!(
        "{} of {} trials passed, {} (95 % confidence: {} to {}){end}",
        sums.passed,
        sums.trials,
        percent(sums.pass_rate),
        percent(low),
        percent(high)
    );
    let tokens = format!("{} in, {} out", short(sums.usage.context()), short(sums.usage.output));
    let cost = sums.cost.map_or("cost unknown".to_owned(), |_| cost(sums));
    text!("{}; {}, {}, {}", trials.as_str(), tokens.as_str(), cost.as_str(), time(sums).as_str())
}

/// Lays out a stored result in one row.
pub(super) fn summary_row(summary: &StoredSummary) -> Text {
    let end = match summary.completion {
        SetCompletion::Complete => "",
        SetCompletion::Interrupted => "interrupted",
        SetCompletion::BudgetSpent => "budget spent",
    };
    let numbers = format!("{:>9} {:>9} {:>8}", passed(&summary.sums), cost(&summary.sums), time(&summary.sums));
    text!("{} {} {} {}", left(summary.id.as_str(), 20), left(fit(&summary.set, NAME), NAME), numbers.as_str(), end)
}

/// Lays out a comparison: a row for each case and model.
pub(super) fn comparison(cases: &[CaseComparison]) -> Text {
    let mut lines = Text::default();
    let heading = format!("{:<8} {:>15} {:>17} {:>17}", "passing", "pass rate", "cost", "tokens");
    lines.line(text!("{} {} {}", left("case", NAME), left("model", MODEL), heading.as_str()));
    for case in cases {
        let change = match case.change {
            PassChange::Better => "better",
            PassChange::Worse => "worse",
            PassChange::Same => "same",
            PassChange::Added => "added",
            PassChange::Removed => "removed",
        };
        let price = match (case.is_dearer, case.is_cheaper) {
            (true, _) => " dearer",
            (_, true) => " cheaper",
            _ => "",
        };
        let certain = if case.is_certain { " (certain)" } else { "" };
        let rates = before_after(case.pass_rate, |rate| format!("{rate:.2}"));
        let costs = before_after(case.cost, |cost| format!("${cost:.4}"));
        let tokens = before_after(case.tokens, |tokens| short(tokens.round() as u64));
        let numbers = format!("{change:<8} {rates:>15} {costs:>17} {tokens:>17}{price}{certain}");
        let model = case.model.as_deref().unwrap_or("default");
        lines.line(text!(
            "{} {} {}",
            left(fit(&case.case, NAME), NAME),
            left(fit(model, MODEL), MODEL),
            numbers.as_str()
        ));
    }
    lines
}

fn before_after((before, after): (Option<f64>, Option<f64>), shown: impl Fn(f64) -> String) -> String {
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), &shown);
    format!("{} → {}", shown(before), shown(after))
}
