//! Commands that exit with status 0 after the run.

use super::evaluator::{Evaluator, MetricScore, TrialEvidence};
use crate::case::EvaluationCase;

/// Scores the share of commands that succeed; all must.
pub(super) struct CommandEvaluator;

impl Evaluator for CommandEvaluator {
    fn name(&self) -> &'static str {
        "commands"
    }

    fn evaluate(&self, case: &EvaluationCase, evidence: &TrialEvidence) -> Option<MetricScore> {
        let commands = &case.expect.commands;
        let finding = |(number, command): (usize, &String)| match evidence.commands.get(number) {
            Some(outcome) if outcome.succeeded => None,
            Some(outcome) => Some(format!("`{command}` failed: {}", outcome.report)),
            None => Some(format!("`{command}` did not run")),
        };
        MetricScore::of_all(self.name(), commands.len(), commands.iter().enumerate().filter_map(finding).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::CommandOutcome;
    use super::super::testing::{case, seen};
    use super::*;
    use serde_json::json;

    #[test]
    fn each_command_must_succeed() {
        let outcome = |succeeded, report: &str| CommandOutcome { succeeded, report: report.to_owned() };
        let case = case(json!({ "commands": ["true", "false", "make"] }));
        let mut evidence =
            TrialEvidence { commands: vec![outcome(true, ""), outcome(false, "status 1")], ..Default::default() };
        let expected = ["`false` failed: status 1", "`make` did not run"].map(str::to_owned).to_vec();
        assert_eq!(seen(CommandEvaluator.evaluate(&case, &evidence)), Some((1.0 / 3.0, false, expected)));
        evidence.commands = vec![outcome(true, ""); 3];
        assert_eq!(seen(CommandEvaluator.evaluate(&case, &evidence)), Some((1.0, true, vec![])));
    }
}
