//! Code of the application's own, called as a loop works.
//!
//! The order is guaranteed, and the same for one watcher of events as for all:
//!
//! `before_loop` → `AgentStart` → { `before_turn` → `TurnStart` → `transform_context` → `convert_to_llm` → `api_key` → the reply →
//! { `before_tool` → `ToolExecutionStart` → { `before_update` → `ToolExecutionUpdate` → `after_update` } →
//! `ToolExecutionEnd` → `after_tool` } → `TurnEnd` → `on_error`, when there is one → `after_turn` } → `AgentEnd` →
//! `after_loop`
//!
//! Several hooks are called in the order in which they were added. A hook can tighten and never allow: the first one that
//! says no has said it. Loops of sub-agents and branches call the same hooks: what one denies is denied to them too. A hook
//! may wait, as for a person; when the run is aborted it gets five seconds to end.

use crate::context::Context;
use futures_util::future::BoxFuture;
use pinion_protocol::content::{Content, ToolCall};
use pinion_protocol::message::{Message, ToolResultMessage};
use pinion_protocol::outcome::Outcome;
use pinion_protocol::usage::Usage;
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a hook that waits is waited for once the run is aborted.
const GRACE: Duration = Duration::from_secs(5);

/// May it go on?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Pass,
    /// No, and why.
    Deny(String),
}

/// Does the run go on after a turn?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// As it would.
    Continue,
    /// It is done.
    Stop,
}

/// What an application does as a loop works. Everything has a default that does nothing.
pub trait Hooks: Send + Sync {
    /// Before anything. A run that is denied ends with [`crate::RunEnd::Rejected`].
    fn before_loop<'a>(&'a self, context: &'a Context) -> BoxFuture<'a, Verdict> {
        let _ = context;
        Box::pin(async { Verdict::Pass })
    }

    /// Before each turn; counted from 1. A run whose turn is denied ends with [`crate::RunEnd::Rejected`].
    fn before_turn<'a>(&'a self, context: &'a Context, turn: u32) -> BoxFuture<'a, Verdict> {
        let _ = (context, turn);
        Box::pin(async { Verdict::Pass })
    }

    /// Changes what this one request is made from, extension messages included. The history stays as it is; every call
    /// must keep its result.
    fn transform_context(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        messages
    }

    /// Makes messages for the model, after all hooks have transformed the context: the place to turn extension messages
    /// into something that a model understands. Those that are left are left out.
    fn convert_to_llm(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        messages
    }

    /// A key for the next request, instead of the provider's own.
    fn api_key(&self) -> Option<SecretString> {
        None
    }

    /// Before a tool runs, its arguments valid and the user's approval given. A call that is denied does not run, and
    /// the model is told why. Called again when the tool was replaced before it ran and the call is decided on again.
    fn before_tool<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Verdict> {
        let _ = call;
        Box::pin(async { Verdict::Pass })
    }

    /// Before a running tool shows what it has; false keeps it from those who watch. Called from any thread; must not
    /// block.
    fn before_update(&self, call_id: &str, partial: &[Content]) -> bool {
        let _ = (call_id, partial);
        true
    }

    /// After that, when it was shown.
    fn after_update(&self, call_id: &str) {
        let _ = call_id;
    }

    /// After a call has ended, however it did.
    fn after_tool<'a>(&'a self, call: &'a ToolCall, result: &'a ToolResultMessage) -> BoxFuture<'a, ()> {
        let _ = (call, result);
        Box::pin(async {})
    }

    /// After each turn, also one that failed.
    fn after_turn<'a>(&'a self, context: &'a Context, usage: &'a Usage) -> BoxFuture<'a, Flow> {
        let _ = (context, usage);
        Box::pin(async { Flow::Continue })
    }

    /// When a request to the model failed for good.
    fn on_error<'a>(&'a self, message: &'a str) -> BoxFuture<'a, ()> {
        let _ = message;
        Box::pin(async {})
    }

    /// After everything.
    fn after_loop<'a>(&'a self, outcome: &'a Outcome) -> BoxFuture<'a, ()> {
        let _ = outcome;
        Box::pin(async {})
    }
}

/// All hooks of a loop, as one.
#[derive(Clone, Copy)]
pub(crate) struct HookChain<'a> {
    hooks: &'a [Arc<dyn Hooks>],
    token: &'a CancellationToken,
}

impl<'a> HookChain<'a> {
    pub(crate) fn new(hooks: &'a [Arc<dyn Hooks>], token: &'a CancellationToken) -> Self {
        Self { hooks, token }
    }

    pub(crate) async fn before_loop(self, context: &Context) -> Verdict {
        self.first_denial(|hook| hook.before_loop(context)).await
    }

    pub(crate) async fn before_turn(self, context: &Context, turn: u32) -> Verdict {
        self.first_denial(|hook| hook.before_turn(context, turn)).await
    }

    pub(crate) async fn before_tool(self, call: &ToolCall) -> Verdict {
        self.first_denial(|hook| hook.before_tool(call)).await
    }

    pub(crate) async fn after_tool(self, call: &ToolCall, result: &ToolResultMessage) {
        for hook in self.hooks {
            self.patient(hook.after_tool(call, result)).await;
        }
    }

    pub(crate) async fn after_turn(self, context: &Context, usage: &Usage) -> Flow {
        let mut flow = Flow::Continue;
        for hook in self.hooks {
            if self.patient(hook.after_turn(context, usage)).await == Some(Flow::Stop) {
                flow = Flow::Stop;
            }
        }
        flow
    }

    pub(crate) async fn on_error(self, message: &str) {
        for hook in self.hooks {
            self.patient(hook.on_error(message)).await;
        }
    }

    pub(crate) async fn after_loop(self, outcome: &Outcome) {
        for hook in self.hooks {
            self.patient(hook.after_loop(outcome)).await;
        }
    }

    /// The messages of a request: transformed, then converted.
    pub(crate) fn messages(self, history: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let is_for_model = |message: &Arc<Message>| !matches!(**message, Message::Extension(_));
        if self.hooks.is_empty() {
            // The usual case, without a second copy of the pointers.
            return history.iter().filter(|message| is_for_model(message)).cloned().collect();
        }
        let messages = self.hooks.iter().fold(history.to_vec(), |messages, hook| hook.transform_context(messages));
        let mut messages = self.hooks.iter().fold(messages, |messages, hook| hook.convert_to_llm(messages));
        messages.retain(is_for_model);
        messages
    }

    pub(crate) fn api_key(self) -> Option<SecretString> {
        self.hooks.iter().find_map(|hook| hook.api_key())
    }

    /// Shows an update by `show`, unless a hook minds.
    pub(crate) fn update(self, call_id: &str, partial: Vec<Content>, show: impl FnOnce(Vec<Content>)) {
        if !self.hooks.iter().all(|hook| hook.before_update(call_id, &partial)) {
            return;
        }
        show(partial);
        self.hooks.iter().for_each(|hook| hook.after_update(call_id));
    }

    async fn first_denial<'h>(self, ask: impl Fn(&'h dyn Hooks) -> BoxFuture<'h, Verdict>) -> Verdict
    where
        'a: 'h,
    {
        for hook in self.hooks {
            let verdict = self.patient(ask(&**hook)).await;
            let verdict = verdict.unwrap_or_else(|| Verdict::Deny("the run was aborted".to_owned()));
            if verdict != Verdict::Pass {
                return verdict;
            }
        }
        Verdict::Pass
    }

    async fn patient<T>(self, hook: impl Future<Output = T>) -> Option<T> {
        let out_of_patience = async {
            self.token.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            biased;
            value = hook => Some(value),
            () = out_of_patience => None,
        }
    }
}
