//! Tools, as the loop and the model know them.

use crate::authority::Authority;
use serde_json::Value;

/// A tool, as the loop and the model know it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// 1 to 64 of `a-z A-Z 0-9 _ -`.
    pub name: String,
    /// For people.
    pub label: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Sentences for the system prompt, while the tool is offered.
    pub guidelines: Vec<String>,
    /// What a call can do to the world. Enforced by the executor, not promised by the tool's author.
    pub authority: Authority,
    /// May calls of it run beside others?
    pub execution: Execution,
}

/// May calls of a tool run beside others of the same assistant message?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Execution {
    /// Beside any other parallel call.
    #[default]
    Parallel,
    /// Alone.
    Sequential,
}
