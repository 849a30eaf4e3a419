//! Two results, case by case: better, worse, dearer.

use crate::result::{CaseSums, SetResult, SetSums};
use crate::statistics::wilson_interval;
use serde::Serialize;

/// Relative change of cost, tokens or time that counts.
const NOTABLE: f64 = 0.1;

/// The comparison of a case with a model in two results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseComparison {
    /// Id of the case.
    pub case: String,
    /// The model; `None` for the default model.
    pub model: Option<String>,
    /// The change of the share of passed trials.
    pub change: PassChange,
    /// Whether the change is certain: the intervals of 95 % confidence do not overlap.
    pub is_certain: bool,
    /// Shares of passed trials before and after.
    pub pass_rate: (Option<f64>, Option<f64>),
    /// Cost of a trial in US dollars before and after; `None` if unknown.
    pub cost: (Option<f64>, Option<f64>),
    /// Tokens of a trial before and after.
    pub tokens: (Option<f64>, Option<f64>),
    /// Seconds of a trial before and after.
    pub seconds: (Option<f64>, Option<f64>),
    /// Whether a trial costs at least a tenth more, or takes as many more tokens where a cost is unknown or 0.
    pub is_dearer: bool,
    /// Whether it costs at least a tenth less.
    pub is_cheaper: bool,
}

/// The change of a share of passed trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PassChange {
    /// More trials pass.
    Better,
    /// Fewer trials pass.
    Worse,
    /// As many pass.
    Same,
    /// Only the later result has the case.
    Added,
    /// Only the earlier result has the case.
    Removed,
}

/// Compares two results: the cases of the later one in its order, then those that it lacks.
pub fn compare(before: &SetResult, after: &SetResult) -> Vec<CaseComparison> {
    let later = after.cases.iter().map(|case| compared(case, find(before, case), Some(&case.sums)));
    let removed = before.cases.iter().filter(|case| find(after, case).is_none());
    later.chain(removed.map(|case| compared(case, Some(&case.sums), None))).collect()
}

/// Returns the sums of the same case and model in another result.
fn find<'a>(result: &'a SetResult, case: &CaseSums) -> Option<&'a SetSums> {
    let is_same = |other: &&CaseSums| (&other.case, &other.model) == (&case.case, &case.model);
    result.cases.iter().find(is_same).map(|found| &found.sums)
}

fn compared(case: &CaseSums, before: Option<&SetSums>, after: Option<&SetSums>) -> CaseComparison {
    let pair = |of: &dyn Fn(&SetSums) -> Option<f64>| (before.and_then(of), after.and_then(of));
    let trials = |sums: &SetSums| (sums.trials > 0).then_some(sums.trials as f64);
    let pass_rate = pair(&|sums| trials(sums).map(|_| sums.pass_rate));
    let cost = pair(&|sums| Some(sums.cost? / trials(sums)?));
    let tokens = pair(&|sums| Some(sums.usage.total() as f64 / trials(sums)?));
    let change = match (before, after) {
        (None, _) => PassChange::Added,
        (_, None) => PassChange::Removed,
        _ => match pass_rate {
            (Some(one), Some(other)) if other > one => PassChange::Better,
            (Some(one), Some(other)) if other < one => PassChange::Worse,
            _ => PassChange::Same,
        },
    };
    let interval = |sums: &SetSums| wilson_interval(sums.passed, sums.trials);
    let intervals = before.map(interval).zip(after.map(interval));
    let price = match cost {
        (Some(one), Some(other)) if one > 0.0 || other > 0.0 => (one, other),
        _ => (tokens.0.unwrap_or_default(), tokens.1.unwrap_or_default()),
    };
    let is_both = before.is_some() && after.is_some();
    CaseComparison {
        case: case.case.clone(),
        model: case.model.clone(),
        change,
        is_certain: intervals
            .is_some_and(|((low, high), (later_low, later_high))| later_low > high || later_high < low),
        pass_rate,
        seconds: pair(&|sums| Some(sums.duration_ms as f64 / 1_000.0 / trials(sums)?)),
        is_dearer: is_both && price.1 > price.0 && price.1 - price.0 >= price.0 * NOTABLE,
        is_cheaper: is_both && price.1 < price.0 && price.0 - price.1 >= price.0 * NOTABLE,
        cost,
        tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{TrialResult, TrialVerdict};
    use crate::trajectory::Trajectory;
    use pinion_protocol::Usage;

    /// A result with cases of so many trials, passed trials, and cost or tokens of a trial.
    fn result(cases: &[(&str, u32, u32, Option<f64>, u64)]) -> SetResult {
        let trials = cases.iter().flat_map(|(case, trials, passed, cost, tokens)| {
            (1..=*trials).map(move |number| TrialResult {
                verdict: if number <= *passed { TrialVerdict::Passed } else { TrialVerdict::Failed },
                trajectory: Some(Trajectory {
                    cost: *cost,
                    usage: Usage { input: *tokens, ..Usage::default() },
                    ..Trajectory::default()
                }),
                ..TrialResult::planned(case, None, number)
            })
        });
        SetResult::new("s", trials.collect())
    }

    #[test]
    fn better_worse_and_dearer_cases_are_named() {
        use PassChange::{Added, Better, Removed, Same, Worse};
        let before = result(&[
            ("a", 20, 2, Some(1.0), 100),
            ("b", 2, 2, None, 100),
            ("c", 2, 1, Some(1.0), 100),
            ("d", 1, 1, None, 100),
            ("gone", 1, 1, None, 1),
        ]);
        let after = result(&[
            ("a", 20, 19, Some(1.05), 200),
            ("b", 2, 1, None, 110),
            ("c", 4, 2, Some(0.5), 300),
            ("d", 1, 1, Some(0.0), 90),
            ("new", 1, 1, None, 1),
        ]);
        let seen: Vec<_> = compare(&before, &after)
            .into_iter()
            .map(|case| (case.case, case.change, case.is_certain, case.is_dearer, case.is_cheaper))
            .collect();
        let expected = [
            ("a", Better, true, false, false),
            ("b", Worse, false, true, false),
            ("c", Same, false, false, true),
            ("d", Same, false, false, true),
            ("new", Added, false, false, false),
            ("gone", Removed, false, false, false),
        ];
        assert_eq!(seen, expected.map(|(case, a, b, c, d)| (case.to_owned(), a, b, c, d)));
    }
}
