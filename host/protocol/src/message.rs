//! Messages: what the history of a session is made of.

use crate::content::{Content, ToolCall};
use crate::usage::{Cost, Spend, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From the user, or in the user's name.
    User(UserMessage),
    /// From the model.
    Assistant(AssistantMessage),
    /// What a tool answered.
    ToolResult(ToolResultMessage),
    /// Lives in the history and never reaches a provider.
    Extension(ExtensionMessage),
}

impl Message {
    /// A user's message of plain text, written now.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage { content: vec![Content::text(text)], timestamp: Timestamp::now() })
    }

    /// When it was written.
    pub fn timestamp(&self) -> Timestamp {
        match self {
            Self::User(m) => m.timestamp,
            Self::Assistant(m) => m.timestamp,
            Self::ToolResult(m) => m.timestamp,
            Self::Extension(m) => m.timestamp,
        }
    }
}

/// From the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Text and images.
    pub content: Vec<Content>,
    /// When it was written.
    pub timestamp: Timestamp,
}

/// From the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Text, thinking and tool calls, in the order in which the model wrote them.
    pub content: Vec<Content>,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// The provider's name.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Tokens of this request.
    #[serde(default)]
    pub usage: Usage,
    /// What they cost; none when the model's prices are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What went wrong, when `stop_reason` is [`StopReason::Error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it ended.
    pub timestamp: Timestamp,
}

impl AssistantMessage {
    /// Returns the tokens and the cost of the request.
    pub fn spend(&self) -> Spend {
        Spend { usage: self.usage, cost: self.cost }
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(Content::as_tool_call)
    }

    /// All text parts, joined.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Content::as_text).collect()
    }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResultMessage {
    /// The id of the call that this answers.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// Text and images, for the model.
    pub content: Vec<Content>,
    /// For the log and the UI, never for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The loop of the sub-agent that worked on it, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<String>,
    /// When it ended.
    pub timestamp: Timestamp,
}

/// A message of an application's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionMessage {
    /// Whose, and of what kind.
    pub kind: String,
    /// Anything.
    pub data: Value,
    /// When it was written.
    pub timestamp: Timestamp,
}

/// Why a model stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    Stop,
    /// It reached its output limit.
    Length,
    /// It wants tools to be called.
    ToolUse,
    /// The request failed, or the reply broke off.
    Error,
    /// The user, or the agent's owner, aborted it.
    Aborted,
}
