//! One request to the model and its reply, with retries.

use crate::config::LoopConfig;
use crate::context::Context;
use crate::extension::hooks::HookChain;
use assemble::{Assembly, EventEffect};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use pinion_interaction::channel::EventWatchers;
use pinion_protocol::definition::{Instructions, ToolDefinition};
use pinion_protocol::event::{EventKind, Role};
use pinion_protocol::history::without_repeated;
use pinion_protocol::message::{AssistantMessage, StopReason};
use pinion_protocol::outcome::{RunError, RunErrorKind};
use pinion_protocol::provider::{ProviderError, Request, ToolChoice};
use pinion_protocol::usage::Spend;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

mod assemble;

/// Error text for a reply that the vendor ended with an error but no message.
const REFUSED: &str = "the vendor ended the reply without a reason; it may have been refused or filtered";

/// Maximum retries of replies that broke off after they had begun; each retry costs money.
const MAX_CUT_OFF_RETRIES: u32 = 3;

/// Everything one model request needs.
pub(crate) struct ModelTurn<'a> {
    pub(crate) context: &'a Context,
    pub(crate) config: &'a LoopConfig,
    pub(crate) events: &'a EventWatchers,
    pub(crate) token: &'a CancellationToken,
    /// The spend of all attempts so far, also of the discarded ones.
    pub(crate) spend: Spend,
}

impl ModelTurn<'_> {
    /// Requests a reply, with retries. A failure also returns a message, which has the stop reason
    /// [`StopReason::Error`] or [`StopReason::Aborted`] and the partial content, along with the error.
    ///
    /// The tools are offered even if `tool_choice` forbids calls, because some vendors reject a history with calls otherwise.
    pub(crate) async fn reply(&mut self, tool_choice: ToolChoice) -> (AssistantMessage, Option<RunError>) {
        let (mut attempt, mut cut_off) = (0, 0);
        loop {
            let mut assembly = Assembly::default();
            let Err(error) = self.attempt(&tool_choice, &mut assembly).await else {
                let stop_reason = assembly.stop_reason.unwrap_or(StopReason::Stop);
                let refused = (stop_reason == StopReason::Error).then(|| RunError::new(RunErrorKind::Refused, REFUSED));
                let text = refused.as_ref().map(RunError::to_string);
                return (self.message(assembly, stop_reason, text), refused);
            };
            attempt += 1;
            cut_off += u32::from(assembly.has_content());
            if self.token.is_cancelled() {
                return (self.message(assembly, StopReason::Aborted, None), None);
            }
            let delay = self.config.ports.retry.delay(&error, attempt);
            let Some(delay) = delay.filter(|_| cut_off <= MAX_CUT_OFF_RETRIES) else {
                let failure = RunError::new((&error).into(), final_text(&error, &self.config.policy.model.name));
                return (self.message(assembly, StopReason::Error, Some(failure.to_string())), Some(failure));
            };
            self.message(assembly, StopReason::Error, None);
            let most = self.config.ports.retry.max_attempts();
            let most = if cut_off == 0 { most } else { most.min(attempt + MAX_CUT_OFF_RETRIES - cut_off) };
            self.announce((attempt, most), delay, &error).await;
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.token.cancelled() => {
                    return (self.message(Assembly::default(), StopReason::Aborted, None), None);
                }
            }
        }
    }

    /// Builds one request. Hooks are asked each time, because a key may expire while a retry waits.
    async fn request(&self, tool_choice: &ToolChoice) -> Result<Request, ProviderError> {
        let hooks = HookChain::new(&self.config.ports.hooks, self.token);
        let messages = without_repeated(&self.context.messages);
        let messages = hooks.messages(&messages, self.context.is_too_long).await.ok_or(ProviderError::Cancelled)?;
        let mut options = self.config.policy.options.clone();
        options.api_key = hooks.api_key().await.or(options.api_key);
        let tools = self.config.ports.tools.offered();
        Ok(Request {
            model: self.config.policy.model.name.clone(),
            system: with_guidelines(&self.context.system_prompt, &tools, &self.config.ports.tools.instructions()),
            messages,
            tools,
            tool_choice: tool_choice.clone(),
            options,
        })
    }

    /// Makes one attempt and reads the reply to its end.
    async fn attempt(&self, tool_choice: &ToolChoice, assembly: &mut Assembly) -> Result<(), ProviderError> {
        let request = self.request(tool_choice).await?;
        // A separate token, so that an early return cancels the provider's remaining work.
        let token = self.token.child_token();
        let _ended = token.clone().drop_guard();
        let mut stream = self.config.ports.provider.stream(request, token);
        self.emit(EventKind::MessageStart { role: Role::Assistant }).await;
        loop {
            let event = tokio::select! {
                biased;
                () = self.token.cancelled() => return Err(ProviderError::Cancelled),
                event = stream.next() => event,
            };
            let Some(event) = event else {
                return match assembly.stop_reason {
                    Some(_) => Ok(()),
                    None => Err(ProviderError::Network { message: "the reply broke off".to_owned() }),
                };
            };
            if let EventEffect::Grew(index, delta) = assembly.apply_event(event?)? {
                self.emit(EventKind::MessageUpdate { index, delta }).await;
            }
        }
    }

    async fn announce(&self, (attempt, max_attempts): (u32, u32), delay: Duration, error: &ProviderError) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(attempt, max_attempts, delay_ms, %error, "request to the model failed, retrying");
        let retry = EventKind::Retry { attempt, max_attempts, delay_ms, cause: error.to_string() };
        self.config.report(self.events, &self.context.run_id, retry).await;
    }

    /// Builds the message of an attempt, and adds its spend.
    fn message(&mut self, assembly: Assembly, stop_reason: StopReason, error: Option<String>) -> AssistantMessage {
        let (usage, requested) = (assembly.usage, &self.config.policy.model.name);
        let model = assembly.model.clone().unwrap_or_else(|| requested.clone());
        let cost = self.config.policy.model.prices.as_ref().and_then(|prices| prices.cost(&model, &usage));
        self.spend.add(Spend { usage, cost });
        AssistantMessage {
            content: assembly.content(),
            stop_reason,
            provider: self.config.ports.provider.name().to_owned(),
            requested_model: (model != *requested).then(|| requested.clone()),
            model,
            usage,
            cost,
            error,
            timestamp: Timestamp::now(),
        }
    }

    async fn emit(&self, kind: EventKind) {
        self.config.report(self.events, &self.context.run_id, kind).await;
    }
}

/// Returns the text of an error that is not retried. The text of an overflow names the model whose context window is
/// too small.
fn final_text(error: &ProviderError, model: &str) -> String {
    match error {
        ProviderError::ContextOverflow { message } => format!("context window of `{model}` exceeded: {message}"),
        _ => error.to_string(),
    }
}

/// Returns the system prompt, followed by the guidelines of the offered tools and the instructions of their plugins. The
/// text is deterministic, so that vendors can cache it.
fn with_guidelines(base: &Arc<str>, tools: &[Arc<ToolDefinition>], instructions: &[Instructions]) -> Arc<str> {
    let of_offered = |entry: &&Instructions| tools.iter().any(|tool| tool.source.plugin == entry.plugin);
    let mut instructions = instructions.iter().filter(of_offered).peekable();
    if tools.iter().all(|tool| tool.guidelines.is_empty()) && instructions.peek().is_none() {
        return base.clone();
    }
    let mut prompt = base.to_string();
    prompt.push_str("\n\n# Tools\n");
    for (tool, guideline) in tools.iter().flat_map(|tool| tool.guidelines.iter().map(move |line| (tool, line))) {
        // Writing to a string never fails.
        let _ = write!(prompt, "\n- `{}`: {guideline}", tool.name);
    }
    for entry in instructions {
        let line_end = if prompt.ends_with('\n') { "" } else { "\n" };
        let _ = write!(prompt, "{line_end}\nThe plugin `{}` says about its tools:\n", entry.plugin);
        // Quoted line by line, so that no plugin can begin a new section.
        for line in entry.text.lines() {
            let _ = write!(prompt, "\n> {line}");
        }
    }
    prompt.into()
}
