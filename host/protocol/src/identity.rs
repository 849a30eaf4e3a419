//! Which loop is which, and how they came from each other.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a loop goes on from another one, when no new prompt begins it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Continuation {
    /// It just goes on.
    Default,
    /// Once more from the same context.
    Rerun {
        /// Tells this one from others; a timestamp, when nobody chose one.
        tag: String,
    },
    /// Another way from the same context.
    Branch {
        /// Tells this one from others; a timestamp, when nobody chose one.
        tag: String,
    },
}

impl Continuation {
    /// Once more from the same context, told from others by the time.
    pub fn rerun() -> Self {
        Self::Rerun { tag: Timestamp::now().to_string() }
    }

    /// Another way from the same context, told from others by the time.
    pub fn branch() -> Self {
        Self::Branch { tag: Timestamp::now().to_string() }
    }
}

/// What began a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnTrigger {
    /// A prompt.
    #[default]
    User,
    /// The prompt of an agent to its sub-agent.
    SubAgent,
    /// What came before: results of tools, a message that steers or follows, a loop that goes on.
    Continuation,
    /// A branch.
    Branch,
}
