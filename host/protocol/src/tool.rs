//! The port that runs tools.

pub use crate::output::{Display, Ledger, ToolError, ToolOutput};

use crate::authority::Authority;
use crate::content::Content;
use crate::definition::{Instructions, ToolDefinition};
use crate::delegation::SubAgents;
use crate::services::Services;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Name of the tool that a model calls to give a structured answer; see `Agent::answer` in `pinion-orchestration`.
pub const ANSWER_TOOL: &str = "final_answer";

/// Runs tools. The set of tools may change at any time, also in the middle of a turn.
pub trait ToolExecutor: Send + Sync {
    /// Returns the current tools in the order that the model gets them. Names are unique.
    fn definitions(&self) -> Vec<Arc<ToolDefinition>>;

    /// Returns the tools that requests name, in the same order; a call of one that is not among the current tools is refused.
    fn offered(&self) -> Vec<Arc<ToolDefinition>> {
        self.definitions()
    }

    /// Returns the instructions that plugins add to the system prompt, at most one entry for each plugin, in a stable
    /// order. The prompt includes an entry while a tool of its plugin is offered.
    fn instructions(&self) -> Vec<Instructions> {
        Vec::new()
    }

    /// Returns why a tool that exists is not among the current tools, for a call that names it; `None` if there is no such
    /// tool, or no reason to give.
    fn withheld(&self, _tool: &str) -> Option<String> {
        None
    }

    /// Runs one call to its end. Once `call.token` is cancelled, the call ends promptly, with [`ToolError::Cancelled`]
    /// or a partial result. Dropping the future ends the call immediately.
    ///
    /// The executor must run the version of the tool that `call.tool` describes, because that version was approved. If
    /// another version has replaced it, the call ends with [`ToolError::Changed`] before any code of the tool runs.
    ///
    /// The executor may use `progress` until the call ends; later reports are dropped.
    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply>;
}

/// One call to run. The arguments match the tool's schema.
#[derive(Debug, Clone)]
pub struct ToolInvocation {
    /// Id of the call, unique in the session.
    pub call_id: String,
    /// Id of the session.
    pub session_id: Arc<str>,
    /// Id of the run that made the call.
    pub run_id: Arc<str>,
    /// Definition of the tool when the arguments were checked and the call was approved.
    pub tool: Arc<ToolDefinition>,
    /// The arguments.
    pub arguments: Value,
    /// Upper bound on the call's authority, in addition to the authority of `tool`. The executor enforces both.
    pub at_most: Authority,
    /// Starts sub-agents for the call; `None` if the call must not start any.
    pub agents: Option<SubAgents>,
    /// Lets the call use its conversation; `None` outside conversations.
    pub services: Option<Services>,
    /// Cancelled when the result is no longer needed.
    pub token: CancellationToken,
}

impl ToolInvocation {
    /// Creates a call outside of conversations: without a session, and with all the authority that the tool declares.
    pub fn alone(tool: Arc<ToolDefinition>, arguments: Value) -> Self {
        Self {
            call_id: "call".to_owned(),
            session_id: "".into(),
            run_id: "none".into(),
            tool,
            arguments,
            at_most: Authority::ALL,
            agents: None,
            services: None,
            token: CancellationToken::new(),
        }
    }

    /// Returns the tool's name.
    pub fn name(&self) -> &str {
        &self.tool.name
    }
}

/// Receives progress of a running call. Called from any thread; must not block.
pub trait ToolProgress: Send + Sync {
    /// Reports a short line for the user.
    fn report(&self, message: String);
    /// Reports the result so far, which replaces earlier partial results.
    fn update(&self, partial: Vec<Content>);
    /// Passes on a line that the call logged. The default drops it, because the log of the host has it as well.
    fn log(&self, _level: LogLevel, _line: String) {}
}

/// Severity of a line of a log, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// For the author of the code.
    Debug,
    /// Worth knowing.
    Info,
    /// A likely mistake, or something that was left out.
    Warn,
    /// A failure.
    Error,
}

/// The result of a call, and the resources it used.
#[derive(Debug)]
pub struct ToolReply {
    /// The output, or the reason it is missing.
    pub result: Result<ToolOutput, ToolError>,
    /// Resources used, if the executor measures them.
    pub ledger: Option<Ledger>,
}

impl From<Result<ToolOutput, ToolError>> for ToolReply {
    fn from(result: Result<ToolOutput, ToolError>) -> Self {
        Self { result, ledger: None }
    }
}
