//! The port through which the runner runs agents, plugins and commands.

use crate::case::{CaseLimits, FunctionExpectation};
use crate::evaluators::{CommandOutcome, RepeatedCalls};
use crate::trajectory::Trajectory;
use futures_util::future::BoxFuture;
use pinion_protocol::Usage;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// The outcome of work of an engine; the error is a text for people.
pub type EngineFuture<'a, T> = BoxFuture<'a, Result<T, String>>;

/// Gets the running totals of an agent: its tokens, and its cost in US dollars if all prices are known.
pub type SpendReport<'a> = &'a (dyn Fn(Usage, Option<f64>) + Send + Sync);

/// Runs agents and commands for the runner. Once `stop` is cancelled, all work ends soon.
pub trait TrialEngine: Send + Sync {
    /// Runs an agent on the prompts of a task, and calls `spent` with the running totals. Once `stop` is cancelled, it
    /// returns the work so far.
    ///
    /// # Errors
    /// The agent could not be run.
    fn run<'a>(
        &'a self,
        task: AgentTask<'a>,
        spent: SpendReport<'a>,
        stop: &'a CancellationToken,
    ) -> EngineFuture<'a, Trajectory>;

    /// Calls a tool of a plugin, and returns the text of its result.
    ///
    /// # Errors
    /// The call failed.
    fn call<'a>(&'a self, call: ScoringCall<'a>, stop: &'a CancellationToken) -> EngineFuture<'a, String>;

    /// Repeats the calls in the journal of a session.
    ///
    /// # Errors
    /// The session has no such calls, or they could not be repeated.
    fn repeat<'a>(&'a self, replay: JournalReplay<'a>, stop: &'a CancellationToken) -> EngineFuture<'a, RepeatedCalls>;

    /// Runs a command of a shell, confined like a program of the agent.
    fn check<'a>(&'a self, command: WorkspaceCommand<'a>, stop: &'a CancellationToken)
    -> BoxFuture<'a, CommandOutcome>;
}

/// A task for an agent.
#[derive(Debug, Clone)]
pub struct AgentTask<'a> {
    /// The directory to work in.
    pub workspace: &'a Path,
    /// A directory for the session and other files of the trial, outside the workspace.
    pub scratch: &'a Path,
    /// Prompts of one conversation.
    pub prompts: Vec<&'a str>,
    /// A plan in the workspace to execute, in place of prompts.
    pub execute: Option<&'a str>,
    /// Variables in the environment of the agent.
    pub environment: Option<&'a BTreeMap<String, String>>,
    /// The model; `None` for the default model of the config.
    pub model: Option<&'a str>,
    /// Recordings or scripts that replace the model, one for each prompt, or none.
    pub replay: Vec<PathBuf>,
    /// Replacement for the built-in system prompt.
    pub system_prompt: Option<&'a str>,
    /// Calls that need approval: a mode of `--approve`.
    pub approve: Option<&'a str>,
    /// The only tools that are offered.
    pub tools: Option<&'a [String]>,
    /// Limits of each run.
    pub limits: CaseLimits,
}

/// A call of a plugin's tool that scores a trial.
#[derive(Debug, Clone)]
pub struct ScoringCall<'a> {
    /// The directory that the plugin works in.
    pub workspace: &'a Path,
    /// The tool, with a file of a plugin that is not relative.
    pub function: &'a FunctionExpectation,
    /// All arguments of the tool.
    pub arguments: Value,
}

/// A session whose recorded calls are repeated.
#[derive(Debug, Clone, Copy)]
pub struct JournalReplay<'a> {
    /// The directory to run in, whose trusted plugins are used.
    pub directory: &'a Path,
    /// The file of the session.
    pub session: &'a Path,
    /// The component that repeats the calls of the plugin with its name; without one, all calls run on the recorded
    /// components.
    pub component: Option<&'a Path>,
}

/// A command of a shell.
#[derive(Debug, Clone, Copy)]
pub struct WorkspaceCommand<'a> {
    /// The directory to run in.
    pub workspace: &'a Path,
    /// The text for the shell.
    pub command: &'a str,
}
