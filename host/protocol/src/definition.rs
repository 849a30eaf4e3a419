//! Tool definitions.

use crate::authority::Authority;
use serde_json::Value;
use std::sync::Arc;

/// Description of a tool, for the agent loop and for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Name: 1 to 64 characters of `a-z A-Z 0-9 _ -`.
    pub name: String,
    /// Title for people.
    pub label: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Sentences that the system prompt includes while the tool is offered.
    pub guidelines: Vec<String>,
    /// Upper bound on the effects of a call. The executor enforces it; it does not rely on the tool's author.
    pub authority: Authority,
    /// Permission for calls to run concurrently with others.
    pub execution: Execution,
    /// Provenance of the tool; the default stands for the application's own tools.
    pub source: ToolSource,
}

/// The component that provides a tool, and its loaded version. Approvals are bound to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ToolSource {
    /// The plugin's name; empty for the application's own tools.
    pub plugin: Arc<str>,
    /// Digest of the component's bytes, in hexadecimal.
    pub digest: Arc<str>,
    /// The plugin's generation, counted from 1.
    pub generation: u32,
    /// Digest of the rest of the definition, in hexadecimal, for components that change their tools while they run; may be
    /// empty where the component's digest determines the definition.
    pub definition: Arc<str>,
    /// Names of arguments that identify the target of a call. An approval for the session covers calls with the same
    /// values of these.
    pub approved_by: Arc<[Arc<str>]>,
}

/// Sentences for the system prompt that a plugin adds while one of its tools is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// The plugin's name.
    pub plugin: Arc<str>,
    /// The sentences, which may have several lines.
    pub text: Arc<str>,
}

impl ToolDefinition {
    /// Returns whether both are the same version of the same tool, so that an approval of one covers the other.
    pub fn is_same_version(&self, other: &Self) -> bool {
        self.source.generation == other.source.generation && self.runs_same_code(other)
    }

    /// Like [`Self::is_same_version`], but ignores the generation: rewriting a file with the same bytes changes
    /// nothing.
    pub fn runs_same_code(&self, other: &Self) -> bool {
        (&self.name, self.authority, &self.source.plugin, &self.source.digest)
            == (&other.name, other.authority, &other.source.plugin, &other.source.digest)
            && self.source.definition == other.source.definition
            && self.input_schema == other.input_schema
    }
}

/// Permission for calls of a tool to run concurrently with others of the same assistant message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Execution {
    /// Concurrently with other parallel calls.
    #[default]
    Parallel,
    /// One at a time, while no call runs concurrently.
    Sequential,
}
