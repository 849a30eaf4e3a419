//! What the loop asks of a model provider, and what comes back.
//!
//! A provider is told a whole request and answers with a stream of [`StreamEvent`]s, the one vocabulary of all wire
//! formats. The order is fixed: one [`StreamEvent::Start`]; then parts, each begun, added to and ended, several of them
//! open at a time when the vendor interleaves them; [`StreamEvent::Usage`] at any time; one [`StreamEvent::End`]. Any
//! way in which the bytes were cut into packets gives the same events. An `Err` ends the stream; a stream that ends
//! without [`StreamEvent::End`] or an `Err` broke off, and the loop takes it for a network error.

use crate::definition::ToolDefinition;
use crate::message::{Message, StopReason};
use crate::usage::Usage;
use futures_util::stream::BoxStream;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A source of replies.
pub trait Provider: Send + Sync {
    /// The name by which users know it, such as `anthropic`.
    fn name(&self) -> &str;

    /// Begins a request. Does not block: the body is made from `request` before this returns, all else happens when the
    /// stream is polled. Dropping the stream ends the request; cancelling `token` ends it with
    /// [`ProviderError::Cancelled`].
    ///
    /// Providers do not retry: the loop does, see `RetryPolicy` in `pinion-agent`.
    fn stream(&self, request: Request, token: CancellationToken) -> EventStream;
}

/// The events of one reply.
pub type EventStream = BoxStream<'static, Result<StreamEvent, ProviderError>>;

/// One request to a model.
#[derive(Debug, Clone)]
pub struct Request {
    /// The model's name, as the provider knows it.
    pub model: String,
    /// The system prompt; may be empty.
    pub system: Arc<str>,
    /// The conversation. Never holds [`Message::Extension`]; every tool call in it is followed by its result.
    pub messages: Vec<Arc<Message>>,
    /// The tools offered, in this order.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// May, or must, the model call one?
    pub tool_choice: ToolChoice,
    /// Everything else.
    pub options: RequestOptions,
}

/// Settings of a request that have a default.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// Output limit in tokens; the model's own limit when none.
    pub max_output_tokens: Option<u64>,
    /// 0 to 2; the vendor's default when none.
    pub temperature: Option<f64>,
    /// How long the model may think.
    pub thinking: ThinkingLevel,
    /// Tokens to think with, instead of the level's own number, where the vendor counts them.
    pub thinking_budget: Option<u64>,
    /// What the vendor should keep for the next request.
    pub cache: CachePolicy,
    /// A key for this request alone, instead of the provider's own.
    pub api_key: Option<SecretString>,
    /// The same for all requests of a session, where the vendor wants to know.
    pub session_id: Option<String>,
}

/// May, or must, the model call a tool?
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must call one.
    Any,
    /// It must call this one.
    Tool(String),
}

/// How long the model may think before it answers. Each provider maps it to its vendor's parameter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all, or as little as the model can.
    #[default]
    Off,
    /// A moment.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as it wants.
    Xhigh,
}

/// Where the vendor is told to keep the prompt for the next request, when it wants to be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// After the system prompt, after the last tool, and after the second-to-last message.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// Where it says so.
    Manual {
        /// After the system prompt.
        system: bool,
        /// After the last tool.
        tools: bool,
        /// After the second-to-last message.
        messages: bool,
    },
}

/// One step of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamEvent {
    /// The model began to answer.
    Start {
        /// The model that really answers, where the vendor says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A part begins. Indices count up from 0 in the order of the beginnings.
    PartStart {
        /// The part's place in the message.
        index: usize,
        /// What it is.
        part: PartKind,
    },
    /// More of a part that has begun and not ended.
    Delta {
        /// The part's place in the message.
        index: usize,
        /// Text, thinking, or a piece of the JSON of a tool call's arguments.
        delta: String,
    },
    /// A part is complete.
    PartEnd {
        /// The part's place in the message.
        index: usize,
        /// What the vendor wants back with it, unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Tokens of this request so far; replaces what was said before.
    Usage(Usage),
    /// The reply is complete. Nothing follows.
    End {
        /// Why.
        stop_reason: StopReason,
    },
}

/// What a part is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartKind {
    /// Text.
    Text,
    /// Thinking that can be read.
    Thinking,
    /// Thinking that the vendor keeps to itself; all there is comes as the signature.
    RedactedThinking,
    /// A tool call.
    ToolCall {
        /// The call's id; providers make one up where the vendor has none.
        id: String,
        /// The tool's name.
        name: String,
    },
}

/// Why a request failed.
///
/// The text of an error may hold what the vendor answered, never the request, a header or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The vendor refused the request for good.
    #[error("{}{message}", status.map(|s| format!("HTTP {s}: ")).unwrap_or_default())]
    Api {
        /// The HTTP status, where there was one.
        status: Option<u16>,
        /// What the vendor said.
        message: String,
    },
    /// The key is missing, wrong, or not allowed to do this.
    #[error("{message}")]
    Auth {
        /// What is wrong, and how to mend it.
        message: String,
    },
    /// Too many requests; worth another try.
    #[error("rate limited: {message}")]
    RateLimited {
        /// What the vendor said.
        message: String,
        /// When to try again, where the vendor says it.
        retry_after: Option<Duration>,
    },
    /// The vendor has no capacity now; worth another try.
    #[error("overloaded: {message}")]
    Overloaded {
        /// What the vendor said.
        message: String,
        /// When to try again, where the vendor says it.
        retry_after: Option<Duration>,
    },
    /// The vendor was not reached, or the connection broke off or fell silent; worth another try.
    #[error("network: {message}")]
    Network {
        /// What happened.
        message: String,
    },
    /// The request is larger than the model's context window.
    #[error("context window exceeded: {message}")]
    ContextOverflow {
        /// What the vendor said.
        message: String,
    },
    /// The reply makes no sense.
    #[error("malformed reply: {message}")]
    Malformed {
        /// What, and where.
        message: String,
    },
    /// The request was cancelled from this side.
    #[error("cancelled")]
    Cancelled,
}

impl ProviderError {
    /// Is the same request worth another try?
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Overloaded { .. } | Self::Network { .. })
    }

    /// When to try again, where the vendor said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
