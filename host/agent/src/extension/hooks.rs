//! Application code that a run calls at fixed points.
//!
//! The order is guaranteed, and the same for one watcher of events as for all:
//!
//! `before_run` → `AgentStart` → { `before_turn` → `TurnStart` → new messages → { `transform_context` → `convert_to_llm`
//! → `api_key` → the request; once more for each retry } → { `before_tool` → `ToolExecutionStart` → { `before_update` →
//! `ToolExecutionUpdate` → `after_update` } → `transform_result` → `ToolExecutionEnd` → `after_tool` } → `TurnEnd` →
//! `on_error`, when there is one → `after_turn` } → `AgentEnd` → `after_run`
//!
//! A run that `before_run` denies does not start: `before_run` → `InputRejected` → `AgentEnd` → `after_run`.
//!
//! If `before_tool` asks and the user allows the call, `after_question` follows.
//!
//! The hooks from `transform_result` to `after_tool` are called for calls that ran, never for those that were denied,
//! skipped or invalid.
//!
//! Several hooks are called in the order of their addition. Hooks can only restrict: the first denial is final. Runs of
//! sub-agents and branches call the same hooks. A hook may wait, for example for a person. The token that it gets is
//! cancelled when the run is aborted; then it has five seconds to end. A panic of a hook denies the call, withholds the
//! result, or ends the run with an error.

use crate::context::Context;
use futures_util::future::BoxFuture;
use pinion_protocol::content::{Content, ToolCall};
use pinion_protocol::guard::{caught, caught_async};
use pinion_protocol::message::{Message, ToolResultMessage};
use pinion_protocol::outcome::{Outcome, RunError};
use pinion_protocol::usage::Usage;
use secrecy::SecretString;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time that a waiting hook gets once the run is aborted.
const GRACE: Duration = Duration::from_secs(5);

/// Decision of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookVerdict {
    /// Continue.
    Pass,
    /// Deny, with a reason.
    Deny(String),
    /// Have the user decide on a call, for a reason that the question shows. Denies where there is no call: before a run
    /// and before a turn.
    Ask(String),
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
    /// Called before a run starts. A denied run ends with [`crate::RunEnd::Rejected`] and without
    /// [`crate::EventKind::AgentStart`].
    fn before_run<'a>(&'a self, context: &'a Context, token: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        let _ = (context, token);
        Box::pin(async { HookVerdict::Pass })
    }

    /// Called before each turn, counted from 1, and before its new messages become part of `context`. If the turn is
    /// denied, the run ends with [`crate::RunEnd::Rejected`].
    fn before_turn<'a>(
        &'a self,
        context: &'a Context,
        turn: u32,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, HookVerdict> {
        let _ = (context, turn, token);
        Box::pin(async { HookVerdict::Pass })
    }

    /// Transforms the messages of a single request, including extension messages. The history does not change; every
    /// call must keep its result. `is_too_long` tells that the vendor rejected the last request of the conversation as too
    /// long, also when that ended a run which is now resumed.
    fn transform_context<'a>(
        &'a self,
        messages: Vec<Arc<Message>>,
        is_too_long: bool,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Vec<Arc<Message>>> {
        let _ = (is_too_long, token);
        Box::pin(async { messages })
    }

    /// Converts messages for the model, after all hooks have transformed the context; for example, extension messages
    /// into user messages. Remaining extension messages are dropped.
    fn convert_to_llm(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        messages
    }

    /// Returns a key for the next request, also for a retry; `None` for the provider's own key.
    fn api_key<'a>(&'a self, token: &'a CancellationToken) -> BoxFuture<'a, Option<SecretString>> {
        let _ = token;
        Box::pin(async { None })
    }

    /// Called before a tool runs, after the arguments were validated and the call was approved. A denied call does not
    /// run; the model gets the reason. Called again if the tool was replaced before it ran.
    fn before_tool<'a>(&'a self, call: &'a ToolCall, token: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        let _ = (call, token);
        Box::pin(async { HookVerdict::Pass })
    }

    /// Called when the user allowed a call about which [`Hooks::before_tool`] of any hook asked, before it runs.
    /// `reason` is the question's reason.
    fn after_question<'a>(
        &'a self,
        call: &'a ToolCall,
        reason: &'a str,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        let _ = (call, reason, token);
        Box::pin(async {})
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

    /// Called after a call ran, before its result is stored and reported. Returns the result that takes its place, if
    /// any; its ids and its time still come from the call.
    fn transform_result<'a>(
        &'a self,
        call: &'a ToolCall,
        result: &'a ToolResultMessage,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<ToolResultMessage>> {
        let _ = (call, result, token);
        Box::pin(async { None })
    }

    /// Called after the end of a call that ran was reported, whether it succeeded or not.
    fn after_tool<'a>(
        &'a self,
        call: &'a ToolCall,
        result: &'a ToolResultMessage,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        let _ = (call, result, token);
        Box::pin(async {})
    }

    /// Called after each turn, including failed ones.
    fn after_turn<'a>(
        &'a self,
        context: &'a Context,
        usage: &'a Usage,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Flow> {
        let _ = (context, usage, token);
        Box::pin(async { Flow::Continue })
    }

    /// Called when a turn failed: a request to the model permanently, or a write to the session.
    fn on_error<'a>(&'a self, error: &'a RunError, token: &'a CancellationToken) -> BoxFuture<'a, ()> {
        let _ = (error, token);
        Box::pin(async {})
    }

    /// Called after the run ended.
    fn after_run<'a>(&'a self, outcome: &'a Outcome, token: &'a CancellationToken) -> BoxFuture<'a, ()> {
        let _ = (outcome, token);
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

    pub(crate) async fn before_run(self, context: &Context) -> HookVerdict {
        self.first_denial(|hook| hook.before_run(context, self.token)).await
    }

    pub(crate) async fn before_turn(self, context: &Context, turn: u32) -> HookVerdict {
        self.first_denial(|hook| hook.before_turn(context, turn, self.token)).await
    }

    pub(crate) async fn before_tool(self, call: &ToolCall) -> HookVerdict {
        self.first_denial(|hook| hook.before_tool(call, self.token)).await
    }

    pub(crate) async fn after_question(self, call: &ToolCall, reason: &str) {
        for hook in self.hooks {
            self.notify(|| hook.after_question(call, reason, self.token)).await;
        }
    }

    /// Returns the result that takes the place of the call's own, if any. A hook that fails may have meant to hide
    /// something, so the result is withheld.
    pub(crate) async fn transform_result(
        self,
        call: &ToolCall,
        result: &ToolResultMessage,
    ) -> Option<ToolResultMessage> {
        let mut changed: Option<ToolResultMessage> = None;
        for hook in self.hooks {
            let current = changed.as_ref().unwrap_or(result);
            let transformed =
                caught_async(async { self.with_grace(hook.transform_result(call, current, self.token)).await }).await;
            let why = match transformed {
                Ok(Some(None)) => continue,
                Ok(Some(Some(other))) => {
                    let ToolResultMessage { content, details, is_error, .. } = other;
                    changed = Some(ToolResultMessage { content, details, is_error, ..result.clone() });
                    continue;
                }
                Ok(None) => "did not end in time".to_owned(),
                Err(panicked) => panicked.to_string(),
            };
            tracing::error!(tool = call.name, why, "the result of a call is withheld");
            let content = vec![Content::text(format!("The result is withheld: a hook of the application {why}."))];
            return Some(ToolResultMessage { content, details: None, is_error: true, ..result.clone() });
        }
        changed
    }

    pub(crate) async fn after_tool(self, call: &ToolCall, result: &ToolResultMessage) {
        for hook in self.hooks {
            self.notify(|| hook.after_tool(call, result, self.token)).await;
        }
    }

    pub(crate) async fn after_turn(self, context: &Context, usage: &Usage) -> Flow {
        let mut flow = Flow::Continue;
        for hook in self.hooks {
            if self.with_grace(hook.after_turn(context, usage, self.token)).await == Some(Flow::Stop) {
                flow = Flow::Stop;
            }
        }
        flow
    }

    pub(crate) async fn on_error(self, error: &RunError) {
        for hook in self.hooks {
            self.notify(|| hook.on_error(error, self.token)).await;
        }
    }

    pub(crate) async fn after_run(self, outcome: &Outcome) {
        for hook in self.hooks {
            self.notify(|| hook.after_run(outcome, self.token)).await;
        }
    }

    /// Returns the transformed and converted messages of a request; `None` if the run was aborted meanwhile.
    pub(crate) async fn messages(self, history: &[Arc<Message>], is_too_long: bool) -> Option<Vec<Arc<Message>>> {
        let is_for_model = |message: &Arc<Message>| !matches!(**message, Message::Extension(_));
        if self.hooks.is_empty() {
            // Avoid a second copy of the pointers in the common case.
            return Some(history.iter().filter(|message| is_for_model(message)).cloned().collect());
        }
        let mut messages = history.to_vec();
        for hook in self.hooks {
            messages = self.with_grace(hook.transform_context(messages, is_too_long, self.token)).await?;
        }
        let mut messages = self.hooks.iter().fold(messages, |messages, hook| hook.convert_to_llm(messages));
        messages.retain(is_for_model);
        Some(messages)
    }

    /// Returns the key of the first hook that has one.
    pub(crate) async fn api_key(self) -> Option<SecretString> {
        for hook in self.hooks {
            if let Some(key) = self.with_grace(hook.api_key(self.token)).await.flatten() {
                return Some(key);
            }
        }
        None
    }

    /// Passes a partial result to `show`, unless a hook hides it.
    pub(crate) fn update(self, call_id: &str, partial: Vec<Content>, show: impl FnOnce(Vec<Content>)) {
        let shown = caught(|| self.hooks.iter().all(|hook| hook.before_update(call_id, &partial)));
        if !shown.unwrap_or(false) {
            return;
        }
        show(partial);
        if let Err(panicked) = caught(|| self.hooks.iter().for_each(|hook| hook.after_update(call_id))) {
            tracing::error!(%panicked, "a hook failed");
        }
    }

    /// Calls a hook whose answer nothing depends on.
    async fn notify<'h>(self, hook: impl FnOnce() -> BoxFuture<'h, ()>) {
        if let Err(panicked) = caught_async(async { self.with_grace(hook()).await }).await {
            tracing::error!(%panicked, "a hook failed");
        }
    }

    async fn first_denial<'h>(self, ask: impl Fn(&'h dyn Hooks) -> BoxFuture<'h, HookVerdict>) -> HookVerdict
    where
        'a: 'h,
    {
        let mut question = HookVerdict::Pass;
        for hook in self.hooks {
            match self.with_grace(ask(&**hook)).await {
                Some(HookVerdict::Pass) => {}
                Some(HookVerdict::Ask(reason)) if question == HookVerdict::Pass => question = HookVerdict::Ask(reason),
                Some(HookVerdict::Ask(_)) => {}
                Some(denial @ HookVerdict::Deny(_)) => return denial,
                None => return HookVerdict::Deny("the run was aborted".to_owned()),
            }
        }
        question
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
