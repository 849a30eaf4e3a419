//! Results of runs.

use crate::message::{ExtensionMessage, Message, StopReason};
use crate::provider::ProviderError;
use crate::text::count;
use crate::usage::Spend;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;
use std::sync::Arc;

/// Kind of the extension message that names the limit that ended a run.
pub const LIMIT_MESSAGE: &str = "pinion/limit";

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// The reason the run ended.
    pub end: RunEnd,
    /// Messages that the run added, in order. Those that a compaction replaced are only in the session. If the session
    /// could not store a reply, that reply is the last one, and only here.
    pub messages: Vec<Arc<Message>>,
    /// Tokens and cost of all requests.
    pub spend: Spend,
    /// Number of turns.
    pub turns: u32,
}

impl Outcome {
    /// Creates the result of a run without messages.
    pub fn new(end: RunEnd, spend: Spend, turns: u32) -> Self {
        Self { end, messages: Vec::new(), spend, turns }
    }

    /// Returns the text of the model's last message; empty without one.
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
#[non_exhaustive]
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
    /// The run failed permanently. Serialized as `error`, the name in session files and JSON output.
    #[serde(rename = "error")]
    Failed(RunError),
    /// The run was aborted.
    Aborted,
    /// The prompt was rejected.
    Rejected {
        /// Reason for people.
        reason: String,
    },
}

impl RunEnd {
    /// Creates the end of a run that failed.
    pub fn failed(kind: RunErrorKind, message: impl Into<String>) -> Self {
        Self::Failed(RunError::new(kind, message))
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { .. } => f.write_str("done"),
            Self::Limit { limit } => limit.fmt(f),
            Self::Failed(error) => error.fmt(f),
            Self::Aborted => f.write_str("aborted"),
            Self::Rejected { reason } => f.write_str(reason),
        }
    }
}

/// A permanent failure of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct RunError {
    /// The kind of failure.
    pub kind: RunErrorKind,
    /// Error text for people.
    pub message: String,
}

impl RunError {
    /// Creates a failure.
    pub fn new(kind: RunErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<&ProviderError> for RunError {
    fn from(error: &ProviderError) -> Self {
        Self::new(error.into(), error.to_string())
    }
}

/// The kind of failure that ended a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunErrorKind {
    /// The key is missing, invalid or lacks permission.
    Authentication,
    /// The vendor still limited the rate after all retries.
    RateLimited,
    /// The vendor was still out of capacity after all retries.
    Overloaded,
    /// The vendor was unreachable, or the connection was lost, after all retries.
    Network,
    /// The conversation exceeds the model's context window and could not be compacted any further.
    Overflow,
    /// The vendor rejected the request.
    Rejected,
    /// The vendor ended the reply with an error and no reason, usually because of a filter.
    Refused,
    /// The vendor's answer does not follow its protocol.
    Malformed,
    /// The disk, or the user's quota, has no room for the session.
    StoreFull,
    /// The session could not be written for another reason.
    Store,
    /// Code of the application panicked, such as a hook.
    Panic,
    /// Any other failure, such as a plan step that is not done, or a kind that a newer version wrote.
    #[default]
    #[serde(other)]
    Other,
}

impl RunErrorKind {
    /// Returns whether the request to the model failed, not the program around it.
    pub fn is_of_provider(self) -> bool {
        match self {
            Self::Authentication | Self::RateLimited | Self::Overloaded | Self::Network => true,
            Self::Overflow | Self::Rejected | Self::Refused | Self::Malformed => true,
            Self::StoreFull | Self::Store | Self::Panic | Self::Other => false,
        }
    }
}

impl From<&ProviderError> for RunErrorKind {
    fn from(error: &ProviderError) -> Self {
        match error {
            ProviderError::Api { .. } | ProviderError::ImageRefused { .. } => Self::Rejected,
            ProviderError::Auth { .. } => Self::Authentication,
            ProviderError::RateLimited { .. } => Self::RateLimited,
            ProviderError::Overloaded { .. } => Self::Overloaded,
            ProviderError::Network { .. } | ProviderError::Unreachable { .. } => Self::Network,
            ProviderError::ContextOverflow { .. } => Self::Overflow,
            ProviderError::Malformed { .. } => Self::Malformed,
            ProviderError::Cancelled => Self::Other,
        }
    }
}

/// A limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "limit", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Number of turns.
    Turns(u32),
    /// Number of tokens, not counting those read from the vendor's cache.
    Tokens(u64),
    /// Number of input tokens, not counting those read from the vendor's cache.
    InputTokens(u64),
    /// Number of output tokens.
    OutputTokens(u64),
    /// Duration in seconds.
    Time(u64),
    /// Cost in US dollars.
    Cost(f64),
}

// Limits come from flags and configs, which reject NaN.
impl Eq for Limit {}

impl Limit {
    /// Returns the message that records in the session which limit ended a run.
    pub fn message(self) -> Message {
        let data = json!({ "limit": self, "text": self.to_string() });
        Message::Extension(ExtensionMessage { kind: LIMIT_MESSAGE.to_owned(), data, timestamp: Timestamp::now() })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turns(n) => write!(f, "the limit of {} was reached", count(u64::from(*n), "turn")),
            Self::Tokens(n) => write!(f, "the limit of {} was reached", count(*n, "token")),
            Self::InputTokens(n) => write!(f, "the limit of {} was reached", count(*n, "input token")),
            Self::OutputTokens(n) => write!(f, "the limit of {} was reached", count(*n, "output token")),
            Self::Time(n) => write!(f, "the time limit of {} was reached", count(*n, "second")),
            Self::Cost(n) => write!(f, "the limit of {n} US dollars was reached"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, json, to_value};

    #[test]
    fn failure_of_a_newer_version_is_read() {
        let newer: RunEnd = from_str(r#"{"how":"error","kind":"solar_flare","message":"bits"}"#).unwrap();
        assert_eq!(newer, RunEnd::failed(RunErrorKind::Other, "bits"));
    }

    #[test]
    fn failure_keeps_its_kind() {
        let end = RunEnd::failed(RunErrorKind::StoreFull, "no space");
        let written = to_value(&end).unwrap();
        assert_eq!(written, json!({ "how": "error", "kind": "store_full", "message": "no space" }));
        assert_eq!(serde_json::from_value::<RunEnd>(written).unwrap(), end);
    }
}
