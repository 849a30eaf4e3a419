//! Calls of a plugin's hooks, and their answers.

use crate::error::TestError;
use crate::running::Running;
use pinion_agent::ToolDefinition;
use pinion_agent::hook::{
    ArgumentCheck, CallFailure, CallOutcome, HookAnswer, HookCall, HookNote, HookPoint, HookedCall, PluginHooks as _,
    ReplacedPart,
};
use pinion_agent::schema::Schemas;
use pinion_agent::tool::ToolOutput;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The answer of a hook.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Hooked {
    /// It changes nothing.
    Proceeds,
    /// It denies the call; the model reads the reason.
    Denies(String),
    /// It makes the user decide on the call, for this reason.
    Asks(String),
    /// It replaces the arguments of the call, which are valid.
    Rewrites(Value),
    /// It replaces the output of the call. The output of a failed call is still marked as a failure.
    Revises(ToolOutput),
    /// It warns the user.
    Warns(String),
    /// It rejects the prompt; the user reads the reason.
    Rejects(String),
    /// It adds this to the prompt or to the instructions for a summary, marked as the plugin's.
    Adds(String),
    /// It trapped, ran out of time, or broke the contract. A call or prompt that it should have checked is denied.
    Fails(String),
}

impl Running {
    /// Passes a call to the hook `before-tool-call`. The tool is one of the plugin or one that the test scripts with
    /// [`Plugin::tool`](crate::Plugin::tool); the hook also sees its effects.
    ///
    /// # Errors
    /// The hook is not called, there is no such tool, or the arguments do not match its schema.
    pub async fn before_tool_call(&self, tool: &str, arguments: Value) -> Result<Hooked, TestError> {
        self.has_hook(HookPoint::BeforeToolCall)?;
        let (tool, arguments) = self.hooked_call(tool, &arguments).await?;
        let check: &ArgumentCheck<'_> = &|arguments| {
            let tool = tool.clone();
            Box::pin(async move { Schemas::default().check(&tool, &arguments).await.map(|valid| valid.into_owned()) })
        };
        let checked = self.runtime.before_call(self.call_of(&tool, &arguments), check, &CancellationToken::new()).await;
        let accepted = match checked.result {
            Ok(accepted) => accepted,
            Err(reason) => return Ok(refused(&checked.calls, reason, Hooked::Denies)),
        };
        let asks = accepted.notes.into_iter().find_map(|note| match note {
            HookNote::Asks { text, .. } => Some(Hooked::Asks(text)),
            HookNote::Rewrote { .. } | HookNote::Application { .. } => None,
        });
        Ok(asks.or_else(|| accepted.arguments.map(Hooked::Rewrites)).unwrap_or(Hooked::Proceeds))
    }

    /// Passes a call with its output to the hook `after-tool-call`. An output with `is_error` comes from a failed call.
    ///
    /// # Errors
    /// As for [`Running::before_tool_call`].
    pub async fn after_tool_call(&self, tool: &str, arguments: Value, output: ToolOutput) -> Result<Hooked, TestError> {
        self.has_hook(HookPoint::AfterToolCall)?;
        let (tool, arguments) = self.hooked_call(tool, &arguments).await?;
        let failure = output.is_error.then_some(CallFailure::Reported);
        let ToolOutput { content, details, display, .. } = output;
        let outcome = CallOutcome { content, details, display, failure };
        let call = self.call_of(&tool, &arguments);
        let revised = self.runtime.after_call(call, outcome, &CancellationToken::new()).await;
        if let Some(failed) = failed(&revised.calls) {
            return Ok(failed);
        }
        Ok(revised.outcome.map_or(Hooked::Proceeds, |outcome| {
            let CallOutcome { content, details, display, failure } = outcome;
            Hooked::Revises(ToolOutput { content, details, display, is_error: failure.is_some() })
        }))
    }

    /// Passes a prompt to the hook `before-prompt`.
    ///
    /// # Errors
    /// The hook is not called.
    pub async fn before_prompt(&self, prompt: &str) -> Result<Hooked, TestError> {
        self.has_hook(HookPoint::BeforePrompt)?;
        let session = self.conversation.session.id();
        let checked = self.runtime.before_prompt(session, prompt, &CancellationToken::new()).await;
        Ok(match checked.result {
            Err(reason) => refused(&checked.calls, reason, Hooked::Rejects),
            Ok(context) => match checked.calls.into_iter().find(|call| call.answer == HookAnswer::Warned) {
                Some(warned) => Hooked::Warns(warned.text),
                None => context.into_iter().next().map_or(Hooked::Proceeds, Hooked::Adds),
            },
        })
    }

    /// Passes a part of a conversation to the hook `before-compaction`: the number of its messages, the estimated tokens of
    /// the conversation, and the user's instructions for the summary.
    ///
    /// # Errors
    /// The hook is not called.
    pub async fn before_compaction(
        &self,
        messages: usize,
        tokens: u64,
        instructions: Option<&str>,
    ) -> Result<Hooked, TestError> {
        self.has_hook(HookPoint::BeforeCompaction)?;
        let part = ReplacedPart { messages, tokens, instructions };
        let session = self.conversation.session.id();
        let added = self.runtime.before_compaction(session, part, &CancellationToken::new()).await;
        let failed = failed(&added.calls);
        Ok(failed.or_else(|| added.texts.into_iter().next().map(Hooked::Adds)).unwrap_or(Hooked::Proceeds))
    }

    /// Passes events to the hook `session-events` and waits until they are delivered. They have the form of the lines of
    /// `--output-format stream-json`.
    ///
    /// # Errors
    /// The hook is not called.
    pub async fn session_events(&self, events: &[Value]) -> Result<(), TestError> {
        self.has_hook(HookPoint::SessionEvents)?;
        events.iter().for_each(|event| self.runtime.observe(event.to_string()));
        self.runtime.deliver_events().await;
        Ok(())
    }

    /// Returns whether a hook is called, or the reason why not.
    fn has_hook(&self, point: HookPoint) -> Result<(), TestError> {
        if self.runtime.wants(point) {
            return Ok(());
        }
        let why = self.info.hooks.iter().find(|hook| hook.point == point).map(|hook| hook.not_called);
        let why = why.map_or("the plugin does not export it", |why| why.unwrap_or("it is not loaded"));
        let error = TestError::new(format!("the hook `{point}` is not called: {why}"));
        let is_granted = self.granted.spell_asks().iter().any(|word| word.starts_with("hooks"));
        Err(if is_granted { error } else { error.hint(self.how_to_grant(&["hooks".to_owned()])) })
    }

    /// Finds the tool of a call, of the plugin or scripted, and validates the arguments.
    async fn hooked_call(&self, tool: &str, arguments: &Value) -> Result<(Arc<ToolDefinition>, Value), TestError> {
        let scripted = self.conversation.scripted(tool);
        let found = scripted.or_else(|| self.definitions().into_iter().find(|definition| definition.name == tool));
        let Some(found) = found else {
            return Err(TestError::new(format!("there is no tool `{tool}`"))
                .hint(format!("script it: .tool({tool:?}, Authority::default(), |_| Ok(ToolOutput::text(\"\")))")));
        };
        let arguments = self.valid(&found, arguments).await?;
        Ok((found, arguments))
    }

    fn call_of<'a>(&'a self, tool: &'a ToolDefinition, arguments: &'a Value) -> HookedCall<'a> {
        let session_id = self.conversation.session.id();
        HookedCall { call_id: "call", session_id, tool, arguments, depth: 0 }
    }
}

/// Returns the failure of the hook, if it failed.
fn failed(calls: &[HookCall]) -> Option<Hooked> {
    let failed = calls.iter().find(|call| call.answer == HookAnswer::Failed)?;
    Some(Hooked::Fails(failed.text.clone()))
}

/// Tells a hook that refuses from one that failed.
fn refused(calls: &[HookCall], reason: String, refusal: impl Fn(String) -> Hooked) -> Hooked {
    failed(calls).unwrap_or_else(|| refusal(reason))
}
