//! Results of runs.

use crate::message::{Message, StopReason};
use crate::usage::{Cost, Usage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The reason the run ended.
    pub end: RunEnd,
    /// Messages that the run added, in order. Those that a compaction replaced are only in the session. If the session
    /// could not store a reply, that reply is the last one, and only here.
    pub messages: Vec<Arc<Message>>,
    /// Tokens of all requests.
    pub usage: Usage,
    /// Cost of the tokens; `None` when the model's prices are unknown.
    pub cost: Option<Cost>,
    /// Number of turns.
    pub turns: u32,
}

impl Outcome {
    /// Returns the text of the model's last message; empty when there is none.
    pub fn text(&self) -> String {
        let last = self.messages.iter().rev().find_map(|message| match &**message {
            Message::Assistant(message) => Some(message.text()),
            _ => None,
        });
        last.unwrap_or_default()
    }
}

/// The reason a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum RunEnd {
    /// The model finished without further tool calls.
    Done {
        /// Stop reason of the last message: [`StopReason::Length`] means that it is truncated.
        stop_reason: StopReason,
    },
    /// The run reached a limit.
    Limit {
        /// The limit, with its value.
        limit: Limit,
    },
    /// The provider or the session store failed permanently.
    Error {
        /// Error text for people.
        message: String,
    },
    /// The run was aborted.
    Aborted,
    /// The prompt was rejected.
    Rejected {
        /// Reason for people.
        reason: String,
    },
}

/// A limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// Number of turns.
    Turns(u32),
    /// Number of tokens, not counting those read from the vendor's cache.
    Tokens(u64),
    /// Duration in seconds.
    Time(u64),
    /// Cost in US dollars.
    Cost(f64),
}

// Limits come from flags and configs, which reject NaN.
impl Eq for Limit {}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turns(n) => write!(f, "the limit of {n} turns was reached (--max-turns)"),
            Self::Tokens(n) => write!(f, "the limit of {n} tokens was reached (--max-tokens)"),
            Self::Time(n) => write!(f, "the time limit of {n} seconds was reached (--timeout)"),
            Self::Cost(n) => write!(f, "the limit of {n} US dollars was reached (--max-cost)"),
        }
    }
}
