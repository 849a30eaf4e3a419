//! The results of calls: outputs, errors and ledgers.

use crate::content::Content;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Output of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// Text and images for the model.
    pub content: Vec<Content>,
    /// JSON for the log and the UI, never for the model.
    pub details: Option<Value>,
    /// Display format of the text.
    pub display: Display,
    /// The tool ran and reports a failure, such as a program that exited with an error. Unlike [`ToolError::Failed`], the
    /// result has details.
    pub is_error: bool,
}

impl ToolOutput {
    /// Creates an output of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// Returns the text for people, with a line for each picture. Every part ends its last line.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for part in &self.content {
            match part {
                Content::Text { text: part } => text.push_str(part),
                Content::Image(image) => text.push_str(&format!("[{}, {} bytes]", image.media_type, image.data.len())),
                Content::Thinking(_) | Content::ToolCall(_) => {}
            }
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Display format of a text result in the UI. The model always gets plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "language", rename_all = "snake_case")]
pub enum Display {
    /// Unformatted text.
    #[default]
    Plain,
    /// Markdown.
    Markdown,
    /// A unified diff.
    Diff,
    /// Source code in this language, named as in a fenced code block.
    Code(String),
}

/// The reason a call gave no result. Each variant states who can fix the problem, and names the tool.
///
/// The error becomes the call's result, so that the model can continue: see [`ToolError::for_model`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The tool does not exist. The model can fix it.
    #[error("no tool `{tool}`")]
    UnknownTool {
        /// Name that the model requested.
        tool: String,
        /// Similar names of existing tools.
        suggestions: Vec<String>,
    },
    /// The arguments do not match the schema, or the tool rejects them. The model can fix it.
    #[error("`{tool}`: invalid arguments: {message}")]
    InvalidArguments {
        /// Name of the tool.
        tool: String,
        /// The problem, and its position in the arguments.
        message: String,
    },
    /// The tool ran and failed. The model can react to it.
    #[error("`{tool}`: {message}")]
    Failed {
        /// Name of the tool.
        tool: String,
        /// Error text of the tool.
        message: String,
        /// True if the same call may succeed later.
        retryable: bool,
    },
    /// The call was denied, or the capability was not granted. The user can fix it.
    #[error("`{tool}`: denied: {reason}")]
    Denied {
        /// Name of the tool.
        tool: String,
        /// The reason, and the way to have the call allowed.
        reason: String,
    },
    /// The plugin trapped, exceeded a limit, or violated the contract. The plugin's author or the host can fix it.
    #[error("`{tool}`: {source:#}")]
    Fault {
        /// Name of the tool.
        tool: String,
        /// The fault, which names the plugin and, if one was exceeded, the limit.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The same call keeps giving the same result, alone or in turns with others. The model can fix it.
    #[error("`{tool}`: called {times} times with the same result")]
    Repeated {
        /// Name of the tool.
        tool: String,
        /// Number of calls with this result.
        times: u32,
    },
    /// The tool was replaced after the call was approved, and its code did not run. Nothing to fix: the agent loop
    /// decides again.
    #[error("`{tool}` was replaced after the call was approved")]
    Changed {
        /// Name of the tool.
        tool: String,
    },
    /// The call was cancelled. Nothing to fix.
    #[error("`{tool}`: cancelled")]
    Cancelled {
        /// Name of the tool.
        tool: String,
    },
}

impl ToolError {
    /// Returns the name of the tool.
    pub fn tool(&self) -> &str {
        match self {
            Self::UnknownTool { tool, .. } | Self::InvalidArguments { tool, .. } | Self::Failed { tool, .. } => tool,
            Self::Denied { tool, .. } | Self::Fault { tool, .. } | Self::Repeated { tool, .. } => tool,
            Self::Changed { tool } | Self::Cancelled { tool } => tool,
        }
    }

    /// Returns an error of the same kind with another text.
    pub fn with_text(&self, text: String) -> Self {
        let tool = self.tool().to_owned();
        match self {
            Self::InvalidArguments { .. } => Self::InvalidArguments { tool, message: text },
            Self::Denied { .. } => Self::Denied { tool, reason: text },
            Self::Cancelled { .. } => Self::Cancelled { tool },
            Self::Failed { retryable, .. } => Self::Failed { tool, message: text, retryable: *retryable },
            _ => Self::Failed { tool, message: text, retryable: false },
        }
    }

    /// Returns the text that the model gets as the call's result.
    pub fn for_model(&self) -> String {
        match self {
            Self::UnknownTool { tool, suggestions } if suggestions.is_empty() => format!("There is no tool `{tool}`."),
            Self::UnknownTool { tool, suggestions } => {
                format!("There is no tool `{tool}`. Did you mean `{}`?", suggestions.join("` or `"))
            }
            Self::InvalidArguments { message, .. } => format!("Invalid arguments: {message}"),
            Self::Failed { message, retryable: false, .. } => message.clone(),
            Self::Failed { message, retryable: true, .. } => format!("{message}\n(The same call may succeed later.)"),
            Self::Denied { reason, .. } => format!("Denied: {reason}"),
            Self::Fault { source, .. } => format!("The tool crashed: {source:#}"),
            Self::Repeated { times, .. } => format!(
                "This call gave the same result {times} times, alone or in turns with other calls, so it was not made \
                 again. Try something else: change the arguments, take a different approach, or tell the user what is \
                 blocking you."
            ),
            Self::Changed { tool } => {
                format!("`{tool}` was replaced repeatedly while this call was being approved, so it was not called.")
            }
            Self::Cancelled { .. } => "The call was cancelled before it ended.".to_owned(),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Resources that one call used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The plugin's name.
    pub plugin: String,
    /// The generation of the plugin that ran.
    pub generation: u32,
    /// The capabilities that the plugin was granted, each as a verb phrase with its extent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
    /// Executed instructions in wasmtime's fuel units.
    pub fuel: u64,
    /// Duration from the start of the call to its result, in microseconds.
    pub time_us: u64,
    /// Peak linear memory of the instance, in bytes.
    pub memory: u64,
    /// Calls from the plugin to the host, including WASI calls.
    pub host_calls: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files opened, listed or searched.
    pub files: u64,
    /// Programs started.
    pub processes: u64,
    /// Sub-agents started.
    #[serde(default)]
    pub agents: u64,
    /// HTTP requests sent, redirects included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests: u64,
    /// Bytes of HTTP that were sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes_sent: u64,
    /// Bytes of HTTP that were received.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes_received: u64,
    /// The hosts that received requests: names or addresses, at most 16.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<String>,
    /// Bytes of the result.
    pub output: u64,
    /// The counts of further capabilities, by the singular noun of the counted item, such as `request`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_with_another_text_is_of_the_same_kind() {
        let (tool, message) = (|| "look".to_owned(), || "old".to_owned());
        let errors = [
            ToolError::InvalidArguments { tool: tool(), message: message() },
            ToolError::Denied { tool: tool(), reason: message() },
            ToolError::Cancelled { tool: tool() },
            ToolError::Failed { tool: tool(), message: message(), retryable: true },
            ToolError::Failed { tool: tool(), message: message(), retryable: false },
        ];
        for error in errors {
            let changed = error.with_text("new".to_owned());
            assert_eq!(std::mem::discriminant(&changed), std::mem::discriminant(&error), "{error:?}");
            assert_eq!(format!("{changed:?}"), format!("{error:?}").replace("\"old\"", "\"new\""));
        }
    }
}
