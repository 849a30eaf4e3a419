//! Everything that a trial leaves for its evaluation.

use super::functions::FunctionOutcome;
use crate::trajectory::Trajectory;
use std::collections::BTreeMap;

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
