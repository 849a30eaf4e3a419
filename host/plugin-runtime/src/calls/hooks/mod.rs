//! The hooks of plugins: [`PluginHooks`] for a [`Runtime`].
//!
//! The plugins with a hook are called one after the other, in the order of their loading, each with the changes of
//! those before it. As for tools, the current generation answers, and a plugin whose file has changed is reloaded
//! first, but for no longer than a hook may take: the generation before answers then. A hook runs with the authority of
//! a command of its plugin, for at most [`HOOK_MS`](pinion_plugin_limits::HOOK_MS), which includes the wait for its turn.
//!
//! A hook that checks and fails denies the call or rejects the prompt; any other failure changes nothing. Both are reported.

mod jobs;
pub(crate) mod observers;
pub(crate) mod run_hooks;
mod words;

use self::jobs::{AfterCall, BeforeCall, BeforeCompaction, BeforePrompt};
use self::words::{bounded, quoted};
use crate::bindings::exports::pinion::plugin::before_compaction::Compaction;
use crate::bindings::exports::pinion::plugin::before_prompt::PromptVerdict;
use crate::bindings::exports::pinion::plugin::before_tool_call::Verdict;
use crate::bindings::pinion::plugin::types::{self as wit, CallContext};
use crate::calls::instance::{FinishedJob, InstanceJob, Setup};
use crate::calls::state::NoProgress;
use crate::convert;
use crate::registry::loaded::Loaded;
use crate::runtime::Runtime;
use futures_util::future::BoxFuture;
use pinion_plugin_limits::{FaultKind, PluginFault};
use pinion_protocol::hook::{
    AcceptedCall, AddedInstructions, ArgumentCheck, CallFailure, CallOutcome, CheckedCall, CheckedPrompt, CheckedStop,
    HookedCall, HookedRun, ReplacedPart, RevisedCall, RevisedReply, StartedSession, StoppingRun,
};
use pinion_protocol::{HookAnswer, HookCall, HookNote, HookPoint, Ledger, PluginHooks};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time that a call has to notice its deadline by itself.
const PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of the context that a plugin adds to a prompt.
const MAX_CONTEXT_BYTES: usize = 16 * 1024;
/// Bytes of the instructions that a plugin adds for a summary.
const MAX_INSTRUCTIONS_BYTES: usize = 4 * 1024;

/// The occasion of a hook.
#[derive(Clone, Copy)]
struct Occasion<'a> {
    point: HookPoint,
    call_id: &'a str,
    session_id: &'a str,
    token: &'a CancellationToken,
}

/// The end of one call of a hook: the guest's answer, or the error that the user sees.
struct HookCallResult<A> {
    answer: Result<A, String>,
    ledger: Option<Ledger>,
}

impl PluginHooks for Runtime {
    fn wants(&self, point: HookPoint) -> bool {
        self.registry.current().wants(point)
    }

    fn before_call<'a>(
        &'a self,
        call: HookedCall<'a>,
        check: &'a ArgumentCheck<'a>,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, CheckedCall> {
        Box::pin(async move {
            let mut calls = Vec::new();
            let result = self.check_call(call, check, token, &mut calls).await;
            CheckedCall { result, calls }
        })
    }

    fn after_call<'a>(
        &'a self,
        call: HookedCall<'a>,
        outcome: CallOutcome,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, RevisedCall> {
        Box::pin(self.revise_call(call, outcome, token))
    }

    fn before_prompt<'a>(
        &'a self,
        session_id: &'a str,
        prompt: &'a str,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, CheckedPrompt> {
        Box::pin(async move {
            let mut calls = Vec::new();
            let on = Occasion { point: HookPoint::BeforePrompt, call_id: "prompt", session_id, token };
            let result = self.check_prompt(on, prompt, &mut calls).await;
            CheckedPrompt { result, calls }
        })
    }

    fn before_compaction<'a>(
        &'a self,
        session_id: &'a str,
        part: ReplacedPart<'a>,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, AddedInstructions> {
        let on = Occasion { point: HookPoint::BeforeCompaction, call_id: "compaction", session_id, token };
        Box::pin(self.instructions(on, part))
    }

    fn before_stop<'a>(&'a self, stop: StoppingRun<'a>, token: &'a CancellationToken) -> BoxFuture<'a, CheckedStop> {
        Box::pin(self.check_stop(stop, token))
    }

    fn session_start<'a>(
        &'a self,
        run: HookedRun<'a>,
        is_new: bool,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, StartedSession> {
        Box::pin(self.start_session(run, is_new, token))
    }

    fn after_reply<'a>(
        &'a self,
        run: HookedRun<'a>,
        texts: Vec<String>,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, RevisedReply> {
        Box::pin(self.revise_reply(run, texts, token))
    }

    fn observe(&self, event: String) {
        self.observers.push(&self.registry, &self.shared, event);
    }
}

impl Runtime {
    /// Calls the hooks at the end of sessions, and waits until the events of the session are delivered to the plugins that
    /// observe it, at most as long as a cancelled call has to return. Called when the session ends.
    pub async fn deliver_events(&self) {
        self.end_sessions().await;
        let current = self.registry.current();
        let graces = current.hooked(HookPoint::SessionEvents).map(|loaded| loaded.program().limits.grace_ms);
        if let Some(grace) = graces.max() {
            // Late events are dropped.
            let _ = tokio::time::timeout(Duration::from_millis(grace), self.observers.idle()).await;
        }
    }

    async fn check_call(
        &self,
        call: HookedCall<'_>,
        check: &ArgumentCheck<'_>,
        token: &CancellationToken,
        calls: &mut Vec<HookCall>,
    ) -> Result<AcceptedCall, String> {
        let HookedCall { call_id, session_id, .. } = call;
        let on = Occasion { point: HookPoint::BeforeToolCall, call_id, session_id, token };
        let mut accepted = AcceptedCall::default();
        for found in self.registry.current().hooked(on.point) {
            let plugin = found.program().name.to_string();
            let arguments = accepted.arguments.as_ref().unwrap_or(call.arguments);
            let job = |context| BeforeCall { context, call: guest_call(call, arguments) };
            let Some(HookCallResult { answer, ledger }) = self.ask(found, on, job).await else { continue };
            let mut record = |answer, text: &str| calls.push(on.record(&plugin, answer, text, ledger.clone()));
            let problem = match answer {
                Ok(Verdict::Proceed) => {
                    record(HookAnswer::Proceeded, "");
                    continue;
                }
                Ok(Verdict::Deny(text)) => {
                    let text = bounded(&text);
                    record(HookAnswer::Denied, &text);
                    return Err(format!("plugin `{plugin}` denies this call: {text}"));
                }
                Ok(Verdict::Ask(text)) => {
                    let text = bounded(&text);
                    record(HookAnswer::Asked, &text);
                    accepted.notes.push(HookNote::Asks { plugin, text });
                    continue;
                }
                Ok(Verdict::Rewrite(json)) => match rewritten(&json, check).await {
                    Ok(new) if new == *arguments => {
                        record(HookAnswer::Proceeded, "");
                        continue;
                    }
                    Ok(new) => {
                        record(HookAnswer::Rewrote, "");
                        accepted.notes.push(HookNote::Rewrote { plugin });
                        accepted.arguments = Some(new);
                        continue;
                    }
                    Err(problem) => bounded(&format!("it rewrote the arguments, which are invalid now: {problem}")),
                },
                Err(problem) => problem,
            };
            record(HookAnswer::Failed, &problem);
            let text = format!("plugin `{plugin}` could not check this call, so it is denied: {problem}");
            return Err(format!("{text}\n{}", disabling(&plugin)));
        }
        Ok(accepted)
    }

    async fn revise_call(&self, call: HookedCall<'_>, first: CallOutcome, token: &CancellationToken) -> RevisedCall {
        let HookedCall { call_id, session_id, tool, .. } = call;
        let on = Occasion { point: HookPoint::AfterToolCall, call_id, session_id, token };
        let (mut calls, mut current, mut is_revised) = (Vec::new(), first, false);
        for found in self.registry.current().hooked(on.point) {
            let plugin = found.program().name.to_string();
            let job = |context| AfterCall {
                context,
                call: guest_call(call, call.arguments),
                outcome: convert::guest_outcome(&current),
            };
            let Some(HookCallResult { answer, ledger }) = self.ask(found, on, job).await else { continue };
            let revised = answer.and_then(|answer| {
                let revised = answer.map(|answer| convert::outcome(&tool.name, answer)).transpose();
                revised.map_err(|message| bounded(&FaultKind::Contract { message }.for_plugin(&plugin).to_string()))
            });
            let (answer, text) = match revised {
                Ok(None) => (HookAnswer::Proceeded, String::new()),
                Ok(Some(revised)) => {
                    // A failed call stays failed, regardless of the hook's answer.
                    let failure = revised.failure.or(current.failure.map(|_| CallFailure::Reported));
                    current = CallOutcome { failure, ..revised };
                    is_revised = true;
                    (HookAnswer::Revised, String::new())
                }
                Err(problem) => (HookAnswer::Failed, problem),
            };
            calls.push(on.record(&plugin, answer, &text, ledger));
        }
        RevisedCall { outcome: is_revised.then_some(current), calls }
    }

    async fn check_prompt(
        &self,
        on: Occasion<'_>,
        prompt: &str,
        calls: &mut Vec<HookCall>,
    ) -> Result<Vec<String>, String> {
        let mut context = Vec::new();
        for found in self.registry.current().hooked(on.point) {
            let plugin = found.program().name.to_string();
            let job = |context| BeforePrompt { context, prompt: prompt.to_owned() };
            let Some(HookCallResult { answer, ledger }) = self.ask(found, on, job).await else { continue };
            let mut record = |answer, text: &str| calls.push(on.record(&plugin, answer, text, ledger.clone()));
            match answer {
                Ok(PromptVerdict::Proceed) => record(HookAnswer::Proceeded, ""),
                Ok(PromptVerdict::Warn(text)) => record(HookAnswer::Warned, &bounded(&text)),
                Ok(PromptVerdict::AddContext(text)) => {
                    record(HookAnswer::Added, "");
                    let title = format!("\n[Context from plugin `{plugin}`, not from the user]");
                    context.push(quoted(&title, &text, MAX_CONTEXT_BYTES));
                }
                Ok(PromptVerdict::Reject(text)) => {
                    let text = bounded(&text);
                    record(HookAnswer::Rejected, &text);
                    return Err(format!("plugin `{plugin}`: {text}"));
                }
                Err(problem) => {
                    record(HookAnswer::Failed, &problem);
                    let text = format!("plugin `{plugin}` could not check the prompt: {problem}");
                    return Err(format!("{text}\n{}", disabling(&plugin)));
                }
            }
        }
        Ok(context)
    }

    async fn instructions(&self, on: Occasion<'_>, part: ReplacedPart<'_>) -> AddedInstructions {
        let (mut texts, mut calls) = (Vec::new(), Vec::new());
        for found in self.registry.current().hooked(on.point) {
            let plugin = found.program().name.to_string();
            let compaction = Compaction {
                messages: convert::count(part.messages as u64),
                tokens: convert::count(part.tokens),
                instructions: part.instructions.map(str::to_owned),
            };
            let job = |context| BeforeCompaction { context, compaction };
            let Some(HookCallResult { answer, ledger }) = self.ask(found, on, job).await else { continue };
            let (answer, text) = match answer {
                Ok(None) => (HookAnswer::Proceeded, String::new()),
                Ok(Some(text)) => {
                    let title = format!("The plugin `{plugin}` adds:");
                    texts.push(quoted(&title, &text, MAX_INSTRUCTIONS_BYTES));
                    (HookAnswer::Added, String::new())
                }
                Err(problem) => (HookAnswer::Failed, problem),
            };
            calls.push(on.record(&plugin, answer, &text, ledger));
        }
        AddedInstructions { texts, calls }
    }

    /// Calls the hook of a plugin in its current generation. `None` if that has no such hook any more.
    async fn ask<J: InstanceJob>(
        &self,
        found: &Arc<Loaded>,
        on: Occasion<'_>,
        job: impl FnOnce(CallContext) -> J,
    ) -> Option<HookCallResult<J::Answer>> {
        let plugin = &found.program().name;
        let refreshed = self.registry.refreshed(found, on.token);
        let loaded = if found.generation.is_described() {
            refreshed.await
        } else {
            // Calls of all plugins wait for this one.
            let patience = Duration::from_millis(found.hook_program().limits.deadline_ms);
            tokio::time::timeout(patience, refreshed).await.unwrap_or_else(|_| Some(found.clone()))
        };
        let Some(loaded) = loaded else {
            // Gone with its file, or lost: then its answer is unknown.
            let problem = self.registry.problem(plugin)?;
            return Some(HookCallResult {
                answer: Err(bounded(&format!("it was not loaded: {problem}"))),
                ledger: None,
            });
        };
        if !loaded.generation.has_hook(on.point) {
            return None;
        }
        let program = loaded.hook_program();
        let context = CallContext {
            call_id: on.call_id.to_owned(),
            session_id: on.session_id.to_owned(),
            workspace: self.shared.workspace.to_string_lossy().into_owned(),
            deadline_ms: convert::count(program.limits.deadline_ms),
            extra: None,
        };
        let setup = Setup {
            services: None,
            session: on.session_id.into(),
            authority: program.authority.for_command(),
            token: on.token.clone(),
            progress: Arc::new(NoProgress),
            agents: None,
        };
        let limit_ms = program.limits.deadline_ms;
        let running = loaded.run_as(&self.shared, program, setup, job(context));
        let ended = tokio::time::timeout(Duration::from_millis(limit_ms) + PATIENCE, running).await;
        let FinishedJob { result, ledger } =
            ended.unwrap_or_else(|_| FinishedJob::fault(program, FaultKind::Deadline { limit_ms }));
        // Without its hint: raising a limit of tool calls would not help.
        let answer = result.map_err(|fault: PluginFault| bounded(&fault.to_string()));
        Some(HookCallResult { answer, ledger: Some(ledger) })
    }
}

impl Occasion<'_> {
    fn record(&self, plugin: &str, answer: HookAnswer, text: &str, ledger: Option<Ledger>) -> HookCall {
        HookCall { point: self.point, plugin: plugin.to_owned(), answer, text: text.to_owned(), ledger }
    }
}

/// A call, as the guest sees it.
fn guest_call(call: HookedCall<'_>, arguments: &Value) -> wit::ToolCall {
    wit::ToolCall {
        name: call.tool.name.clone(),
        plugin: call.tool.source.plugin.to_string(),
        input: arguments.to_string(),
        effects: convert::effects(call.tool.authority),
        agent_depth: call.depth,
    }
}

async fn rewritten(json: &str, check: &ArgumentCheck<'_>) -> Result<Value, String> {
    let arguments: Value = serde_json::from_str(json).map_err(|error| format!("they are not JSON: {error}"))?;
    check(arguments).await
}

/// The way out of a hook that fails all the time.
fn disabling(plugin: &str) -> String {
    format!("hint: the user can disable its hooks in the config: [plugins.{plugin}.grants] hooks = false")
}
