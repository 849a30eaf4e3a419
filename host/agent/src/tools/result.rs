//! Results of tool calls.

use pinion_protocol::content::Content;
use pinion_protocol::definition::ToolDefinition;
use pinion_protocol::guard::Panicked;
use pinion_protocol::message::{Message, ToolResultMessage};
use pinion_protocol::tool::{ToolError, ToolOutput};
use std::sync::Arc;

/// Result of a call that a message of the user interrupted.
const STEERED: &str = "The user sent a message before this call ended; the call was interrupted.";
/// Result of an aborted call.
const ABORTED: &str = "The run was aborted before this call ended.";

/// The result of a call.
pub(crate) struct StoredResult {
    pub(crate) message: Arc<Message>,
    /// True if the session contains the result.
    pub(crate) is_kept: bool,
}

impl StoredResult {
    pub(crate) fn result(&self) -> Option<&ToolResultMessage> {
        match &*self.message {
            Message::ToolResult(result) => Some(result),
            _ => None,
        }
    }
}

/// The reason a call was skipped or interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Steered,
    Aborted,
}

impl Interrupt {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Steered => STEERED,
            Self::Aborted => ABORTED,
        }
    }
}

/// A result before the output bounds apply.
pub(crate) struct UnboundedResult {
    pub(crate) output: ToolOutput,
    pub(crate) is_error: bool,
}

impl UnboundedResult {
    pub(crate) fn from_result(result: Result<ToolOutput, ToolError>, interrupt: Option<Interrupt>) -> Self {
        match (result, interrupt) {
            (Ok(output), None) => Self { is_error: output.is_error, output },
            // The partial output may matter to the model.
            (Ok(mut output), Some(why)) => {
                output.content.insert(0, Content::text(format!("{}\n", why.text())));
                Self { output, is_error: true }
            }
            (Err(ToolError::Cancelled { .. }), Some(why)) => Self::error(why.text().to_owned()),
            (Err(error), _) => Self::error(error.for_model()),
        }
    }

    fn error(text: String) -> Self {
        Self { output: ToolOutput::text(text), is_error: true }
    }
}

/// Returns the error of a call whose tool, hook or approver panicked.
pub(crate) fn crashed(tool: &str, panicked: Panicked) -> ToolError {
    tracing::error!(tool, %panicked, "a call failed");
    ToolError::Fault { tool: tool.to_owned(), source: Box::new(panicked) }
}

pub(crate) fn cut_off(partial: &str) -> String {
    format!(
        "they are not JSON, or were cut off by the output limit after {} bytes. Call the tool again, with less at once",
        partial.len()
    )
}

/// Returns existing names similar to an unknown one: first those that it contains as a word, as in `functions.read`.
pub(crate) fn similar(name: &str, definitions: &[Arc<ToolDefinition>]) -> Vec<String> {
    let name = name.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    // Models put namespaces before names, and pieces of their chat template behind them.
    let is_in = |tool: &str| {
        let is_its = |rest: &str| rest.is_empty() || rest.ends_with(['_', '-']);
        name.split(|c: char| !is_letter(c)).any(|word| word.strip_suffix(tool).is_some_and(is_its))
    };
    let likeness = |tool: &str| if is_in(tool) { 1.0 } else { strsim::jaro_winkler(&name, tool) };
    let mut near: Vec<(f64, &str)> = definitions
        .iter()
        .map(|tool| (likeness(&tool.name.to_lowercase()), tool.name.as_str()))
        .filter(|(likeness, _)| *likeness > 0.75)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    // A tool of an MCP server that is not listed any more can be called, or its server started, by another one.
    let others = ["mcp_search", "mcp_call", "mcp_connect"].iter().filter(|_| name.contains("__"));
    let others = others.filter(|other| definitions.iter().any(|tool| tool.name == **other));
    near.into_iter().take(3).map(|(_, name)| name).chain(others.copied()).map(str::to_owned).collect()
}
