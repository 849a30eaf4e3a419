//! The points of hooks, and records of their calls.

use crate::output::Ledger;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A fixed point of a run that calls plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookPoint {
    /// Before a tool call is approved.
    BeforeToolCall,
    /// After a tool call ran.
    AfterToolCall,
    /// Before a prompt of the user is sent.
    BeforePrompt,
    /// Before a model writes the summary that replaces a part of the conversation.
    BeforeCompaction,
    /// Something happened in the session.
    SessionEvents,
    /// Before the agent or a sub-agent stops.
    BeforeStop,
    /// Before the first prompt that a program sends in a session.
    SessionStart,
    /// When the program ends that sent prompts in a session.
    SessionEnd,
    /// After a reply of the model is complete.
    AfterReply,
}

impl HookPoint {
    /// All points.
    pub const ALL: [Self; 9] = [
        Self::BeforeToolCall,
        Self::AfterToolCall,
        Self::BeforePrompt,
        Self::BeforeCompaction,
        Self::SessionEvents,
        Self::BeforeStop,
        Self::SessionStart,
        Self::SessionEnd,
        Self::AfterReply,
    ];

    /// Returns the name of the point, which is also the name of its interface in the contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeToolCall => "before-tool-call",
            Self::AfterToolCall => "after-tool-call",
            Self::BeforePrompt => "before-prompt",
            Self::BeforeCompaction => "before-compaction",
            Self::SessionEvents => "session-events",
            Self::BeforeStop => "before-stop",
            Self::SessionStart => "session-start",
            Self::SessionEnd => "session-end",
            Self::AfterReply => "after-reply",
        }
    }

    /// Returns whether only a grant that names the point covers it, because its hook spends tokens.
    pub const fn needs_its_name(self) -> bool {
        matches!(self, Self::BeforeStop)
    }

    /// Returns the point of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a hook's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookAnswer {
    /// It changed nothing.
    Proceeded,
    /// It denied the call.
    Denied,
    /// It made the user decide on the call.
    Asked,
    /// It replaced the arguments of the call.
    Rewrote,
    /// It replaced the outcome of the call, or texts of the reply.
    Revised,
    /// It warned the user.
    Warned,
    /// It rejected the prompt.
    Rejected,
    /// It added context to the prompt, or instructions to the summary.
    Added,
    /// It made the run continue.
    Continued,
    /// It failed. A call or prompt that it should have checked is denied or rejected; otherwise nothing changed.
    Failed,
}

/// One call of a hook, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookCall {
    /// The point.
    pub point: HookPoint,
    /// Name of the plugin.
    pub plugin: String,
    /// The answer.
    pub answer: HookAnswer,
    /// Text of the answer, or the error; bounded, and empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Resources that the call of the hook used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
}

impl HookCall {
    /// Describes a call that the user should know about, in one sentence; `None` if nothing about it is remarkable, or
    /// something else shows its effect: a denied call has a result, a rejected prompt a reason, and a question its
    /// notes.
    pub fn notice(&self) -> Option<String> {
        let Self { point, plugin, text, .. } = self;
        Some(match self.answer {
            HookAnswer::Warned => format!("plugin `{plugin}`: {text}"),
            HookAnswer::Failed => format!("the hook `{point}` of plugin `{plugin}` failed: {text}"),
            HookAnswer::Rewrote => format!("plugin `{plugin}` rewrote the arguments of a call"),
            HookAnswer::Added if matches!(point, HookPoint::BeforePrompt | HookPoint::SessionStart) => {
                format!("plugin `{plugin}` added context to the prompt")
            }
            HookAnswer::Continued => format!("plugin `{plugin}` made the run continue"),
            HookAnswer::Revised if *point == HookPoint::AfterReply => format!("plugin `{plugin}` revised the reply"),
            _ => return None,
        })
    }
}

/// Something about a call that a hook leaves to the user's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookNote {
    /// The user must decide, regardless of earlier approvals.
    Asks {
        /// Name of the plugin.
        plugin: String,
        /// The reason, in the words of the plugin.
        text: String,
    },
    /// The arguments are not those that the model wrote.
    Rewrote {
        /// Name of the plugin.
        plugin: String,
    },
    /// The user must decide, because of something that the application knows about the call.
    Application {
        /// The reason, as a sentence.
        text: String,
    },
}

impl HookNote {
    /// Returns whether the user must be asked.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Asks { .. } | Self::Application { .. })
    }
}

impl fmt::Display for HookNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asks { plugin, text } => write!(f, "plugin `{plugin}` asks: {text}"),
            Self::Rewrote { plugin } => write!(f, "plugin `{plugin}` rewrote the arguments"),
            Self::Application { text } => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_serialized_by_their_names() {
        for point in HookPoint::ALL {
            assert_eq!(serde_json::to_value(point).unwrap(), point.name());
            assert_eq!(HookPoint::named(point.name()), Some(point));
        }
        assert_eq!(HookPoint::named("before"), None);
    }
}
