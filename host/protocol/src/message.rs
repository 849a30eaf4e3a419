//! Messages, the elements of a session's history.

use crate::content::{Content, ToolCall, text_of};
use crate::usage::{Cost, Usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Written by the user, or on the user's behalf.
    User(UserMessage),
    /// Written by the model.
    Assistant(AssistantMessage),
    /// Result of a tool call.
    ToolResult(ToolResultMessage),
    /// Data of the application; never sent to a provider.
    Extension(ExtensionMessage),
}

impl Message {
    /// Creates a user message of plain text with the current time.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage { content: vec![Content::text(text)], label: None, timestamp: Timestamp::now() })
    }

    /// Creates a message that a program writes on the user's behalf, with the words that stand for it.
    pub fn labelled(label: impl Into<String>, text: impl Into<String>) -> Self {
        let content = vec![Content::text(text)];
        Self::User(UserMessage { content, label: Some(label.into()), timestamp: Timestamp::now() })
    }

    /// Returns the time the message was written.
    pub fn timestamp(&self) -> Timestamp {
        match self {
            Self::User(m) => m.timestamp,
            Self::Assistant(m) => m.timestamp,
            Self::ToolResult(m) => m.timestamp,
            Self::Extension(m) => m.timestamp,
        }
    }
}

/// A message written by the user, or on the user's behalf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Text and images.
    pub content: Vec<Content>,
    /// A few words that stand for the message where people read the conversation, if a program wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Time the message was written.
    pub timestamp: Timestamp,
}

/// A message written by the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Text, thinking and tool calls in the order of writing.
    pub content: Vec<Content>,
    /// The reason the model stopped.
    pub stop_reason: StopReason,
    /// The provider's name.
    pub provider: String,
    /// Name of the model that the provider reported, or else the one in the request.
    pub model: String,
    /// Name of the model in the request, present when the provider reported another one: aliases and deployments are
    /// answered under other names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_model: Option<String>,
    /// Tokens of the request.
    #[serde(default)]
    pub usage: Usage,
    /// Cost of the tokens; `None` when the model's prices are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Error text, present when `stop_reason` is [`StopReason::Error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time the message was complete.
    pub timestamp: Timestamp,
}

impl AssistantMessage {
    /// Returns whether the reply was interrupted by an error or by the user.
    pub fn has_failed(&self) -> bool {
        matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }

    /// Returns the tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(Content::as_tool_call)
    }

    /// Returns the concatenated text parts.
    pub fn text(&self) -> String {
        text_of(&self.content)
    }
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResultMessage {
    /// Id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// Text and images, for the model.
    pub content: Vec<Content>,
    /// JSON for the log and the UI, never for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// True if the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Id of the sub-agent's run, if the call started one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<String>,
    /// Time the message was complete.
    pub timestamp: Timestamp,
}

impl ToolResultMessage {
    /// Creates the result of a call that failed, with a text for the model and the current time.
    pub fn error(call: &ToolCall, text: &str) -> Self {
        Self {
            call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: vec![Content::text(text)],
            details: None,
            is_error: true,
            child_run_id: None,
            timestamp: Timestamp::now(),
        }
    }
}

/// Data that an application keeps in the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtensionMessage {
    /// Kind of the data, prefixed with the name of its owner, such as `pinion/compaction`.
    pub kind: String,
    /// Arbitrary JSON.
    pub data: Value,
    /// Time the message was written.
    pub timestamp: Timestamp,
}

/// The reason a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    Stop,
    /// The output limit was reached.
    Length,
    /// The model requested tool calls.
    ToolUse,
    /// The request failed, or the connection was lost during the reply.
    Error,
    /// The user or the application aborted the run.
    Aborted,
}
