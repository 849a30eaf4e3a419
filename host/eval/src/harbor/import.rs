//! Results of Harbor as results of sets.

use crate::audit::AuditTrail;
use crate::case::is_id;
use crate::error::EvalError;
use crate::evaluators::MetricScore;
use crate::files;
use crate::result::{SetResult, TrialResult, TrialVerdict};
use crate::trajectory::Trajectory;
use jiff::Timestamp;
use pinion_protocol::Usage;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Maximum bytes of the result of a trial.
const MAX_RESULT: u64 = 64 << 20;
/// Name of the result of a trial in its directory.
const RESULT: &str = "result.json";

/// The part of a trial's result that this program reads.
#[derive(Debug, Deserialize)]
struct HarborTrial {
    task_name: String,
    #[serde(default)]
    agent_info: Option<HarborAgent>,
    #[serde(default)]
    agent_result: Option<HarborUsage>,
    #[serde(default)]
    verifier_result: Option<HarborRewards>,
    #[serde(default)]
    exception_info: Option<HarborException>,
    #[serde(default)]
    started_at: Option<String>,
    #[serde(default)]
    finished_at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct HarborAgent {
    #[serde(default)]
    model_info: Option<HarborModel>,
}

#[derive(Debug, Deserialize)]
struct HarborModel {
    name: String,
    #[serde(default)]
    provider: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct HarborUsage {
    #[serde(default)]
    n_input_tokens: Option<u64>,
    #[serde(default)]
    n_cache_tokens: Option<u64>,
    #[serde(default)]
    n_output_tokens: Option<u64>,
    #[serde(default)]
    cost_usd: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct HarborRewards {
    #[serde(default)]
    rewards: Option<BTreeMap<String, f64>>,
}

#[derive(Debug, Deserialize)]
struct HarborException {
    exception_type: String,
    exception_message: String,
}

/// Reads the trials in the directory of a job. A trial passes if each reward is at least 1.
///
/// # Errors
/// The directory has no trial, or a result cannot be read.
pub fn import_job(directory: &Path, set: &str) -> Result<SetResult, EvalError> {
    let entries = std::fs::read_dir(directory).map_err(EvalError::read(directory))?;
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path().join(RESULT)).filter(|path| path.is_file()).collect();
    paths.sort();
    let mut trials = Vec::new();
    let (mut numbers, mut times) = (HashMap::new(), Vec::new());
    for path in paths {
        let bytes = files::read(&path, MAX_RESULT).map_err(EvalError::read(&path))?;
        let trial: HarborTrial = serde_json::from_slice(&bytes).map_err(|error| EvalError::Syntax {
            path: path.clone(),
            format: "a trial of Harbor",
            problem: error.to_string(),
        })?;
        let [started, finished] =
            [&trial.started_at, &trial.finished_at].map(|time| time.as_deref().and_then(timestamp));
        times.extend(started.into_iter().chain(finished));
        let case = trial.task_name.rsplit('/').next().unwrap_or_default().to_owned();
        let case = if is_id(&case) { case } else { "task".to_owned() };
        let model = trial.agent_info.as_ref().and_then(|agent| agent.model_info.as_ref()).map(full_name);
        let number = numbers.entry((case.clone(), model.clone())).and_modify(|number| *number += 1).or_insert(1_u32);
        let milliseconds =
            started.zip(finished).map_or(0, |(started, finished)| finished.duration_since(started).as_millis());
        trials.push(imported(
            &trial,
            &case,
            model.as_deref(),
            *number,
            u64::try_from(milliseconds).unwrap_or_default(),
        ));
    }
    if trials.is_empty() {
        let problem = format!("no directory in it has a `{RESULT}`");
        return Err(EvalError::Syntax { path: directory.to_owned(), format: "a job of Harbor", problem });
    }
    let mut result = SetResult {
        name: Some("Results of Harbor".to_owned()),
        started: times.iter().min().copied().unwrap_or(Timestamp::UNIX_EPOCH),
        ended: times.iter().max().copied().unwrap_or(Timestamp::UNIX_EPOCH),
        ..SetResult::new(set, trials)
    };
    result.audit = AuditTrail::from_result(&result);
    Ok(result)
}

fn full_name(model: &HarborModel) -> String {
    model.provider.as_ref().map_or_else(|| model.name.clone(), |provider| format!("{provider}/{}", model.name))
}

/// Reads a time of Python, which has no zone if it is in UTC.
fn timestamp(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| format!("{text}Z").parse().ok())
}

fn imported(trial: &HarborTrial, case: &str, model: Option<&str>, number: u32, duration_ms: u64) -> TrialResult {
    let rewards = trial.verifier_result.as_ref().and_then(|result| result.rewards.as_ref());
    let score = |(name, reward): (&String, &f64)| {
        let finding = format!("the reward is {reward}");
        MetricScore::new(name, *reward, 1.0, if *reward >= 1.0 { Vec::new() } else { vec![finding] })
    };
    let metrics: Vec<MetricScore> = rewards.into_iter().flatten().map(score).collect();
    let usage = trial.agent_result.as_ref();
    let cached = usage.and_then(|usage| usage.n_cache_tokens).unwrap_or_default();
    let trajectory = Trajectory {
        usage: Usage {
            // Harbor's input includes cached tokens.
            input: usage.and_then(|usage| usage.n_input_tokens).unwrap_or_default().saturating_sub(cached),
            cache_read: cached,
            output: usage.and_then(|usage| usage.n_output_tokens).unwrap_or_default(),
            ..Usage::default()
        },
        cost: usage.and_then(|usage| usage.cost_usd),
        model: model.unwrap_or_default().to_owned(),
        duration_ms,
        ..Trajectory::default()
    };
    let error = trial.exception_info.as_ref().map(|e| format!("{}: {}", e.exception_type, e.exception_message));
    let verdict = match metrics.iter().all(|metric| metric.passed) {
        _ if metrics.is_empty() => TrialVerdict::Broken,
        true => TrialVerdict::Passed,
        false => TrialVerdict::Failed,
    };
    let error = error.or_else(|| metrics.is_empty().then(|| "it was not verified".to_owned()));
    TrialResult { verdict, metrics, error, trajectory: Some(trajectory), ..TrialResult::planned(case, model, number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn trial(name: &str, rewards: Value) -> Value {
        json!({
            "task_name": name, "trial_name": "t", "trial_uri": "file:///t", "task_checksum": "c",
            "agent_info": { "name": "pinion", "version": "1", "model_info": { "name": "m", "provider": "p" } },
            "agent_result": { "n_input_tokens": 100, "n_cache_tokens": 30, "n_output_tokens": 5, "cost_usd": 0.25 },
            "verifier_result": rewards,
            "started_at": "2026-01-02T03:04:05.500000", "finished_at": "2026-01-02T03:04:07Z"
        })
    }

    #[test]
    fn rewards_are_scores_and_trials_of_a_task_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut broken = trial("org/b", Value::Null);
        broken["exception_info"] = json!({ "exception_type": "Timeout", "exception_message": "late" });
        let trials = [
            trial("org/a", json!({ "rewards": { "reward": 1.0 } })),
            trial("org/a", json!({ "rewards": { "reward": 1, "style": 0.5 } })),
            broken,
        ];
        for (number, trial) in trials.iter().enumerate() {
            let path = directory.path().join(format!("t{number}"));
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("result.json"), trial.to_string()).unwrap();
        }
        std::fs::write(directory.path().join("result.json"), "{}").unwrap();
        let result = import_job(directory.path(), "h").unwrap();
        use TrialVerdict::{Broken, Failed, Passed};
        let seen: Vec<_> =
            result.trials.iter().map(|trial| (trial.case.as_str(), trial.trial, trial.verdict)).collect();
        assert_eq!(seen, [("a", 1, Passed), ("a", 2, Failed), ("b", 1, Broken)]);
        assert_eq!(result.trials[1].findings(), ["style: the reward is 0.5"]);
        assert_eq!(result.trials[2].findings(), ["Timeout: late"]);
        let usage = result.sums.usage;
        assert_eq!((usage.input, usage.cache_read, usage.output, result.sums.cost), (210, 90, 15, Some(0.75)));
        assert_eq!((result.sums.duration_ms, result.trials[0].model.as_deref()), (4_500, Some("p/m")));
        assert_eq!(result.started.to_string(), "2026-01-02T03:04:05.5Z");
        assert!(crate::audit::verify(&result).is_empty());
        assert!(import_job(&directory.path().join("t0"), "h").is_err());
    }
}
