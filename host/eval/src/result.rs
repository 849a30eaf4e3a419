//! Results of trials and of sets.

use crate::audit::AuditTrail;
use crate::case::{GateBounds, SetBudget};
use crate::evaluators::{MetricScore, RECORDED_CALLS};
use crate::statistics::{pass_hat, wilson_interval};
use crate::trajectory::Trajectory;
use jiff::Timestamp;
use pinion_protocol::Usage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of stored results.
pub const RESULT_VERSION: u32 = 1;

/// The result of a set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetResult {
    /// Version of the format.
    pub version: u32,
    /// Id of the result.
    pub id: String,
    /// Id of the set.
    pub set: String,
    /// Name of the set for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time of the start.
    pub started: Timestamp,
    /// Time of the end.
    pub ended: Timestamp,
    /// Whether all trials took place.
    pub completion: SetCompletion,
    /// The set's budget.
    pub budget: SetBudget,
    /// Bounds that the result should meet.
    pub gate: GateBounds,
    /// Sums over all trials.
    pub sums: SetSums,
    /// Sums over the trials of each case and model.
    pub cases: Vec<CaseSums>,
    /// The trials, in the order of the set.
    pub trials: Vec<TrialResult>,
    /// Digests of the trials, which [`verify`](crate::audit::verify) checks.
    #[serde(default)]
    pub audit: AuditTrail,
}

impl SetResult {
    /// Creates the result of complete trials of a set, without an id, a budget and bounds.
    pub fn new(set: &str, trials: Vec<TrialResult>) -> Self {
        let (cases, sums) = sum_up(&trials);
        Self {
            version: RESULT_VERSION,
            id: String::new(),
            set: set.to_owned(),
            name: None,
            started: Timestamp::UNIX_EPOCH,
            ended: Timestamp::UNIX_EPOCH,
            completion: SetCompletion::Complete,
            budget: SetBudget::default(),
            gate: GateBounds::default(),
            sums,
            cases,
            trials,
            audit: AuditTrail::default(),
        }
    }
}

impl SetResult {
    /// Returns the result without the name of its model, if it has only one, to compare it with another model's.
    #[must_use]
    pub fn without_only_model(&self) -> Self {
        let mut result = self.clone();
        let mut models = self.cases.iter().map(|case| &case.model);
        let first = models.next();
        if models.all(|model| Some(model) == first) {
            result.cases.iter_mut().for_each(|case| case.model = None);
        }
        result
    }
}

/// The reason a set ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetCompletion {
    /// All trials took place.
    #[default]
    Complete,
    /// The user stopped the set.
    Interrupted,
    /// The set's budget was spent.
    BudgetSpent,
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Id of the case.
    pub case: String,
    /// The model of the case; `None` for the default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Number of the trial, counted from 1 for each case and model.
    pub trial: u32,
    /// Whether it passed, failed, or says nothing about the agent.
    pub verdict: TrialVerdict,
    /// The reason it has no trajectory, or that its evaluation is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Scores of the evaluators.
    pub metrics: Vec<MetricScore>,
    /// The agent's work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trajectory: Option<Trajectory>,
}

/// The verdict on a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialVerdict {
    /// All metrics passed.
    Passed,
    /// A metric failed.
    Failed,
    /// The trial could not take place or be evaluated; it counts as failed.
    Broken,
    /// The set ended before the trial did; it does not count.
    Skipped,
}

impl TrialResult {
    /// Creates the result of a trial that has not begun.
    pub fn planned(case: &str, model: Option<&str>, trial: u32) -> Self {
        Self {
            case: case.to_owned(),
            model: model.map(str::to_owned),
            trial,
            verdict: TrialVerdict::Skipped,
            error: None,
            metrics: Vec::new(),
            trajectory: None,
        }
    }

    /// Returns whether the trial counts in sums.
    pub fn counts(&self) -> bool {
        self.verdict != TrialVerdict::Skipped
    }

    /// Returns the problems of the trial, one a line. Findings of recorded calls are problems even if the threshold allows
    /// them, because a call that is not replayable shows nothing about the plugin.
    pub fn findings(&self) -> Vec<String> {
        let metrics = self.metrics.iter().filter(|metric| !metric.passed || metric.evaluator == RECORDED_CALLS);
        let findings = metrics
            .flat_map(|metric| metric.findings.iter().map(move |finding| format!("{}: {finding}", metric.evaluator)));
        self.error.clone().into_iter().chain(findings).collect()
    }
}

/// Sums over trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetSums {
    /// Trials that count.
    pub trials: u64,
    /// Trials that passed.
    pub passed: u64,
    /// Trials that did not take place.
    pub skipped: u64,
    /// Share of passed trials; 0 without trials.
    pub pass_rate: f64,
    /// Interval of 95 % confidence for the probability that a trial passes.
    pub interval: (f64, f64),
    /// Estimates of the probability that `k` trials of a case all pass, by `k`: the mean over all cases with `k` trials,
    /// for each `k` that all cases have.
    pub pass_hat: BTreeMap<u64, f64>,
    /// Tool calls, also of sub-agents and skipped trials.
    #[serde(default)]
    pub calls: u64,
    /// Requests to the model, also of sub-agents and skipped trials.
    #[serde(default)]
    pub turns: u64,
    /// Tokens of all requests, including skipped trials.
    pub usage: Usage,
    /// Cost of all requests in US dollars; `None` when a price is unknown.
    pub cost: Option<f64>,
    /// Sum of the durations in milliseconds.
    pub duration_ms: u64,
}

/// Sums over the trials of a case with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseSums {
    /// Id of the case.
    pub case: String,
    /// The model; `None` for the default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The sums.
    pub sums: SetSums,
}

impl SetSums {
    fn from_trials<'a>(trials: impl Iterator<Item = &'a TrialResult>) -> Self {
        let mut sums = Self { cost: Some(0.0), ..Self::default() };
        for trial in trials {
            if trial.counts() {
                sums.trials += 1;
                sums.passed += u64::from(trial.verdict == TrialVerdict::Passed);
            } else {
                sums.skipped += 1;
            }
            if let Some(trajectory) = &trial.trajectory {
                sums.calls += trajectory.calls(true).count() as u64;
                sums.turns += trajectory.turns.len() as u64;
                sums.usage = sums.usage.combine(&trajectory.usage);
                sums.cost = sums.cost.zip(trajectory.cost).map(|(sum, cost)| sum + cost);
                sums.duration_ms = sums.duration_ms.saturating_add(trajectory.duration_ms);
            }
        }
        sums.pass_rate = if sums.trials == 0 { 0.0 } else { sums.passed as f64 / sums.trials as f64 };
        sums.interval = wilson_interval(sums.passed, sums.trials);
        sums
    }
}

/// Returns the sums of each case with each model, in the order of the trials, and the sums of all.
pub fn sum_up(trials: &[TrialResult]) -> (Vec<CaseSums>, SetSums) {
    let mut groups: Vec<(&str, Option<&str>)> = Vec::new();
    for trial in trials {
        let group = (trial.case.as_str(), trial.model.as_deref());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let cases: Vec<CaseSums> = groups
        .into_iter()
        .map(|(case, model)| {
            let of_group = trials.iter().filter(|trial| (trial.case.as_str(), trial.model.as_deref()) == (case, model));
            let mut sums = SetSums::from_trials(of_group);
            sums.pass_hat =
                (1..=sums.trials).filter_map(|k| Some((k, pass_hat(sums.passed, sums.trials, k)?))).collect();
            CaseSums { case: case.to_owned(), model: model.map(str::to_owned), sums }
        })
        .collect();
    let mut sums = SetSums::from_trials(trials.iter());
    let counted: Vec<&CaseSums> = cases.iter().filter(|case| case.sums.trials > 0).collect();
    let most = counted.iter().map(|case| case.sums.trials).min().unwrap_or_default();
    for k in 1..=most {
        let estimates: f64 = counted.iter().filter_map(|case| case.sums.pass_hat.get(&k)).sum();
        sums.pass_hat.insert(k, estimates / counted.len() as f64);
    }
    (cases, sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{TrajectoryCall, TrajectoryTurn};

    fn trial(case: &str, number: u32, verdict: TrialVerdict, cost: Option<f64>) -> TrialResult {
        let usage = Usage { input: 10, output: 1, ..Usage::default() };
        let turn = TrajectoryTurn { calls: vec![TrajectoryCall::default(); 2], ..TrajectoryTurn::default() };
        let turns = vec![TrajectoryTurn { is_sub_agent: true, ..turn.clone() }, turn, TrajectoryTurn::default()];
        let trajectory = Trajectory { usage, cost, duration_ms: 100, turns, ..Trajectory::default() };
        TrialResult { verdict, trajectory: Some(trajectory), ..TrialResult::planned(case, None, number) }
    }

    #[test]
    fn only_model_is_left_out() {
        let with = |models: [&str; 2]| {
            let trials = models.map(|model| TrialResult::planned(model, Some(model), 1));
            SetResult::new("s", trials.into()).without_only_model().cases.into_iter().map(|case| case.model)
        };
        assert_eq!(with(["a", "a"]).collect::<Vec<_>>(), [None]);
        assert_eq!(with(["a", "b"]).collect::<Vec<_>>(), [Some("a".to_owned()), Some("b".to_owned())]);
    }

    #[test]
    fn findings_are_of_failed_scores_and_of_recorded_calls() {
        let metric = |name: &str, value: f64| MetricScore::new(name, value, 0.5, vec![format!("f{value}")]);
        let metrics = vec![metric("files", 0.9), metric(RECORDED_CALLS, 0.9), metric("answer", 0.1)];
        let result = TrialResult { metrics, ..TrialResult::planned("a", None, 1) };
        assert_eq!(result.findings(), ["recorded-calls: f0.9", "answer: f0.1"]);
    }

    #[test]
    fn sums_count_trials_usage_cost_and_time() {
        use TrialVerdict::{Broken, Failed, Passed, Skipped};
        let trials = [
            trial("a", 1, Passed, Some(0.5)),
            trial("a", 2, Passed, Some(0.25)),
            trial("a", 3, Failed, Some(0.25)),
            trial("b", 1, Broken, Some(0.0)),
            trial("b", 2, Passed, Some(1.0)),
            trial("b", 3, Skipped, Some(1.0)),
        ];
        let (cases, sums) = sum_up(&trials);
        assert_eq!((sums.trials, sums.passed, sums.skipped, sums.pass_rate), (5, 3, 1, 0.6));
        assert_eq!((sums.usage.input, sums.usage.output, sums.cost, sums.duration_ms), (60, 6, Some(3.0), 600));
        assert_eq!((sums.calls, sums.turns), (24, 18));
        assert_eq!(sums.interval, wilson_interval(3, 5));
        // Of `a`, 2 of 3 pass and 1 of 3 pairs does; of `b`, 1 of 2 passes and no pair does.
        let third = 1.0 / 3.0;
        assert_eq!(cases[0].sums.pass_hat, [(1, 2.0 * third), (2, third), (3, 0.0)].into());
        assert_eq!(sums.pass_hat.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert!((sums.pass_hat[&1] - 7.0 / 12.0).abs() < 1e-12 && (sums.pass_hat[&2] - 1.0 / 6.0).abs() < 1e-12);
        let unknown = [trial("a", 1, Passed, Some(0.5)), trial("a", 2, Passed, None)];
        assert_eq!(sum_up(&unknown).1.cost, None);
        assert_eq!(sum_up(&[]).1.interval, (0.0, 1.0));
    }
}
