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
mod round;
pub(crate) mod run_hooks;
mod words;

use self::jobs::{AfterCall, BeforeCall, BeforeCompaction, BeforePrompt};
use self::round::{HookRound, Occasion};
use self::words::{bounded, quoted};
use crate::bindings::exports::pinion::plugin::before_compaction::Compaction;
use crate::bindings::exports::pinion::plugin::before_prompt::PromptVerdict;
use crate::bindings::exports::pinion::plugin::before_tool_call::Verdict;
use crate::bindings::pinion::plugin::types as wit;
use crate::convert;
use crate::runtime::Runtime;
use futures_util::future::BoxFuture;
use pinion_plugin_limits::FaultKind;
use pinion_protocol::hook::{
    AcceptedCall, AddedInstructions, ArgumentCheck, CallFailure, CallOutcome, CheckedCall, CheckedPrompt, CheckedStop,
    HookedCall, HookedRun, ReplacedPart, RevisedCall, RevisedReply, StartedSession, StoppingRun,
};
use pinion_protocol::{HookAnswer, HookNote, HookPoint, PluginHooks};
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Bytes of the context that a plugin adds to a prompt.
const MAX_CONTEXT_BYTES: usize = 16 * 1024;
/// Bytes of the instructions that a plugin adds for a summary.
const MAX_INSTRUCTIONS_BYTES: usize = 4 * 1024;

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
            let HookedCall { call_id, session_id, .. } = call;
            let on = Occasion { point: HookPoint::BeforeToolCall, call_id, session_id, token };
            let mut round = HookRound::new(self, on);
            let result = check_call(&mut round, call, check).await;
            CheckedCall { result, calls: round.calls }
        })
    }

    fn after_call<'a>(
        &'a self,
        call: HookedCall<'a>,
        outcome: CallOutcome,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, RevisedCall> {
        let HookedCall { call_id, session_id, .. } = call;
        let on = Occasion { point: HookPoint::AfterToolCall, call_id, session_id, token };
        Box::pin(revise_call(HookRound::new(self, on), call, outcome))
    }

    fn before_prompt<'a>(
        &'a self,
        session_id: &'a str,
        prompt: &'a str,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, CheckedPrompt> {
        Box::pin(async move {
            let on = Occasion { point: HookPoint::BeforePrompt, call_id: "prompt", session_id, token };
            let mut round = HookRound::new(self, on);
            let result = check_prompt(&mut round, prompt).await;
            CheckedPrompt { result, calls: round.calls }
        })
    }

    fn before_compaction<'a>(
        &'a self,
        session_id: &'a str,
        part: ReplacedPart<'a>,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, AddedInstructions> {
        let on = Occasion { point: HookPoint::BeforeCompaction, call_id: "compaction", session_id, token };
        Box::pin(added_instructions(HookRound::new(self, on), part))
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
}

async fn check_call(
    round: &mut HookRound<'_>,
    call: HookedCall<'_>,
    check: &ArgumentCheck<'_>,
) -> Result<AcceptedCall, String> {
    let mut accepted = AcceptedCall::default();
    loop {
        let arguments = accepted.arguments.as_ref().unwrap_or(call.arguments);
        let job = |context| BeforeCall { context, call: guest_call(call, arguments) };
        let Some((plugin, answer)) = round.ask_next(job).await else { return Ok(accepted) };
        let problem = match answer {
            Ok(Verdict::Proceed) => {
                round.record(HookAnswer::Proceeded, "");
                continue;
            }
            Ok(Verdict::Deny(text)) => {
                let text = bounded(&text);
                round.record(HookAnswer::Denied, &text);
                return Err(format!("plugin `{plugin}` denies this call: {text}"));
            }
            Ok(Verdict::Ask(text)) => {
                let text = bounded(&text);
                round.record(HookAnswer::Asked, &text);
                accepted.notes.push(HookNote::Asks { plugin, text });
                continue;
            }
            Ok(Verdict::Rewrite(json)) => match rewritten(&json, check).await {
                Ok(new) if new == *arguments => {
                    round.record(HookAnswer::Proceeded, "");
                    continue;
                }
                Ok(new) => {
                    round.record(HookAnswer::Rewrote, "");
                    accepted.notes.push(HookNote::Rewrote { plugin });
                    accepted.arguments = Some(new);
                    continue;
                }
                Err(problem) => bounded(&format!("it rewrote the arguments, which are invalid now: {problem}")),
            },
            Err(problem) => problem,
        };
        round.record(HookAnswer::Failed, &problem);
        let text = format!("plugin `{plugin}` could not check this call, so it is denied: {problem}");
        return Err(format!("{text}\n{}", disabling(&plugin)));
    }
}

async fn revise_call(mut round: HookRound<'_>, call: HookedCall<'_>, first: CallOutcome) -> RevisedCall {
    let (mut current, mut is_revised) = (first, false);
    loop {
        let job = |context| AfterCall {
            context,
            call: guest_call(call, call.arguments),
            outcome: convert::guest_outcome(&current),
        };
        let Some((plugin, answer)) = round.ask_next(job).await else { break };
        let revised = answer.and_then(|answer| {
            let revised = answer.map(|answer| convert::outcome(&call.tool.name, answer)).transpose();
            revised.map_err(|message| bounded(&FaultKind::Contract { message }.for_plugin(&plugin).to_string()))
        });
        match revised {
            Ok(None) => round.record(HookAnswer::Proceeded, ""),
            Ok(Some(revised)) => {
                // A failed call stays failed, regardless of the hook's answer.
                let failure = revised.failure.or(current.failure.map(|_| CallFailure::Reported));
                current = CallOutcome { failure, ..revised };
                is_revised = true;
                round.record(HookAnswer::Revised, "");
            }
            Err(problem) => round.record(HookAnswer::Failed, &problem),
        }
    }
    RevisedCall { outcome: is_revised.then_some(current), calls: round.calls }
}

async fn check_prompt(round: &mut HookRound<'_>, prompt: &str) -> Result<Vec<String>, String> {
    let mut context = Vec::new();
    let job = |context| BeforePrompt { context, prompt: prompt.to_owned() };
    while let Some((plugin, answer)) = round.ask_next(job).await {
        match answer {
            Ok(PromptVerdict::Proceed) => round.record(HookAnswer::Proceeded, ""),
            Ok(PromptVerdict::Warn(text)) => round.record(HookAnswer::Warned, &bounded(&text)),
            Ok(PromptVerdict::AddContext(text)) => {
                round.record(HookAnswer::Added, "");
                let title = format!("\n[Context from plugin `{plugin}`, not from the user]");
                context.push(quoted(&title, &text, MAX_CONTEXT_BYTES));
            }
            Ok(PromptVerdict::Reject(text)) => {
                let text = bounded(&text);
                round.record(HookAnswer::Rejected, &text);
                return Err(format!("plugin `{plugin}`: {text}"));
            }
            Err(problem) => {
                round.record(HookAnswer::Failed, &problem);
                let text = format!("plugin `{plugin}` could not check the prompt: {problem}");
                return Err(format!("{text}\n{}", disabling(&plugin)));
            }
        }
    }
    Ok(context)
}

async fn added_instructions(mut round: HookRound<'_>, part: ReplacedPart<'_>) -> AddedInstructions {
    let mut texts = Vec::new();
    let job = |context| BeforeCompaction {
        context,
        compaction: Compaction {
            messages: convert::count(part.messages as u64),
            tokens: convert::count(part.tokens),
            instructions: part.instructions.map(str::to_owned),
        },
    };
    while let Some((plugin, answer)) = round.ask_next(job).await {
        match answer {
            Ok(None) => round.record(HookAnswer::Proceeded, ""),
            Ok(Some(text)) => {
                let title = format!("The plugin `{plugin}` adds:");
                texts.push(quoted(&title, &text, MAX_INSTRUCTIONS_BYTES));
                round.record(HookAnswer::Added, "");
            }
            Err(problem) => round.record(HookAnswer::Failed, &problem),
        }
    }
    AddedInstructions { texts, calls: round.calls }
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
