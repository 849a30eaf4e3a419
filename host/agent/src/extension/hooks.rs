//! Application code that a run calls at fixed points.
//!
//! The order is guaranteed, and the same for one watcher of events as for all:
//!
//! `before_loop` → `AgentStart` → { `before_turn` → `TurnStart` → `transform_context` → `convert_to_llm` → `api_key` → the reply →
//! { `before_tool` → `ToolExecutionStart` → { `before_update` → `ToolExecutionUpdate` → `after_update` } →
//! `ToolExecutionEnd` → `after_tool` } → `TurnEnd` → `on_error`, when there is one → `after_turn` } → `AgentEnd` →
//! `after_loop`
//!
//! Several hooks are called in the order in which they were added. Hooks can only restrict: the first denial is final.
//! Runs of sub-agents and branches call the same hooks. A hook may wait, for example for a person; once the run is
//! aborted, it gets five seconds to end.

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

/// Time that a waiting hook gets once the run is aborted.
const GRACE: Duration = Duration::from_secs(5);

/// Decision of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Continue.
    Pass,
    /// Deny, with a reason.
    Deny(String),
}

/// Control flow after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Continue as usual.
    Continue,
    /// End the run as done.
    Stop,
}

/// Callbacks of an application. The default of each method does nothing.
pub trait Hooks: Send + Sync {
    /// Called before a run starts. A denied run ends with [`crate::RunEnd::Rejected`].
    fn before_loop<'a>(&'a self, context: &'a Context) -> BoxFuture<'a, Verdict> {
        let _ = context;
        Box::pin(async { Verdict::Pass })
    }

    /// Called before each turn, counted from 1. If the turn is denied, the run ends with [`crate::RunEnd::Rejected`].
    fn before_turn<'a>(&'a self, context: &'a Context, turn: u32) -> BoxFuture<'a, Verdict> {
        let _ = (context, turn);
        Box::pin(async { Verdict::Pass })
    }

    /// Transforms the messages of a single request, including extension messages. The history does not change; every
    /// call must keep its result.
    fn transform_context(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        messages
    }

    /// Converts messages for the model, after all hooks have transformed the context; for example, extension messages
    /// into user messages. Remaining extension messages are dropped.
    fn convert_to_llm(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        messages
    }

    /// Returns a key for the next request; `None` for the provider's own key.
    fn api_key(&self) -> Option<SecretString> {
        None
    }

    /// Called before a tool runs, after the arguments were validated and the call was approved. A denied call does not
    /// run; the model gets the reason. Called again if the tool was replaced before it ran.
    fn before_tool<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Verdict> {
        let _ = call;
        Box::pin(async { Verdict::Pass })
    }

    /// Called before the watchers get a partial result; returning false hides it. Called from any thread; must not
    /// block.
    fn before_update(&self, call_id: &str, partial: &[Content]) -> bool {
        let _ = (call_id, partial);
        true
    }

    /// Called after the watchers got a partial result.
    fn after_update(&self, call_id: &str) {
        let _ = call_id;
    }

    /// Called after a call ended, whether it succeeded or not.
    fn after_tool<'a>(&'a self, call: &'a ToolCall, result: &'a ToolResultMessage) -> BoxFuture<'a, ()> {
        let _ = (call, result);
        Box::pin(async {})
    }

    /// Called after each turn, including failed ones.
    fn after_turn<'a>(&'a self, context: &'a Context, usage: &'a Usage) -> BoxFuture<'a, Flow> {
        let _ = (context, usage);
        Box::pin(async { Flow::Continue })
    }

    /// Called when a request to the model failed permanently.
    fn on_error<'a>(&'a self, message: &'a str) -> BoxFuture<'a, ()> {
        let _ = message;
        Box::pin(async {})
    }

    /// Called after the run ended.
    fn after_loop<'a>(&'a self, outcome: &'a Outcome) -> BoxFuture<'a, ()> {
        let _ = outcome;
        Box::pin(async {})
    }
}

/// Calls all hooks of a run in order.
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
            self.with_grace(hook.after_tool(call, result)).await;
        }
    }

    pub(crate) async fn after_turn(self, context: &Context, usage: &Usage) -> Flow {
        let mut flow = Flow::Continue;
        for hook in self.hooks {
            if self.with_grace(hook.after_turn(context, usage)).await == Some(Flow::Stop) {
                flow = Flow::Stop;
            }
        }
        flow
    }

    pub(crate) async fn on_error(self, message: &str) {
        for hook in self.hooks {
            self.with_grace(hook.on_error(message)).await;
        }
    }

    pub(crate) async fn after_loop(self, outcome: &Outcome) {
        for hook in self.hooks {
            self.with_grace(hook.after_loop(outcome)).await;
        }
    }

    /// Returns the transformed and converted messages of a request.
    pub(crate) fn messages(self, history: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let is_for_model = |message: &Arc<Message>| !matches!(**message, Message::Extension(_));
        if self.hooks.is_empty() {
            // Avoid a second copy of the pointers in the common case.
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

    /// Passes a partial result to `show`, unless a hook hides it.
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
            let verdict = self.with_grace(ask(&**hook)).await;
            let verdict = verdict.unwrap_or_else(|| Verdict::Deny("the run was aborted".to_owned()));
            if verdict != Verdict::Pass {
                return verdict;
            }
        }
        Verdict::Pass
    }

    async fn with_grace<T>(self, hook: impl Future<Output = T>) -> Option<T> {
        let deadline = async {
            self.token.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            biased;
            value = hook => Some(value),
            () = deadline => None,
        }
    }
}
