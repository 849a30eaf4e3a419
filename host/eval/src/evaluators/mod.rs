//! Evaluators: each compares one kind of expectation with the evidence of a trial.
//!
//! An evaluator is one file and one row of [`EvaluatorRegistry::default`].

mod answer;
mod authority;
mod budget;
mod commands;
mod completed;
mod denied;
mod efficiency;
mod evidence;
mod files;
mod tools;

pub use self::evidence::{CommandOutcome, FileChange, JudgeVerdict, TrialEvidence};

use crate::case::EvaluationCase;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
    fn of_all(evaluator: &str, expected: usize, findings: Vec<String>) -> Option<Self> {
        let met = expected.saturating_sub(findings.len());
        (expected > 0).then(|| Self::new(evaluator, met as f64 / expected as f64, 1.0, findings))
    }
}

/// The known evaluators.
pub struct EvaluatorRegistry {
    evaluators: Vec<Box<dyn Evaluator>>,
}

impl Default for EvaluatorRegistry {
    fn default() -> Self {
        Self {
            evaluators: vec![
                Box::new(completed::CompletedEvaluator),
                Box::new(files::FileEvaluator),
                Box::new(commands::CommandEvaluator),
                Box::new(tools::ToolEvaluator),
                Box::new(answer::AnswerEvaluator),
                Box::new(budget::BudgetEvaluator),
                Box::new(efficiency::EfficiencyEvaluator),
                Box::new(authority::AuthorityEvaluator),
                Box::new(denied::DeniedEvaluator),
            ],
        }
    }
}

impl fmt::Debug for EvaluatorRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EvaluatorRegistry").field(&self.names()).finish()
    }
}

impl EvaluatorRegistry {
    /// Adds an evaluator, in place of an earlier one of the same name.
    pub fn add(&mut self, evaluator: impl Evaluator + 'static) {
        self.evaluators.retain(|known| known.name() != evaluator.name());
        self.evaluators.push(Box::new(evaluator));
    }

    /// Returns the names of all evaluators.
    pub fn names(&self) -> Vec<&'static str> {
        self.evaluators.iter().map(|evaluator| evaluator.name()).collect()
    }

    /// Evaluates a trial with the evaluators that count for its case. A panic of one is a failed metric.
    pub fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Vec<MetricScore> {
        let counted = self.evaluators.iter().filter(|evaluator| case.uses(evaluator.name()));
        let score = |evaluator: &dyn Evaluator| {
            let evaluated = catch_unwind(AssertUnwindSafe(|| evaluator.evaluate(case, evidence)));
            let panicked = || MetricScore::new(evaluator.name(), 0.0, 1.0, vec!["the evaluator panicked".to_owned()]);
            evaluated.unwrap_or_else(|_| Some(panicked()))
        };
        counted.filter_map(|evaluator| score(&**evaluator)).collect()
    }
}

/// Returns the plural of a regular noun with its number, such as `1 call` or `2 calls`.
fn counted(n: u64, noun: &str) -> String {
    pinion_protocol::text::count(n, noun)
}

#[cfg(test)]
pub(crate) mod testing {
    //! Cases and evidence for the tests of evaluators.

    use super::{MetricScore, TrialEvidence};
    use crate::case::EvaluationCase;
    use crate::trajectory::{Trajectory, TrajectoryCall, TrajectoryTurn};
    use serde_json::{Value, json};

    /// Returns a case with these expectations.
    pub(crate) fn case(expect: Value) -> EvaluationCase {
        serde_json::from_value(json!({ "id": "a", "prompt": "go", "expect": expect })).unwrap()
    }

    /// Returns a call with arguments.
    pub(crate) fn call(tool: &str, arguments: Value) -> TrajectoryCall {
        TrajectoryCall { tool: tool.to_owned(), arguments, ..TrajectoryCall::default() }
    }

    /// Returns the evidence of turns with these calls.
    pub(crate) fn turns(turns: Vec<Vec<TrajectoryCall>>) -> TrialEvidence {
        let turns = turns.into_iter().map(|calls| TrajectoryTurn { calls, ..TrajectoryTurn::default() });
        let trajectory = Trajectory { turns: turns.collect(), ..Trajectory::default() };
        TrialEvidence { trajectory, ..TrialEvidence::default() }
    }

    /// Returns the value, the verdict and the findings of a score.
    pub(crate) fn seen(score: Option<MetricScore>) -> Option<(f64, bool, Vec<String>)> {
        score.map(|score| (score.value, score.passed, score.findings))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::case;
    use super::*;
    use serde_json::json;

    struct FaultyEvaluator;

    impl Evaluator for FaultyEvaluator {
        fn name(&self) -> &'static str {
            "faulty"
        }

        fn evaluate(&self, _: &EvaluationCase, _: &TrialEvidence) -> Option<MetricScore> {
            panic!("a fault")
        }
    }

    #[test]
    fn panic_of_an_evaluator_is_a_failed_metric() {
        let mut registry = EvaluatorRegistry::default();
        registry.add(FaultyEvaluator);
        let mut case = case(json!({}));
        case.evaluators = Some(vec!["faulty".to_owned()]);
        let scores = registry.evaluate(&case, &TrialEvidence::default());
        assert_eq!(scores, [MetricScore::new("faulty", 0.0, 1.0, vec!["the evaluator panicked".to_owned()])]);
        assert!(!scores[0].passed && !MetricScore::new("a", f64::NAN, 0.0, Vec::new()).passed);
    }

    #[test]
    fn only_expected_kinds_are_scored() {
        let registry = EvaluatorRegistry::default();
        let scores = registry.evaluate(&case(json!({})), &TrialEvidence::default());
        assert_eq!(scores.iter().map(|score| score.evaluator.as_str()).collect::<Vec<_>>(), ["completed"]);
        let expected = "completed files commands tools answer budget efficiency authority denied";
        assert_eq!(registry.names().join(" "), expected);
    }
}
