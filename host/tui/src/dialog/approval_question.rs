//! The question whether a call may run, as the host asks it, and its answer.

use serde_json::Value;

/// A call that needs a decision, copied out of the port's question.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalQuestion {
    /// Number of the question, for the answer.
    pub id: u64,
    /// Name of the tool.
    pub tool: String,
    /// Name of the plugin; empty for the application's own tools.
    pub plugin: String,
    /// Digest of the component.
    pub digest: String,
    /// The tool's title.
    pub label: String,
    /// The effects of the call in words.
    pub can: String,
    /// Remarks of plugins' hooks about the call.
    pub notes: Vec<String>,
    /// Arguments of the call.
    pub arguments: Value,
    /// Unified diff between a file and the argument `content`, which is shown instead of it.
    pub change: Option<String>,
    /// Reason for the question.
    pub reason: Option<String>,
    /// A rule that would allow such calls in this project.
    pub rule: Option<String>,
    /// The limit of an approval for the session, for example a host.
    pub reach: Option<String>,
}

impl ApprovalQuestion {
    /// Adds why the call is asked about, and the rule that the answer may add.
    #[must_use]
    pub fn explained(self, reason: Option<String>, rule: Option<String>) -> Self {
        Self { reason, rule, ..self }
    }

    /// Adds the target that an approval for the session is limited to, such as a host.
    #[must_use]
    pub fn reaching(self, reach: Option<String>) -> Self {
        Self { reach, ..self }
    }

    /// Copies a question of the agent.
    pub fn new(id: u64, question: &pinion_protocol::Question<'_>) -> Self {
        let tool = question.tool;
        Self {
            id,
            tool: tool.name.clone(),
            plugin: tool.source.plugin.to_string(),
            digest: tool.source.digest.to_string(),
            label: tool.label.clone(),
            can: tool.authority.effect_names().join(", "),
            notes: question.notes.iter().map(ToString::to_string).collect(),
            arguments: question.call.arguments.clone(),
            change: None,
            reason: None,
            rule: None,
            reach: None,
        }
    }
}

/// The answer to a [`ApprovalQuestion`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Allows this call.
    Yes,
    /// Allows this call and later ones of the same tool.
    Always,
    /// Allows this call, and by a rule later ones like it in this project.
    Rule,
    /// Denies the call, with the user's words for the model.
    No(Option<String>),
    /// Denies the call and interrupts the run.
    Interrupt,
}
