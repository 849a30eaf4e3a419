//! The port to the hooks of plugins, and their answers.
//!
//! A hook of a plugin is foreign code that the loop calls at a fixed point. It can only restrict: there is no answer
//! that allows a call. The implementation bounds every text and validates every result; the loop decides the
//! consequences.

pub(crate) mod call;

pub use self::call::{HookAnswer, HookCall, HookNote, HookPoint};

use crate::content::Content;
use crate::definition::ToolDefinition;
use crate::tool::{Display, ToolError, ToolOutput};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A tool call, as hooks see it.
#[derive(Debug, Clone, Copy)]
pub struct HookedCall<'a> {
    /// Id of the call.
    pub call_id: &'a str,
    /// Id of the session.
    pub session_id: &'a str,
    /// The tool.
    pub tool: &'a ToolDefinition,
    /// Arguments that match the tool's schema, without secrets.
    pub arguments: &'a Value,
    /// Nesting of the run that makes the call: 0 for the agent, 1 for its sub-agents, and so on.
    pub depth: u32,
}

/// Validates replacement arguments of a call: returns them in the form that the tool gets, or the problem with them.
pub type ArgumentCheck<'a> = dyn Fn(Value) -> BoxFuture<'a, Result<Value, String>> + Send + Sync + 'a;

/// The answer of all hooks before a call.
#[derive(Debug)]
pub struct CheckedCall {
    /// The decision; the reason of a denial is for the model.
    pub result: Result<AcceptedCall, String>,
    /// The calls of hooks that led to it.
    pub calls: Vec<HookCall>,
}

/// A call that no hook denied. It still needs approval.
#[derive(Debug, Default, PartialEq)]
pub struct AcceptedCall {
    /// Valid arguments that replace the call's arguments.
    pub arguments: Option<Value>,
    /// Notes for the question to the user.
    pub notes: Vec<HookNote>,
}

/// The kind of a call's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// The tool reported a failure with content.
    Reported,
    /// The arguments are invalid.
    InvalidInput,
    /// The call was denied.
    Denied,
    /// The call was cancelled.
    Cancelled,
    /// Any other failure.
    Failed {
        /// True if the same call may succeed later.
        retryable: bool,
    },
}

impl CallFailure {
    /// Returns the failure of a call that failed.
    pub fn from_result(result: &Result<ToolOutput, ToolError>) -> Option<Self> {
        match result {
            Ok(output) => output.is_error.then_some(Self::Reported),
            Err(ToolError::InvalidArguments { .. }) => Some(Self::InvalidInput),
            Err(ToolError::Denied { .. }) => Some(Self::Denied),
            Err(ToolError::Cancelled { .. }) => Some(Self::Cancelled),
            Err(ToolError::Failed { retryable, .. }) => Some(Self::Failed { retryable: *retryable }),
            Err(_) => Some(Self::Failed { retryable: false }),
        }
    }
}

/// The outcome of a call, as hooks see and replace it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutcome {
    /// Text and images for the model.
    pub content: Vec<Content>,
    /// JSON for the log and the UI.
    pub details: Option<Value>,
    /// Display format of the text.
    pub display: Display,
    /// The failure, if the call failed.
    pub failure: Option<CallFailure>,
}

impl CallOutcome {
    /// Returns the outcome that replaces one that not all hooks have seen, because the run was aborted.
    pub fn withheld() -> Self {
        let text = "The run was aborted before the plugins that revise results had seen this one: it is withheld.";
        let content = vec![Content::text(text)];
        Self { content, details: None, display: Display::Plain, failure: Some(CallFailure::Cancelled) }
    }
}

/// The answer of all hooks after a call.
#[derive(Debug)]
pub struct RevisedCall {
    /// The outcome that replaces the call's outcome. The replacement for a failed call is also a failure.
    pub outcome: Option<CallOutcome>,
    /// The calls of hooks that led to it.
    pub calls: Vec<HookCall>,
}

/// The answer of all hooks before a prompt.
#[derive(Debug)]
pub struct CheckedPrompt {
    /// Texts to send after the prompt, each marked with its plugin; or the reason why the prompt is rejected.
    pub result: Result<Vec<String>, String>,
    /// The calls of hooks that led to it.
    pub calls: Vec<HookCall>,
}

/// A part of a conversation that a summary is about to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplacedPart<'a> {
    /// Number of messages that the summary replaces.
    pub messages: usize,
    /// Estimated tokens of the conversation before.
    pub tokens: u64,
    /// Instructions of the user for the summary.
    pub instructions: Option<&'a str>,
}

/// The answer of all hooks before a compaction.
#[derive(Debug)]
pub struct AddedInstructions {
    /// Instructions for the summary, each marked with its plugin.
    pub texts: Vec<String>,
    /// The calls of hooks that led to it.
    pub calls: Vec<HookCall>,
}

/// Calls the hooks of plugins. The loop calls a method only if [`PluginHooks::wants`] says so. Every method ends soon after
/// `token` is cancelled, and within seconds for each hook otherwise.
pub trait PluginHooks: Send + Sync {
    /// Returns whether a plugin has a hook at this point now. Cheap: called for every tool call and every event.
    fn wants(&self, point: HookPoint) -> bool;

    /// Checks a call before it is approved. `check` validates replacement arguments before anything else sees them.
    fn before_call<'a>(
        &'a self,
        call: HookedCall<'a>,
        check: &'a ArgumentCheck<'a>,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, CheckedCall>;

    /// Revises the outcome of a call that ran.
    fn after_call<'a>(
        &'a self,
        call: HookedCall<'a>,
        outcome: CallOutcome,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, RevisedCall>;

    /// Checks a prompt before it is sent.
    fn before_prompt<'a>(
        &'a self,
        session_id: &'a str,
        prompt: &'a str,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, CheckedPrompt>;

    /// Returns instructions for a summary.
    fn before_compaction<'a>(
        &'a self,
        session_id: &'a str,
        part: ReplacedPart<'a>,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, AddedInstructions>;

    /// Asks before a run stops whether it continues. The default lets it stop.
    fn before_stop<'a>(&'a self, _stop: StoppingRun<'a>, _token: &'a CancellationToken) -> BoxFuture<'a, CheckedStop> {
        Box::pin(async { CheckedStop::default() })
    }

    /// Announces a prompt of a session to the hooks at its start, which are called for the first prompt alone. The default
    /// calls nothing.
    fn session_start<'a>(
        &'a self,
        _run: HookedRun<'a>,
        _is_new: bool,
        _token: &'a CancellationToken,
    ) -> BoxFuture<'a, StartedSession> {
        Box::pin(async { StartedSession::default() })
    }

    /// Revises the texts of a reply, which have no secrets. The default leaves them as they are.
    fn after_reply<'a>(
        &'a self,
        _run: HookedRun<'a>,
        _texts: Vec<String>,
        _token: &'a CancellationToken,
    ) -> BoxFuture<'a, RevisedReply> {
        Box::pin(async { RevisedReply::default() })
    }

    /// Takes an event, as JSON, for delivery in the background. Does not block.
    fn observe(&self, event: String);
}

/// A run, as hooks see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookedRun<'a> {
    /// Id of the session.
    pub session_id: &'a str,
    /// Id of the run.
    pub run_id: &'a str,
    /// Nesting of the run: 0 for the agent, 1 for its sub-agents, and so on.
    pub depth: u32,
}

/// A run that is about to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppingRun<'a> {
    /// The run.
    pub run: HookedRun<'a>,
    /// Text of the last reply, without secrets.
    pub reply: &'a str,
    /// Turns of the run.
    pub turns: u32,
    /// Times that hooks made the run continue.
    pub continuations: u32,
}

/// The answer of all hooks before a run stops.
#[derive(Debug, Default)]
pub struct CheckedStop {
    /// Texts for the model, each marked with its plugin; the run stops without any.
    pub reasons: Vec<String>,
    /// The calls of hooks that led to it.
    pub calls: Vec<HookCall>,
}

/// The answer of all hooks at the start of a session.
#[derive(Debug, Default)]
pub struct StartedSession {
    /// Texts to send with the first prompt, each marked with its plugin.
    pub context: Vec<String>,
    /// The calls of hooks that led to it.
    pub calls: Vec<HookCall>,
}

/// The answer of all hooks after a reply.
#[derive(Debug, Default)]
pub struct RevisedReply {
    /// As many texts as the reply has, which replace them.
    pub texts: Option<Vec<String>>,
    /// The calls of hooks that led to it.
    pub calls: Vec<HookCall>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_keeps_what_hooks_need_to_know() {
        let failed = ToolError::Failed { tool: "t".into(), message: "m".into(), retryable: true };
        assert_eq!(CallFailure::from_result(&Err(failed)), Some(CallFailure::Failed { retryable: true }));
        let reported = ToolOutput { is_error: true, ..ToolOutput::text("exit code 1") };
        assert_eq!(CallFailure::from_result(&Ok(reported)), Some(CallFailure::Reported));
        assert_eq!(CallFailure::from_result(&Ok(ToolOutput::text("fine"))), None);
    }
}
