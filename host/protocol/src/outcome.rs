//! How a run ends.

use crate::message::{Message, StopReason};
use crate::usage::{Cost, Usage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub end: RunEnd,
    /// The messages that it added, in order, without those that a compaction has replaced: these are in the session.
    pub messages: Vec<Arc<Message>>,
    /// Tokens of all its requests.
    pub usage: Usage,
    /// What they cost; none when the model's prices are not known.
    pub cost: Option<Cost>,
    /// Its turns.
    pub turns: u32,
}

impl Outcome {
    /// The text of the last message of the model; empty when it said nothing.
    pub fn text(&self) -> String {
        let last = self.messages.iter().rev().find_map(|message| match &**message {
            Message::Assistant(message) => Some(message.text()),
            _ => None,
        });
        last.unwrap_or_default()
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum RunEnd {
    /// The model had no more calls to make.
    Done {
        /// Why it stopped: [`StopReason::Length`] means that its last message is cut off.
        stop_reason: StopReason,
    },
    /// A limit was reached.
    Limit {
        /// Which one, and how much of it there was.
        limit: Limit,
    },
    /// Something failed for good: the provider, or the session store.
    Error {
        /// What.
        message: String,
    },
    /// It was aborted.
    Aborted,
    /// The prompt was refused.
    Rejected {
        /// Why.
        reason: String,
    },
}

/// A limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// Turns.
    Turns(u32),
    /// Tokens, without those that came from the vendor's cache.
    Tokens(u64),
    /// Seconds.
    Time(u64),
    /// US dollars.
    Cost(f64),
}

// A limit is written by the user and never NaN.
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
