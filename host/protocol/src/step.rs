//! The status of a step of a plan.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The status of a step of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// It was not begun.
    #[default]
    Open,
    /// It is being done, or whoever did it was interrupted.
    Running,
    /// It is done.
    Done,
    /// It was tried, and is not done.
    Failed,
}

impl StepStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Open, Self::Running, Self::Done, Self::Failed];

    /// How it is written in a plan file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// The one that is written so, in letters of any case.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word().eq_ignore_ascii_case(word.trim()))
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
