//! May this call run? Decided by what it can do, which the executor enforces, and never by what it says it does.

use crate::authority::Authority;
use crate::content::ToolCall;
use crate::definition::ToolDefinition;
use futures_util::future::BoxFuture;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
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
    fn asks(self, authority: Authority) -> bool {
        match self {
            Self::Ask => authority.reads || authority.delegates || !authority.is_harmless(),
            Self::Smart => !authority.is_harmless(),
            Self::All => false,
        }
    }
}

/// Asks whoever decides.
pub trait Approver: Send + Sync {
    /// May this call run? Questions come one at a time. When `token` is cancelled, the answer does not matter any more
    /// and should come soon.
    fn decide<'a>(&'a self, question: Question<'a>, token: &'a CancellationToken) -> BoxFuture<'a, Decision>;
}

/// What is to be decided.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The call, its arguments valid.
    pub call: &'a ToolCall,
    /// The tool; `authority` is what the call can do.
    pub tool: &'a ToolDefinition,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Yes, this once.
    Allow,
    /// Yes, and do not ask again about this tool in this session, as long as it can do no more than now.
    AllowForSession,
    /// No; the model is told why.
    Deny {
        /// Why, and what would mend it.
        reason: String,
    },
}

/// Says no to everything that has to be asked: for runs without a user.
#[derive(Debug, Clone, Default)]
pub struct DenyAll {
    /// What the model is told, and the user through it.
    pub reason: String,
}

impl Approver for DenyAll {
    fn decide<'a>(&'a self, _: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async { Decision::Deny { reason: self.reason.clone() } })
    }
}

/// How calls are approved, with the memory of what was approved for the session.
#[derive(Clone)]
pub struct Approval {
    mode: ApprovalMode,
    approver: Arc<dyn Approver>,
    remembered: Arc<Mutex<HashSet<(String, Authority)>>>,
}

impl Approval {
    /// Nothing is remembered yet.
    pub fn new(mode: ApprovalMode, approver: Arc<dyn Approver>) -> Self {
        Self { mode, approver, remembered: Arc::default() }
    }

    /// Must somebody be asked about calls of this tool?
    pub(crate) fn must_ask(&self, tool: &ToolDefinition) -> bool {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        self.mode.asks(tool.authority) && !remembered.contains(&(tool.name.clone(), tool.authority))
    }

    /// Asks, and remembers the answer when it is for the session.
    pub(crate) async fn ask(&self, question: Question<'_>, token: &CancellationToken) -> Decision {
        let decision = self.approver.decide(question, token).await;
        if decision == Decision::AllowForSession {
            let tool = (question.tool.name.clone(), question.tool.authority);
            self.remembered.lock().unwrap_or_else(PoisonError::into_inner).insert(tool);
        }
        decision
    }
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
