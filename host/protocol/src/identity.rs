//! The relations between runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The relation of a run to its parent run, when it has no prompt of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Continuation {
    /// Resumes the parent run.
    Default,
    /// Repeats the parent run from the same context.
    Rerun {
        /// Distinguishes this run from others of the same kind; a timestamp by default.
        tag: String,
    },
    /// Tries an alternative from the same context.
    Branch {
        /// Distinguishes this run from others of the same kind; a timestamp by default.
        tag: String,
    },
}

impl Continuation {
    /// Creates a rerun that is tagged with the current time.
    pub fn rerun() -> Self {
        Self::Rerun { tag: Timestamp::now().to_string() }
    }

    /// Creates a branch that is tagged with the current time.
    pub fn branch() -> Self {
        Self::Branch { tag: Timestamp::now().to_string() }
    }
}

/// The cause of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnTrigger {
    /// A prompt of the user.
    #[default]
    User,
    /// A prompt of an agent for its sub-agent.
    SubAgent,
    /// Earlier events: tool results, a steering or follow-up message, or a resumed run.
    Continuation,
    /// The start of a branch.
    Branch,
}
