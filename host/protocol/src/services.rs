//! The port that a running call uses to access its conversation.

use crate::content::Content;
use crate::definition::ToolDefinition;
use crate::delegation::Ceiling;
use crate::dialog::{Dialog, DialogAnswer, DialogError, DialogForm, Severity};
use crate::drawing::{DrawingBlock, DrawnPart};
use crate::outcome::Limit;
use crate::output::{ToolError, ToolOutput};
use crate::spend_meter::SpendMeter;
use crate::store::SessionStore;
use crate::usage::Usage;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Maximum nesting depth of calls that other calls make.
pub const MAX_CALL_DEPTH: u32 = 4;

/// A call of another tool.
pub struct NestedCall {
    /// Name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// The plugin that calls; it does not get its own tools.
    pub plugin: String,
    /// Upper bound on the tools that can be called.
    pub ceiling: Ceiling,
}

/// A request of a plugin to a model, without tools.
#[derive(Debug, Clone)]
pub struct CompletionTask {
    /// The system prompt.
    pub system: String,
    /// The contents of the messages: of the user first and last, in between alternately of the model and of the user.
    pub turns: Vec<Vec<Content>>,
    /// Name of the model; `None` for the run's model.
    pub model: Option<String>,
    /// Output limit in tokens.
    pub max_tokens: u64,
    /// JSON Schema of an object that the answer has to match; `None` for text.
    pub schema: Option<Value>,
    /// Sums that its spend counts against, besides the run's.
    pub meters: Vec<Arc<dyn SpendMeter>>,
}

/// The answer to a [`CompletionTask`].
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionAnswer {
    /// The text, or JSON that matches the schema.
    pub text: String,
    /// Name of the model that answered.
    pub model: String,
    /// Tokens of all requests.
    pub usage: Usage,
}

/// The reason a [`CompletionTask`] has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompletionError {
    /// The request is invalid.
    #[error("{message}")]
    Invalid {
        /// The problem.
        message: String,
    },
    /// A limit of the run is reached.
    #[error("the run has reached its limit: {limit}")]
    Limit {
        /// The limit.
        limit: Limit,
    },
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The model did not answer.
    #[error("{message}")]
    Failed {
        /// The cause.
        message: String,
        /// Tokens that were used nevertheless.
        usage: Usage,
    },
}

impl CompletionError {
    /// Returns the tokens that were used without an answer.
    pub fn used(&self) -> u64 {
        match self {
            Self::Failed { usage, .. } => usage.total(),
            Self::Invalid { .. } | Self::Limit { .. } | Self::Cancelled => 0,
        }
    }
}

/// One of several questions that a call asks at once.
#[derive(Debug, Clone)]
pub enum BatchQuestion {
    /// A form.
    Form(DialogForm),
    /// A request to a model.
    Completion(CompletionTask),
    /// The user's working directories.
    Directories,
}

/// The answer to a [`BatchQuestion`], of its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchAnswer {
    /// The values of the form, which have to match its schema.
    Form(Result<Value, DialogError>),
    /// The answer of the model.
    Completion(Result<CompletionAnswer, CompletionError>),
    /// The directories.
    Directories(Result<Vec<Directory>, DialogError>),
}

/// A directory of the user, which need not be one of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Its URI.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

/// Handle that a tool call or a slash command uses to access its conversation. Cheap to clone.
#[derive(Clone)]
pub struct Services(Arc<dyn CallServices>);

impl Services {
    /// Wraps an implementation.
    pub fn new(services: impl CallServices + 'static) -> Self {
        Self(Arc::new(services))
    }
}

impl Deref for Services {
    type Target = dyn CallServices;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

/// Serves one call: the port behind [`Services`].
pub trait CallServices: Send + Sync {
    /// Asks the user, unless the user wants no dialogs of this plugin in this session. Questions of a session are asked one at
    /// a time, those about calls included. Dropping the future closes the dialog.
    fn ask(&self, dialog: Dialog) -> BoxFuture<'_, Result<DialogAnswer, DialogError>>;

    /// Asks the user for all values of a form at once, which have to match its schema. `None` where forms are not
    /// shown, so that each value is asked for by itself.
    fn fill(&self, form: DialogForm) -> BoxFuture<'_, Option<Result<Value, DialogError>>> {
        let _ = form;
        Box::pin(async { None })
    }

    /// Asks several questions at once, each under a separate name, and returns their answers in the same order. `None`
    /// where they are asked one after another.
    fn ask_all(&self, questions: Vec<(String, BatchQuestion)>) -> BoxFuture<'_, Option<Vec<BatchAnswer>>> {
        let _ = questions;
        Box::pin(async { None })
    }

    /// Shows a line of a plugin to the user; dropped beyond 60 of a plugin in a minute.
    fn notify(&self, plugin: &str, severity: Severity, text: &str);

    /// Shows a segment of a plugin in the status line, or removes it.
    fn status(&self, plugin: &str, text: Option<&str>);

    /// Draws a part of the running call. Returns false without a running call, as in slash commands.
    fn draw(&self, plugin: &str, part: DrawnPart, blocks: Vec<DrawingBlock>) -> BoxFuture<'_, bool>;

    /// Returns how deep calls that this call makes may be nested; 0 if it may make no calls.
    fn call_depth_left(&self) -> u32 {
        0
    }

    /// Returns the tools that the plugin's call can call within a ceiling.
    fn callable(&self, plugin: &str, ceiling: Ceiling) -> Vec<Arc<ToolDefinition>> {
        let _ = (plugin, ceiling);
        Vec::new()
    }

    /// Calls another tool as the model does: with the same approval, hooks, bounds and events. Dropping the future cancels
    /// the call; the call that made it still waits for it to end.
    fn call(&self, call: NestedCall) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let error = ToolError::Denied { tool: call.tool, reason: "no tools can be called here".to_owned() };
        Box::pin(async { Err(error) })
    }

    /// Asks a model within the limits of the run, which its usage counts against. Dropping the future cancels the request; the
    /// call that made it still waits for it to end.
    fn complete(&self, task: CompletionTask) -> BoxFuture<'_, Result<CompletionAnswer, CompletionError>> {
        let _ = task;
        let message = "no model can be asked here".to_owned();
        Box::pin(async { Err(CompletionError::Invalid { message }) })
    }

    /// Returns the session of the call.
    fn session(&self) -> Arc<dyn SessionStore>;

    /// Removes secrets from a text.
    fn clean(&self, text: &str) -> String;

    /// Sleeps for `time`, not counting the time during which a person is asked something in this session.
    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()>;
}
