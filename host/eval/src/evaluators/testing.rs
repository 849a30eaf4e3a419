//! Cases and evidence for the tests of evaluators.

use super::evaluator::MetricScore;
use super::evaluator::TrialEvidence;
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
