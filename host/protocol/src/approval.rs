//! The port that decides about calls, and the modes that select which calls it is asked about.

use crate::authority::Authority;
use crate::content::ToolCall;
use crate::definition::ToolDefinition;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

/// Which calls are asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// All that can touch anything, reading included.
    Ask,
    /// Those that can change something, run something or send something.
    #[default]
    Smart,
    /// None.
    All,
}

impl ApprovalMode {
    /// Returns whether a call with this authority needs an answer.
    pub fn asks(self, authority: Authority) -> bool {
        match self {
            Self::Ask => authority.reads || authority.delegates || !authority.is_harmless(),
            Self::Smart => !authority.is_harmless(),
            Self::All => false,
        }
    }
}

/// Asks whoever decides.
pub trait Approver: Send + Sync {
    /// Decides whether this call may run. Questions of one session come one at a time. When `token` is cancelled, the
    /// answer does not matter any more and should come soon.
    fn decide<'a>(&'a self, question: Question<'a>, token: &'a CancellationToken) -> BoxFuture<'a, Decision>;
}

/// A call to be decided on.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The call, its arguments valid.
    pub call: &'a ToolCall,
    /// The tool as it is now. `authority` is what the call can do, `source` the plugin and version that would run.
    pub tool: &'a ToolDefinition,
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Yes, this once.
    Allow,
    /// Yes, and do not ask again in this session about this tool of this plugin, as long as neither the component nor what
    /// the tool can do changes.
    AllowForSession,
    /// No; the model gets the reason.
    Deny {
        /// Why, and what would change it.
        reason: String,
    },
    /// No one could be asked, so the call is denied; the model gets the reason.
    Unanswered {
        /// Why, and what would change it.
        reason: String,
    },
}

/// Denies every call that needs approval: for runs without a user.
#[derive(Debug, Clone, Default)]
pub struct DenyAll {
    /// The reason that the model gets.
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
    /// Why.
    pub reason: String,
    /// No one could be asked, as opposed to a person who said no.
    #[serde(skip)]
    pub is_unanswered: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_do_no_harm_is_not_asked_about() {
        let nothing = Authority::default();
        let reads = Authority::READ_ONLY;
        let writes = Authority { writes: true, ..reads };
        let asked = |mode: ApprovalMode| [nothing, reads, writes].map(|authority| mode.asks(authority));
        assert_eq!(asked(ApprovalMode::Ask), [false, true, true]);
        assert_eq!(asked(ApprovalMode::Smart), [false, false, true]);
        assert_eq!(asked(ApprovalMode::All), [false, false, false]);
    }
}
