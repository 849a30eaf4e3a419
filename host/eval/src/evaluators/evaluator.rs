//! The interface of evaluators: what a trial leaves for them, and their scores.

use super::functions::FunctionOutcome;
use super::recorded_calls::RepeatedCalls;
use crate::case::EvaluationCase;
use crate::trajectory::Trajectory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Compares a kind of expectation with a trial.
pub trait Evaluator: Send + Sync {
    /// Returns the name, by which a case selects it.
    fn name(&self) -> &'static str;

    /// Returns the score; `None` if the case expects nothing of this kind, or the trial has nothing to score.
    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore>;
}

/// The score of an evaluator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricScore {
    /// Name of the evaluator.
    pub evaluator: String,
    /// Score, 0 to 1.
    pub value: f64,
    /// Minimum score.
    pub threshold: f64,
    /// Whether the score reaches the threshold.
    pub passed: bool,
    /// Expectations that were not met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl MetricScore {
    /// Creates a score. A value that is not a number fails.
    pub fn new(evaluator: &str, value: f64, threshold: f64, findings: Vec<String>) -> Self {
        Self { evaluator: evaluator.to_owned(), value, threshold, passed: value >= threshold, findings }
    }

    /// Creates the share of expectations that were met, all of which must be. `None` without expectations.
    pub(super) fn of_all(evaluator: &str, expected: usize, findings: Vec<String>) -> Option<Self> {
        let met = expected.saturating_sub(findings.len());
        (expected > 0).then(|| Self::new(evaluator, met as f64 / expected as f64, 1.0, findings))
    }
}

/// Returns the plural of a regular noun with its number, such as `1 call` or `2 calls`.
pub(super) fn counted(n: u64, noun: &str) -> String {
    pinion_protocol::text::count(n, noun)
}

/// The evidence of a trial. It is gathered first, so that evaluators only compute.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrialEvidence {
    /// The agent's work.
    pub trajectory: Trajectory,
    /// Contents of the files that the case names; `None` for one that does not exist.
    pub contents: BTreeMap<String, Option<Vec<u8>>>,
    /// Files that the run changed; `None` without a workspace.
    pub changes: Option<Vec<FileChange>>,
    /// Changes of the files outside the workspace; `None` if the case has none.
    pub outside_changes: Option<Vec<FileChange>>,
    /// Outcomes of the functions that the case names, in its order.
    pub functions: Vec<FunctionOutcome>,
    /// The outcome of repeating the recorded calls; `None` if the case does not expect it.
    pub repeated_calls: Option<RepeatedCalls>,
    /// Outcomes of the commands that the case names, in its order.
    pub commands: Vec<CommandOutcome>,
    /// The verdict of the model that judges the answer.
    pub verdict: Option<JudgeVerdict>,
}

/// A file that differs after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Path relative to the workspace.
    pub path: String,
    /// The kind of the change, as a past participle: `created`, `changed` or `deleted`.
    pub kind: &'static str,
}

/// The outcome of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// Whether it exited with status 0.
    pub succeeded: bool,
    /// Its status and the end of its output.
    pub report: String,
}

/// The verdict of a model on an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JudgeVerdict {
    /// Whether the answer meets the criteria.
    pub met: bool,
    /// The model's reason.
    pub reason: String,
}
