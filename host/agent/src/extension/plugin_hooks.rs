//! The hooks of plugins, as a run calls them.
//!
//! Their order among everything else that decides on a call: validation of the arguments → hooks before the call →
//! validation of the rewritten arguments → approval → the application's own hooks → the call → hooks after it → the
//! application's own. Hooks of different calls run concurrently.
//!
//! Hooks see texts without secrets. Each call of a hook is reported as an event. Nothing here costs more than a look at a
//! flag while no plugin has hooks.

use crate::config::LoopConfig;
use futures_util::future::BoxFuture;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::content::{Content, ToolCall};
use pinion_protocol::definition::ToolDefinition;
use pinion_protocol::event::EventKind;
use pinion_protocol::filter;
use pinion_protocol::guard::caught_async;
use pinion_protocol::hook::{
    AcceptedCall, CallOutcome, HookCall, HookPoint, HookedCall, HookedRun, PluginHooks, ReplacedPart, RevisedCall,
    StoppingRun,
};
use pinion_protocol::message::{AssistantMessage, Message};
use pinion_protocol::tool::ToolError;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The text in place of one that not all hooks have seen.
const WITHHELD: &str = "[The run was aborted before the plugins that revise replies had seen this text.]";
/// The text in place of one of which a hook left nothing.
const REMOVED: &str = "[A plugin removed this text.]";

/// The hooks of plugins, for one run.
#[derive(Clone, Copy)]
pub(crate) struct HookCaller<'a> {
    pub(crate) config: &'a LoopConfig,
    pub(crate) events: &'a EventWatchers,
    pub(crate) session_id: &'a str,
    pub(crate) run_id: &'a Arc<str>,
    /// Cancelled when the answers are no longer wanted, which ends the hooks.
    pub(crate) token: &'a CancellationToken,
}

impl<'a> HookCaller<'a> {
    /// Asks the hooks whether a call may be approved.
    ///
    /// # Errors
    /// A hook denied the call, or the run was aborted.
    pub(crate) async fn before_call(
        self,
        call: &ToolCall,
        tool: &Arc<ToolDefinition>,
    ) -> Result<AcceptedCall, ToolError> {
        let Some(hooks) = self.at(HookPoint::BeforeToolCall) else { return Ok(AcceptedCall::default()) };
        let arguments = self.config.ports.secrets.clean_json(call.arguments.clone());
        let check = |arguments: Value| -> BoxFuture<'_, Result<Value, String>> {
            Box::pin(async move { Ok(self.config.schemas.check(tool, &arguments).await?.into_owned()) })
        };
        let checking = hooks.before_call(self.hooked(call, tool, &arguments), &check, self.token);
        let Some(checked) = self.token.run_until_cancelled(checking).await else {
            return Err(ToolError::Cancelled { tool: tool.name.clone() });
        };
        self.report(Some(&call.id), checked.calls).await;
        checked.result.map_err(|reason| ToolError::Denied { tool: tool.name.clone(), reason })
    }

    /// Lets the hooks revise the outcome of a call that ran. A panic changes nothing, like any other failure of theirs.
    /// If the run is aborted before all of them answered, the outcome is withheld: one of them may remove content that
    /// models must not see.
    pub(crate) async fn after_call(
        self,
        call: &ToolCall,
        tool: &Arc<ToolDefinition>,
        outcome: impl FnOnce() -> CallOutcome,
    ) -> Option<CallOutcome> {
        let hooks = self.at(HookPoint::AfterToolCall)?;
        let arguments = self.config.ports.secrets.clean_json(call.arguments.clone());
        let revising = async {
            let revising = hooks.after_call(self.hooked(call, tool, &arguments), outcome(), self.token);
            self.token.run_until_cancelled(revising).await
        };
        let log = |panicked: &_| tracing::error!(tool = tool.name, %panicked, "the hooks of plugins failed");
        let revised = caught_async(revising).await.inspect_err(log).ok()?;
        let Some(RevisedCall { outcome, calls }) = revised else { return Some(CallOutcome::withheld()) };
        self.report(Some(&call.id), calls).await;
        outcome
    }

    /// Lets the application's filters and the hooks check messages of the user, and adds the hooks' context to the last
    /// one. The task of a sub-agent is not a prompt of the user.
    ///
    /// # Errors
    /// A filter or a hook rejected them, or the run was aborted; the text is for people.
    pub(crate) async fn admit(self, messages: Vec<Message>) -> Result<Vec<Message>, String> {
        let mut messages = filter::admit(&self.config.ports.filters, messages)?;
        let hooks = self.at(HookPoint::BeforePrompt).filter(|_| self.config.depth == 0);
        let text = if hooks.is_some() { filter::text_of(&messages) } else { String::new() };
        let Some(hooks) = hooks.filter(|_| !text.is_empty()) else { return Ok(messages) };
        let text = self.config.ports.secrets.clean(&text);
        let checking = hooks.before_prompt(self.session_id, &text, self.token);
        let aborted = || "the run was aborted before all plugins had checked the prompt".to_owned();
        let checked = self.token.run_until_cancelled(checking).await.ok_or_else(aborted)?;
        self.report(None, checked.calls).await;
        filter::append(&mut messages, checked.result?.into_iter().map(Content::text).collect());
        Ok(messages)
    }

    /// Returns the hooks' instructions for a summary.
    pub(crate) async fn before_compaction(self, part: ReplacedPart<'_>) -> Vec<String> {
        let Some(hooks) = self.at(HookPoint::BeforeCompaction) else { return Vec::new() };
        let adding = hooks.before_compaction(self.session_id, part, self.token);
        let Some(added) = self.token.run_until_cancelled(adding).await else { return Vec::new() };
        self.report(None, added.calls).await;
        added.texts
    }

    /// Announces the prompts of a session to the hooks at its start, and adds their context to the last prompt. Sessions of
    /// sub-agents belong to the agent's session.
    pub(crate) async fn session_start(self, is_new: bool, mut messages: Vec<Message>) -> Vec<Message> {
        let hooks = self.at(HookPoint::SessionStart).or_else(|| self.at(HookPoint::SessionEnd));
        let is_announced = self.config.depth == 0 && !messages.is_empty();
        let Some(hooks) = hooks.filter(|_| is_announced) else { return messages };
        let starting = hooks.session_start(self.run(), is_new, self.token);
        let Some(started) = self.token.run_until_cancelled(starting).await else { return messages };
        self.report(None, started.calls).await;
        filter::append(&mut messages, started.context.into_iter().map(Content::text).collect());
        messages
    }

    /// Lets the hooks revise the texts of a reply. A panic changes nothing, like any other failure of theirs. If the run is
    /// aborted before all of them answered, the texts are withheld.
    pub(crate) async fn after_reply(self, mut reply: AssistantMessage) -> AssistantMessage {
        let Some(hooks) = self.at(HookPoint::AfterReply) else { return reply };
        let texts = reply.content.iter().filter_map(Content::as_text);
        let texts: Vec<String> = texts.map(|text| self.config.ports.secrets.clean(text).into_owned()).collect();
        if texts.is_empty() {
            return reply;
        }
        let count = texts.len();
        let revising = async {
            let revising = hooks.after_reply(self.run(), texts, self.token);
            self.token.run_until_cancelled(revising).await
        };
        let revised = match caught_async(revising).await {
            Ok(Some(revised)) => {
                self.report(None, revised.calls).await;
                revised.texts
            }
            Ok(None) => Some(vec![WITHHELD.to_owned(); count]),
            Err(panicked) => {
                tracing::error!(%panicked, "the hooks of plugins failed");
                None
            }
        };
        let parts = reply.content.iter_mut().filter(|part| part.as_text().is_some());
        for (part, text) in parts.zip(revised.into_iter().flatten()) {
            // Vendors refuse parts without text.
            *part = Content::text(if text.trim().is_empty() { REMOVED.to_owned() } else { text });
        }
        reply
    }

    /// Asks the hooks whether the run may stop. Returns the message with which it continues.
    pub(crate) async fn before_stop(self, reply: &str, turns: u32, continuations: u32) -> Option<Message> {
        let hooks = self.at(HookPoint::BeforeStop)?;
        let reply = self.config.ports.secrets.clean(reply);
        let stop = StoppingRun { run: self.run(), reply: &reply, turns, continuations };
        let checked = self.token.run_until_cancelled(hooks.before_stop(stop, self.token)).await?;
        self.report(None, checked.calls).await;
        (!checked.reasons.is_empty()).then(|| Message::user(checked.reasons.join("\n\n")))
    }

    fn run(self) -> HookedRun<'a> {
        HookedRun { session_id: self.session_id, run_id: self.run_id, depth: self.config.depth }
    }

    fn at(self, point: HookPoint) -> Option<&'a dyn PluginHooks> {
        self.config.ports.plugin_hooks.as_deref().filter(|hooks| hooks.wants(point))
    }

    fn hooked(self, call: &'a ToolCall, tool: &'a ToolDefinition, arguments: &'a Value) -> HookedCall<'a> {
        HookedCall { call_id: &call.id, session_id: self.session_id, tool, arguments, depth: self.config.depth }
    }

    async fn report(self, call_id: Option<&String>, calls: Vec<HookCall>) {
        for mut hook in calls {
            hook.text = self.config.ports.secrets.clean(&hook.text).into_owned();
            self.config.report(self.events, self.run_id, EventKind::Hook { call_id: call_id.cloned(), hook }).await;
        }
    }
}
