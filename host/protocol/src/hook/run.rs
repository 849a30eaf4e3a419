//! Hooks for runs and sessions: their arguments and answers.

use super::HookCall;

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
