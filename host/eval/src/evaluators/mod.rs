//! Evaluators: each compares one kind of expectation with the evidence of a trial.
//!
//! An evaluator is one type that implements [`Evaluator`] and one row of [`EvaluatorRegistry::default`].

mod answer;
mod authority;
mod budget;
mod commands;
mod evaluator;
mod files;
mod functions;
mod plan;
mod recorded_calls;
mod results;
#[cfg(test)]
mod testing;
mod tools;

pub use self::evaluator::{CommandOutcome, Evaluator, FileChange, JudgeVerdict, MetricScore, TrialEvidence};
pub use self::functions::FunctionOutcome;
pub(crate) use self::recorded_calls::RECORDED_CALLS;
pub use self::recorded_calls::{RepeatedCalls, UnequalCall};

use crate::case::EvaluationCase;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The known evaluators.
pub struct EvaluatorRegistry {
    evaluators: Vec<Box<dyn Evaluator>>,
}

impl Default for EvaluatorRegistry {
    fn default() -> Self {
        Self {
            evaluators: vec![
                Box::new(answer::CompletedEvaluator),
                Box::new(files::FileEvaluator),
                Box::new(commands::CommandEvaluator),
                Box::new(tools::ToolEvaluator),
                Box::new(answer::AnswerEvaluator),
                Box::new(budget::BudgetEvaluator),
                Box::new(budget::EfficiencyEvaluator),
                Box::new(authority::AuthorityEvaluator),
                Box::new(authority::DeniedEvaluator),
                Box::new(results::ResultEvaluator),
                Box::new(files::OutsideEvaluator),
                Box::new(plan::PlanEvaluator),
                Box::new(functions::FunctionEvaluator),
                Box::new(recorded_calls::RecordedCallEvaluator),
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
        let expected = "completed files commands tools answer budget efficiency authority denied results outside plan \
                        functions recorded-calls";
        assert_eq!(registry.names().join(" "), expected);
    }
}
