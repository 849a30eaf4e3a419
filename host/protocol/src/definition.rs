//! Tools, as the loop and the model know them.

use crate::authority::Authority;
use serde_json::Value;
use std::sync::Arc;

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
    /// Provenance of the tool; the default stands for the application's own tools.
    pub source: ToolSource,
}

/// The component that a tool comes from, and which loaded version of it: what an approval is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ToolSource {
    /// The plugin's name; empty for tools of the application's own.
    pub plugin: Arc<str>,
    /// Digest of the component's bytes, in hexadecimal.
    pub digest: Arc<str>,
    /// The plugin's generation, counted from 1.
    pub generation: u32,
}

impl ToolDefinition {
    /// Returns whether both are the same version of the same tool, so that what was decided on one holds for the other.
    pub fn is_same_version(&self, other: &Self) -> bool {
        self.source.generation == other.source.generation && self.runs_same_code(other)
    }

    /// The same, but for the number of the generation: a file that was written again with the same bytes changes nothing.
    pub fn runs_same_code(&self, other: &Self) -> bool {
        (&self.name, self.authority, &self.source.plugin, &self.source.digest)
            == (&other.name, other.authority, &other.source.plugin, &other.source.digest)
            && self.input_schema == other.input_schema
    }
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
