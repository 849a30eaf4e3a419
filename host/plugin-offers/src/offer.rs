//! The tools and commands that a plugin lists, independent of the generated bindings, and the commands that it defines
//! in this way.

use pinion_protocol::Authority;
use serde::{Deserialize, Serialize};

/// The tools and commands of a plugin, as it lists them when it is loaded or while it runs. Nothing in it is checked yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The tools.
    pub tools: Vec<OfferedTool>,
    /// The commands.
    pub commands: Vec<OfferedCommand>,
    /// Sentences for the system prompt, from a plugin that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Phrases for the functions of a plain component that are no tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Phrases for members of `extra` that the host does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A tool, as its plugin lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// The name, by which a model calls it.
    pub name: String,
    /// The name for people.
    pub label: String,
    /// The description for the model.
    pub description: String,
    /// The schema of the arguments, as JSON text.
    pub input_schema: String,
    /// Sentences for the system prompt.
    pub guidelines: Vec<String>,
    /// The declared effects.
    pub effects: Authority,
    /// The tool runs alone: other calls wait.
    pub is_sequential: bool,
    /// A text that approvals depend on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<String>,
    /// Names of arguments that identify the target of a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<String>,
    /// JSON that each call gets back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// JSON that makes the tool a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// JSON that says whether calls may become tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// A command, as its plugin lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedCommand {
    /// The name without the slash.
    pub name: String,
    /// A description of one line.
    pub description: String,
    /// A placeholder for the argument, shown after the name.
    pub argument_hint: Option<String>,
    /// The name of the application's action that the command stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The name of the action of the command without an argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bare_action: Option<String>,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDefinition {
    /// The name without the slash.
    pub name: String,
    /// A description of one line.
    pub description: String,
    /// A placeholder for the argument, shown after the name.
    pub argument_hint: Option<String>,
    /// The name of the application's action that the command stands for.
    pub action: Option<String>,
    /// The name of the action of the command without an argument.
    pub bare_action: Option<String>,
}

impl CommandDefinition {
    /// Returns the name of the action that the definition names for this input.
    pub fn bound_action(&self, input: &str) -> Option<&str> {
        let bare = self.bare_action.as_deref().filter(|_| input.trim().is_empty());
        bare.or(self.action.as_deref())
    }

    /// Returns whether the command can be offered where these actions exist: not if it stands for an action that this form of
    /// conversation cannot perform.
    pub fn is_offered(&self, actions: &[ActionInfo]) -> bool {
        let known = actions.iter().find(|action| Some(action.name) == self.action.as_deref());
        known.is_none_or(|action| action.is_available)
    }
}

/// An action of the application that slash commands may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionInfo {
    /// The name.
    pub name: &'static str,
    /// Set if only commands of built-in plugins may cause it: it changes authority, files or the config.
    pub is_reserved: bool,
    /// Set if this form of conversation can perform it.
    pub is_available: bool,
}
