//! What the loop asks of whoever runs tools, and what comes back.

use crate::authority::Authority;
use crate::content::Content;
use crate::definition::ToolDefinition;
use crate::delegation::SubAgents;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The tool by which a model gives an answer as JSON, see `Agent::answer` in `pinion-orchestration`.
pub const ANSWER_TOOL: &str = "final_answer";

/// Runs tools. The set of tools may change at any time, also in the middle of a turn.
pub trait ToolExecutor: Send + Sync {
    /// The tools as they are now, in the order in which the model is told of them. Names are unique.
    fn definitions(&self) -> Vec<Arc<ToolDefinition>>;

    /// Runs one call to its end. When `call.token` is cancelled it ends soon, with [`ToolError::Cancelled`] or with what
    /// it has. Dropping the future ends the call at once.
    ///
    /// What runs must be the version of the tool that `call.tool` describes, because that was approved. Where another one
    /// has taken its place, the call ends with [`ToolError::Changed`] before any code of the tool runs.
    ///
    /// `progress` may be used until the call ends; what comes later is dropped.
    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply>;
}

/// One call to be run. The arguments fit the tool's schema.
#[derive(Debug, Clone)]
pub struct ToolInvocation {
    /// The id of the call, unique in the session.
    pub call_id: String,
    /// The session that it belongs to.
    pub session_id: Arc<str>,
    /// The loop that it belongs to.
    pub loop_id: Arc<str>,
    /// The tool as it was when the arguments were checked and the call was approved.
    pub tool: Arc<ToolDefinition>,
    /// The arguments.
    pub arguments: Value,
    /// What the caller may pass on at most, besides what `tool` can do. The executor holds the call to both.
    pub at_most: Authority,
    /// The way to sub-agents of the loop; none where the call may have none.
    pub agents: Option<SubAgents>,
    /// Cancelled when the call is no longer wanted.
    pub token: CancellationToken,
}

impl ToolInvocation {
    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.tool.name
    }
}

/// Hears of a running call. Called from any thread; must not block.
pub trait ToolProgress: Send + Sync {
    /// A short line for the user.
    fn report(&self, message: String);
    /// The result so far; replaces what was said before.
    fn update(&self, partial: Vec<Content>);
}

/// How a call ended, and what it used.
#[derive(Debug)]
pub struct ToolReply {
    /// How it ended.
    pub result: Result<ToolOutput, ToolError>,
    /// What it used, where the executor keeps account.
    pub ledger: Option<Ledger>,
}

impl From<Result<ToolOutput, ToolError>> for ToolReply {
    fn from(result: Result<ToolOutput, ToolError>) -> Self {
        Self { result, ledger: None }
    }
}

/// What a tool gives back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// What the model gets: text and images.
    pub content: Vec<Content>,
    /// JSON for the log and the UI, never for the model.
    pub details: Option<Value>,
    /// How a person should see the text.
    pub display: Display,
}

impl ToolOutput {
    /// A result of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// How a person should see a text result. The model always gets plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "language", rename_all = "snake_case")]
pub enum Display {
    /// As it is.
    #[default]
    Plain,
    /// Markdown.
    Markdown,
    /// A unified diff.
    Diff,
    /// Source code in this language, named as in a fenced code block.
    Code(String),
}

/// Why a call gave no result, grouped by who can mend it. Every variant names the tool.
///
/// Each of them becomes the call's result, so that the model can go on: see [`ToolError::for_model`].
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model: there is no such tool.
    #[error("no tool `{tool}`")]
    UnknownTool {
        /// The name that the model asked for.
        tool: String,
        /// The nearest names that there are.
        suggestions: Vec<String>,
    },
    /// The model: the arguments do not fit the schema, or the tool cannot make sense of them.
    #[error("`{tool}`: invalid arguments: {message}")]
    InvalidArguments {
        /// The tool.
        tool: String,
        /// What is wrong, and where.
        message: String,
    },
    /// The model: the tool tried and failed.
    #[error("`{tool}`: {message}")]
    Failed {
        /// The tool.
        tool: String,
        /// What the tool says.
        message: String,
        /// Would the same call succeed later?
        retryable: bool,
    },
    /// The user: refused, or never granted.
    #[error("`{tool}`: denied: {reason}")]
    Denied {
        /// The tool.
        tool: String,
        /// Why, and what would mend it.
        reason: String,
    },
    /// The plugin's author or the host: the plugin trapped, ran into a limit, or broke the contract.
    #[error("`{tool}`: {source:#}")]
    Fault {
        /// The tool.
        tool: String,
        /// What happened; names the plugin, and the limit where it was one.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The model: it makes the same call with the same result again and again.
    #[error("`{tool}`: called {times} times in a row with the same result")]
    Repeated {
        /// The tool.
        tool: String,
        /// How often.
        times: u32,
    },
    /// Nobody: the tool was replaced after the call was approved, and nothing of it ran. The loop decides again.
    #[error("`{tool}` was replaced after the call was approved")]
    Changed {
        /// The tool.
        tool: String,
    },
    /// Nobody: the call was no longer wanted.
    #[error("`{tool}`: cancelled")]
    Cancelled {
        /// The tool.
        tool: String,
    },
}

impl ToolError {
    /// The text that the model gets as the call's result.
    pub fn for_model(&self) -> String {
        match self {
            Self::UnknownTool { tool, suggestions } if suggestions.is_empty() => format!("There is no tool `{tool}`."),
            Self::UnknownTool { tool, suggestions } => {
                format!("There is no tool `{tool}`. Did you mean `{}`?", suggestions.join("` or `"))
            }
            Self::InvalidArguments { message, .. } => format!("Invalid arguments: {message}"),
            Self::Failed { message, retryable: false, .. } => message.clone(),
            Self::Failed { message, retryable: true, .. } => format!("{message}\n(The same call may succeed later.)"),
            Self::Denied { reason, .. } => format!("Denied: {reason}"),
            Self::Fault { source, .. } => format!("The tool broke down: {source:#}"),
            Self::Repeated { times, .. } => format!(
                "This call was made {times} times in a row with the same result, and was not made again. Do something \
                 else: change the arguments, take another way, or tell the user what is in the way."
            ),
            Self::Changed { tool } => {
                format!("`{tool}` was replaced again and again while this call was decided on, so it was not called.")
            }
            Self::Cancelled { .. } => "The call was cancelled before it ended.".to_owned(),
        }
    }
}

/// What one call used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The plugin's name.
    pub plugin: String,
    /// Which of its generations ran.
    pub generation: u32,
    /// Instructions, as wasmtime counts fuel.
    pub fuel: u64,
    /// Microseconds from the call's start to its result.
    pub time_us: u64,
    /// The most linear memory that the instance had, in bytes.
    pub memory: u64,
    /// Calls from the plugin to the host, those of WASI included.
    pub host_calls: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files opened, walked over or searched.
    pub files: u64,
    /// Programs run.
    pub processes: u64,
    /// Sub-agents started.
    #[serde(default)]
    pub agents: u64,
    /// Bytes of the result.
    pub output: u64,
    /// The counts of further capabilities, by the singular noun of what is counted, such as `request`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
}
