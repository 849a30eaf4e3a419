//! Status of a plan step.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Status of a plan step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not started.
    #[default]
    Open,
    /// In progress, or interrupted.
    Running,
    /// Completed successfully.
    Done,
    /// Attempted without success.
    Failed,
}

impl StepStatus {
    /// All statuses, in the order of a step's life.
    pub const ALL: [Self; 4] = [Self::Open, Self::Running, Self::Done, Self::Failed];

    /// Returns the word that stands for this status in a plan file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Parses a word of a plan file, ignoring case and surrounding whitespace.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word().eq_ignore_ascii_case(word.trim()))
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
