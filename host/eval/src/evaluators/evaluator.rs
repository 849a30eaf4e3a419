//! The interface of evaluators, and their scores.

use super::evidence::TrialEvidence;
use crate::case::EvaluationCase;
use serde::{Deserialize, Serialize};

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
