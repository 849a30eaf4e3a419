//! The port that decides on calls, and the modes that select the calls that need a decision.

use crate::authority::Authority;
use crate::content::ToolCall;
use crate::definition::ToolDefinition;
use crate::hook::call::HookNote;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

/// Selects the calls that need approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// Calls with any effect, including reads.
    Ask,
    /// Calls that can write, execute or use the network, except commands that [`CallRules`] know to only read.
    Confirm,
    /// Calls that can write, execute or use the network, except those that [`CallRules`] know to be confined.
    #[default]
    Smart,
    /// As [`Self::Smart`], except that [`CallRules`] let programs run only by rule, also in a sandbox.
    Edits,
    /// No calls: those that can write, execute or use the network are denied, unless [`CallRules`] know that they only read.
    Plan,
    /// No calls: all are allowed.
    All,
}

impl ApprovalMode {
    /// Returns whether a call with this authority needs approval.
    pub fn asks(self, authority: Authority) -> bool {
        match self {
            Self::Ask => authority.reads || authority.delegates || !authority.is_harmless(),
            Self::Confirm | Self::Smart | Self::Edits | Self::Plan => !authority.is_harmless(),
            Self::All => false,
        }
    }

    /// Returns whether calls with this authority are denied without a question.
    pub fn denies(self, authority: Authority) -> bool {
        self == Self::Plan && !authority.is_harmless()
    }

    /// Returns the name in options, commands and the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Confirm => "confirm",
            Self::Smart => "smart",
            Self::Edits => "edits",
            Self::Plan => "plan",
            Self::All => "all",
        }
    }

    /// Returns all modes, the strictest first.
    pub fn every() -> [Self; 6] {
        [Self::Plan, Self::Ask, Self::Confirm, Self::Edits, Self::Smart, Self::All]
    }
}

/// Decides on calls that need approval, usually by asking the user.
pub trait Approver: Send + Sync {
    /// Decides whether a call may run. The agent asks one question of a session at a time. Once `token` is cancelled,
    /// the agent ignores the answer and implementations should return promptly.
    fn decide<'a>(&'a self, question: Question<'a>, token: &'a CancellationToken) -> BoxFuture<'a, Decision>;
}

/// Decides on calls by their arguments, before the mode does.
pub trait CallRules: Send + Sync {
    /// Returns the rules' decision on a call. Called before each decision, and again when a question comes up.
    fn ruling(&self, mode: ApprovalMode, question: &Question<'_>) -> Ruling;

    /// Returns the target of a call, such as a host. An approval for the session covers only calls with the same
    /// target. `None` if the definition of the tool says everything.
    fn reach(&self, _question: &Question<'_>) -> Option<String> {
        None
    }

    /// Reports a decision, for a log. Each call that is decided on is reported once.
    fn decided(&self, _mode: ApprovalMode, _question: &Question<'_>, _is_allowed: bool, _by: Decider) {}
}

/// Verdict of the rules on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// Nothing: the mode and the approvals of the session decide.
    Mode,
    /// It may run without a question.
    Allow,
    /// The user decides, regardless of the mode and the approvals of the session.
    Ask,
    /// It may not run.
    Deny {
        /// The reason, for the model.
        reason: String,
    },
}

/// Origin of a decision on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decider {
    /// The rules.
    Rules,
    /// The mode.
    Mode,
    /// An approval of the session.
    Session,
    /// The user, for this call.
    User,
    /// The user could not be asked.
    Nobody,
}

/// Rules that say nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRules;

impl CallRules for NoRules {
    fn ruling(&self, _: ApprovalMode, _: &Question<'_>) -> Ruling {
        Ruling::Mode
    }
}

/// A call that needs a decision.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The call, with arguments that match the tool's schema.
    pub call: &'a ToolCall,
    /// The tool's current definition: `authority` bounds the effects of the call, `source` names the plugin and version
    /// that would run.
    pub tool: &'a ToolDefinition,
    /// Remarks of plugins' hooks about the call. If one of them asks, the call needs this decision even if the tool
    /// needs no approval or was allowed for the session.
    pub notes: &'a [HookNote],
    /// Name of the sub-agent that makes the call; `None` for the conversation itself.
    pub agent: Option<&'a str>,
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allows this call only.
    Allow,
    /// Allows this call and, for the rest of the session, all calls of the same tool of the same plugin, as long as
    /// neither the component nor the tool's authority changes.
    AllowForSession,
    /// Denies the call; the model gets the reason.
    Deny {
        /// The reason, and the way to have the call allowed.
        reason: String,
    },
    /// Denies the call because the user could not be asked; the model gets the reason.
    Unanswered {
        /// The reason, and the way to have the call allowed.
        reason: String,
    },
}

/// Denies every call that needs approval, for runs without a user.
#[derive(Debug, Clone, Default)]
pub struct DenyAll {
    /// Reason that the model gets.
    pub reason: String,
}

impl Approver for DenyAll {
    fn decide<'a>(&'a self, _: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async { Decision::Unanswered { reason: self.reason.clone() } })
    }
}

/// A call that was not approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeniedCall {
    /// The tool's name.
    pub tool: String,
    /// Reason for the denial.
    pub reason: String,
    /// True if the call was denied because the user could not be asked, rather than by a person.
    #[serde(skip)]
    pub is_unanswered: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_calls_need_no_approval() {
        let nothing = Authority::default();
        let reads = Authority::READ_ONLY;
        let writes = Authority { writes: true, ..reads };
        let asked = |mode: ApprovalMode| [nothing, reads, writes].map(|authority| mode.asks(authority));
        assert_eq!(asked(ApprovalMode::Ask), [false, true, true]);
        assert_eq!(asked(ApprovalMode::Smart), [false, false, true]);
        assert_eq!(asked(ApprovalMode::All), [false, false, false]);
        assert!(ApprovalMode::Plan.denies(writes) && !ApprovalMode::Plan.denies(reads));
    }
}
