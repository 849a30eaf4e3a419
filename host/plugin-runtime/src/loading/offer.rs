//! The tools and commands that a plugin lists, independent of the generated bindings.

use pinion_protocol::Authority;
use serde::{Deserialize, Serialize};

/// The tools and commands of a plugin, as it lists them when it is loaded or while it runs. Nothing in it is checked yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) tools: Vec<OfferedTool>,
    pub(crate) commands: Vec<OfferedCommand>,
    /// Sentences for the system prompt, from a plugin that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instructions: Option<String>,
}

/// A tool, as its plugin lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OfferedTool {
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) description: String,
    /// JSON text.
    pub(crate) input_schema: String,
    pub(crate) guidelines: Vec<String>,
    pub(crate) effects: Authority,
    /// The tool runs alone: other calls wait.
    pub(crate) is_sequential: bool,
    /// A text that approvals depend on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bound_to: Option<String>,
    /// Names of arguments that identify the target of a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) approved_by: Vec<String>,
    /// JSON that each call gets back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<String>,
    /// JSON that makes the tool a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
    /// JSON that says whether calls may become tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<String>,
}

/// A command, as its plugin lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OfferedCommand {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) argument_hint: Option<String>,
    /// The name of the application's action that the command stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<String>,
    /// The name of the action of the command without an argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bare_action: Option<String>,
}
