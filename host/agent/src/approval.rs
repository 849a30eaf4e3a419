//! Decides whether a call may run: by what it can do, which the executor enforces, and never by what it says it does.

use crate::asking::Asking;
use crate::authority::Authority;
use crate::content::ToolCall;
use crate::definition::ToolDefinition;
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Denied calls that are remembered; more are dropped.
const MAX_DENIED: usize = 256;

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
    /// Decides whether this call may run. Questions of one [`Approval`] come one at a time. When `token` is cancelled, the
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

/// The tools of denied calls, each once, in backticks.
pub(crate) fn listed(calls: &[DeniedCall]) -> String {
    let mut tools: Vec<&str> = Vec::new();
    for call in calls {
        if !tools.contains(&call.tool.as_str()) {
            tools.push(&call.tool);
        }
    }
    format!("`{}`", tools.join("`, `"))
}

/// The approval mode, and the decisions of this session. Clones share both: sub-agents and branches belong to the
/// session that started them.
#[derive(Clone)]
pub struct Approval {
    mode: ApprovalMode,
    approver: Arc<dyn Approver>,
    decided: Arc<Mutex<Decided>>,
    asking: Arc<Asking>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Decided {
    allowed: HashSet<Subject>,
    denied: Vec<DeniedCall>,
    denied_count: u64,
}

/// The subject of an "always": one tool of one version of a plugin.
#[derive(PartialEq, Eq, Hash)]
struct Subject {
    plugin: Arc<str>,
    digest: Arc<str>,
    tool: String,
    authority: Authority,
}

impl Subject {
    fn of(tool: &ToolDefinition) -> Self {
        let (plugin, digest) = (tool.source.plugin.clone(), tool.source.digest.clone());
        Self { plugin, digest, tool: tool.name.clone(), authority: tool.authority }
    }
}

impl Approval {
    /// Asks `approver` about the calls that `mode` selects.
    pub fn new(mode: ApprovalMode, approver: Arc<dyn Approver>) -> Self {
        Self { mode, approver, decided: Arc::default(), asking: Arc::default(), turn: Arc::default() }
    }

    /// Forgets what was allowed for the session, because another session begins.
    pub fn forget(&self) {
        let mut decided = self.decided();
        decided.allowed.clear();
        decided.denied.clear();
    }

    /// The calls that were not approved in this session, in order; at most 256.
    pub fn denied(&self) -> Vec<DeniedCall> {
        self.decided().denied.clone()
    }

    /// Returns the number of calls that were not approved since this was made.
    pub(crate) fn denied_count(&self) -> u64 {
        self.decided().denied_count
    }

    /// Those of them that came after the first `count`, at least the last one that is kept; none when there are none.
    pub(crate) fn denied_since(&self, count: u64) -> Option<Vec<DeniedCall>> {
        let decided = self.decided();
        let since = usize::try_from(decided.denied_count - count).unwrap_or(usize::MAX).min(MAX_DENIED);
        let first = decided.denied.len().saturating_sub(since);
        (since > 0).then(|| decided.denied[first..].to_vec())
    }

    /// The clock by which time limits leave out the time that a person takes to answer.
    pub(crate) fn asking(&self) -> &Arc<Asking> {
        &self.asking
    }

    /// Returns whether calls of this tool need an answer.
    pub(crate) fn must_ask(&self, tool: &ToolDefinition) -> bool {
        self.mode.asks(tool.authority) && !self.decided().allowed.contains(&Subject::of(tool))
    }

    /// Asks, after all who asked before, and remembers the answer.
    pub(crate) async fn ask(&self, question: Question<'_>, token: &CancellationToken) -> Decision {
        let asking = self.asking.begin();
        let _turn = self.turn.lock().await;
        // The answer to the question before may have settled this one.
        if !self.must_ask(question.tool) {
            return Decision::Allow;
        }
        let decision = self.approver.decide(question, token).await;
        drop(asking);
        match &decision {
            Decision::Allow => {}
            Decision::AllowForSession => drop(self.decided().allowed.insert(Subject::of(question.tool))),
            Decision::Deny { reason } => self.record(question.tool, reason, false),
            Decision::Unanswered { reason } => self.record(question.tool, reason, true),
        }
        decision
    }

    fn record(&self, tool: &ToolDefinition, reason: &str, is_unanswered: bool) {
        let denied = DeniedCall { tool: tool.name.clone(), reason: reason.to_owned(), is_unanswered };
        let mut decided = self.decided();
        decided.denied_count += 1;
        if decided.denied.len() < MAX_DENIED {
            decided.denied.push(denied);
        }
    }

    /// Nothing is left half-done in it when a thread panics.
    fn decided(&self) -> MutexGuard<'_, Decided> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
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
