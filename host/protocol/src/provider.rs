//! The port to model providers, and the events of replies.
//!
//! A provider gets a complete request and answers with a stream of [`StreamEvent`]s, the common vocabulary of all wire
//! formats. The order is fixed: one [`StreamEvent::Start`]; then parts, each with a start, deltas and an end, which
//! overlap if the vendor interleaves them; [`StreamEvent::Usage`] at any time; one [`StreamEvent::End`]. The events do
//! not depend on how the bytes were split into packets. An `Err` ends the stream. The agent loop treats a stream that
//! ends without [`StreamEvent::End`] or an `Err` as a network error.

use crate::definition::ToolDefinition;
use crate::message::{Message, StopReason};
use crate::usage::{PriceList, Usage};
use futures_util::stream::BoxStream;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A service that runs models.
pub trait Provider: Send + Sync {
    /// Returns the user-facing name of the provider, such as `anthropic`.
    fn name(&self) -> &str;

    /// Starts a request. Does not block: builds the body from `request` before it returns, and does the rest when the
    /// stream is polled. Dropping the stream ends the request; cancelling `token` ends it with
    /// [`ProviderError::Cancelled`].
    ///
    /// Providers do not retry; the agent loop does, see `RetryPolicy` in `pinion-agent`.
    fn stream(&self, request: Request, token: CancellationToken) -> EventStream;
}

/// The events of one reply.
pub type EventStream = BoxStream<'static, Result<StreamEvent, ProviderError>>;

/// One request to a model.
#[derive(Debug, Clone)]
pub struct Request {
    /// The provider's name for the model.
    pub model: String,
    /// The system prompt; may be empty.
    pub system: Arc<str>,
    /// The conversation, without [`Message::Extension`]. Every tool call in it is followed by its result.
    pub messages: Vec<Arc<Message>>,
    /// The tools to offer, in this order.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Constraint on the model's use of tools.
    pub tool_choice: ToolChoice,
    /// Optional settings.
    pub options: RequestOptions,
}

/// Optional settings of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// Output limit in tokens; `None` for the model's own limit.
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature, 0 to 2; `None` for the vendor's default.
    pub temperature: Option<f64>,
    /// Thinking effort.
    pub thinking: ThinkingLevel,
    /// Thinking budget in tokens, for vendors that support one; overrides the budget of `thinking`.
    pub thinking_budget: Option<u64>,
    /// Thinking budgets in tokens by level; the provider has its own for a level that is missing.
    pub thinking_budgets: BTreeMap<ThinkingLevel, u64>,
    /// The parts of the prompt that the vendor should cache for the next request.
    pub cache: CachePolicy,
    /// Key for this request only; `None` for the provider's own key.
    pub api_key: Option<SecretString>,
    /// Id shared by all requests of a session, for vendors that accept one.
    pub session_id: Option<String>,
    /// Id of the session whose requests begin like this one; `None` for the request's own session.
    pub cache_session: Option<String>,
}

impl RequestOptions {
    /// Returns the key by which vendors find the cached beginning of the request.
    pub fn cache_key(&self) -> Option<&str> {
        self.cache_session.as_deref().or(self.session_id.as_deref())
    }

    /// Returns the thinking budget that the user set, for all levels or for this one.
    pub fn budget(&self) -> Option<u64> {
        self.thinking_budget.or_else(|| self.thinking_budgets.get(&self.thinking).copied())
    }
}

/// Constraint on the model's use of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call some tool.
    Any,
    /// The model must call the tool of this name.
    Tool(String),
}

/// Thinking effort before the answer. Each provider maps it to a parameter of its vendor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// No thinking, or the least that the model supports.
    #[default]
    Off,
    /// Minimal effort.
    Minimal,
    /// Low effort.
    Low,
    /// Medium effort.
    Medium,
    /// High effort.
    High,
    /// The highest effort that the model supports.
    Xhigh,
}

/// Placement of cache markers in the prompt, for vendors that need them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePolicy {
    /// Markers after the system prompt, the last tool and the second-to-last message.
    #[default]
    Auto,
    /// No markers.
    Off,
    /// Markers only at the selected positions.
    Manual {
        /// Marks the end of the system prompt.
        system: bool,
        /// Marks the last tool.
        tools: bool,
        /// Marks the second-to-last message.
        messages: bool,
    },
}

/// One event of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamEvent {
    /// The reply starts.
    Start {
        /// The model that answers, if the vendor names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A part starts. Indices count up from 0 in the order that parts start.
    PartStart {
        /// Index of the part in the message.
        index: usize,
        /// Kind of the part.
        part: PartKind,
    },
    /// More content of an open part.
    Delta {
        /// Index of the part in the message.
        index: usize,
        /// Text, thinking, or a fragment of the JSON arguments of a tool call.
        delta: String,
    },
    /// A part is complete.
    PartEnd {
        /// Index of the part in the message.
        index: usize,
        /// Opaque value to be sent back unchanged with the part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Tokens of the request so far, which replace earlier counts.
    Usage(Usage),
    /// The reply is complete. Nothing follows.
    End {
        /// The reason the model stopped.
        stop_reason: StopReason,
    },
}

/// Kind of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartKind {
    /// Text.
    Text,
    /// Readable thinking.
    Thinking,
    /// Thinking that the vendor does not disclose; only its signature has content.
    RedactedThinking,
    /// A tool call.
    ToolCall {
        /// Id of the call; generated by the provider if the vendor sends no id.
        id: String,
        /// The tool's name.
        name: String,
    },
}

/// The reason a request failed.
///
/// Error texts may quote the vendor's answer, but never the request, a header or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The request failed permanently: the vendor rejected it, or no connection is possible.
    #[error("{}{message}", status.map(|s| format!("HTTP {s}: ")).unwrap_or_default())]
    Api {
        /// The HTTP status, if there was a response.
        status: Option<u16>,
        /// Error text of the vendor.
        message: String,
    },
    /// The key is missing, invalid or lacks permission.
    #[error("{message}")]
    Auth {
        /// The problem, and how to fix it.
        message: String,
    },
    /// Too many requests; retryable.
    #[error("rate limited: {message}{}", wait(*retry_after))]
    RateLimited {
        /// Error text of the vendor.
        message: String,
        /// Time to wait before a retry, if the vendor gives one.
        retry_after: Option<Duration>,
    },
    /// The vendor failed or is out of capacity; retryable.
    #[error("unavailable: {message}{}", wait(*retry_after))]
    Overloaded {
        /// Error text of the vendor.
        message: String,
        /// Time to wait before a retry, if the vendor gives one.
        retry_after: Option<Duration>,
    },
    /// The vendor was unreachable, or the connection was lost or timed out; retryable.
    #[error("network: {message}")]
    Network {
        /// The failure, with its cause.
        message: String,
    },
    /// The vendor was never reached and no retry can help: a wrong address, a server that was not started, or one whose
    /// certificate is refused.
    #[error("network: {message}")]
    Unreachable {
        /// The failure, with its cause.
        message: String,
    },
    /// The request exceeds the model's context window.
    #[error("context window exceeded: {message}")]
    ContextOverflow {
        /// Error text of the vendor.
        message: String,
    },
    /// The server refused the request because of an image. The provider leaves it out of later requests, so that a retry
    /// differs.
    #[error("{message}")]
    ImageRefused {
        /// Error text of the vendor, and the consequence.
        message: String,
    },
    /// The reply does not follow the protocol.
    #[error("malformed reply: {message}")]
    Malformed {
        /// The violation, and its position.
        message: String,
    },
    /// The request was cancelled by this process.
    #[error("cancelled")]
    Cancelled,
}

/// Formats the delay that the vendor requests, to the second.
fn wait(delay: Option<Duration>) -> String {
    let Some(seconds) = delay.map(|delay| delay.as_secs()).filter(|seconds| *seconds > 0) else {
        return String::new();
    };
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let parts = [(hours, "h"), (minutes, "min"), (rest, "s")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count} {unit}")).collect();
    format!(" (retry in {})", parts.join(" "))
}

impl ProviderError {
    /// Returns whether the request may succeed on a retry.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Overloaded { .. } | Self::Network { .. } | Self::ImageRefused { .. } => {
                true
            }
            Self::Api { .. } | Self::Auth { .. } | Self::Unreachable { .. } | Self::ContextOverflow { .. } => false,
            Self::Malformed { .. } | Self::Cancelled => false,
        }
    }

    /// Returns the time to wait before a retry, if the vendor gave one.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// A model, with the facts about it that the agent loop needs.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The provider's name for the model.
    pub name: String,
    /// Price list; `None` when the prices are unknown, so that runs have no cost.
    pub prices: Option<Arc<dyn PriceList>>,
    /// Maximum tokens of a request: the context window, or the limit on input where that is lower; `None` when it is
    /// unknown.
    pub context_window: Option<u64>,
}
