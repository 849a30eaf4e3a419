//! Tools that are functions of the application.

use crate::authority::Authority;
use crate::definition::{Execution, Instructions, ToolDefinition, ToolSource};
use crate::tool::{ToolError, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

type Function = dyn for<'a> Fn(FunctionCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> + Send + Sync;

/// A call of a function that [`FunctionTool::with_call`] wraps.
pub struct FunctionCall<'a> {
    /// The call: its ids, its token, and the sub-agents that it may start.
    pub invocation: ToolInvocation,
    /// Receives reports until the call ends.
    pub progress: &'a dyn ToolProgress,
}

/// A tool that runs an async function in this process.
#[derive(Clone)]
pub struct FunctionTool {
    definition: ToolDefinition,
    function: Arc<Function>,
}

impl FunctionTool {
    /// Creates a tool from an async function. `input_schema` is the JSON Schema of `A`, which must describe an object,
    /// because vendors accept nothing else; a call is validated against it before the function runs. An error of the
    /// function is the text that the model gets.
    ///
    /// Nothing confines the function, so it counts as able to do everything and needs approval, until
    /// [`FunctionTool::authority`] limits it.
    pub fn new<A, F, R, E>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        function: impl Fn(A) -> F + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned,
        F: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<ToolOutput>,
        E: fmt::Display,
    {
        let definition = definition(name.into(), description.into(), input_schema);
        Self { definition, function: boxed(move |call| run(&function, call.invocation)) }
    }

    /// Creates a tool from an async function that uses its call: to report progress, to start sub-agents, or to end with
    /// the error of a sub-agent. Once the token of the call is cancelled, the function is dropped.
    pub fn with_call<A: DeserializeOwned + Send>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        function: impl for<'a> Fn(A, FunctionCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let definition = definition(name.into(), description.into(), input_schema);
        let function = boxed(move |mut call| {
            let (tool, token) = (call.invocation.tool.name.clone(), call.invocation.token.clone());
            let running = serde_json::from_value(call.invocation.arguments.take()).map(|given| function(given, call));
            until_cancelled(tool, token, running)
        });
        Self { definition, function }
    }

    /// Declares the most that the function can do.
    #[must_use]
    pub fn authority(mut self, authority: Authority) -> Self {
        self.definition.authority = authority;
        self
    }
}

/// Shares a function. Its type tells the compiler that a result may borrow from the call.
fn boxed<F>(function: F) -> Arc<Function>
where
    F: for<'a> Fn(FunctionCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> + Send + Sync + 'static,
{
    Arc::new(function)
}

/// Returns the definition of a function that counts as one that can do everything.
fn definition(name: String, description: String, input_schema: Value) -> ToolDefinition {
    ToolDefinition {
        label: name.clone(),
        name,
        description,
        input_schema,
        guidelines: Vec::new(),
        authority: Authority::ALL,
        execution: Execution::Parallel,
        source: ToolSource::default(),
    }
}

/// Runs a function with the arguments of a call.
fn run<A, F, R, E>(
    function: &impl Fn(A) -> F,
    call: ToolInvocation,
) -> BoxFuture<'static, Result<ToolOutput, ToolError>>
where
    A: DeserializeOwned,
    F: Future<Output = Result<R, E>> + Send + 'static,
    R: Into<ToolOutput>,
    E: fmt::Display,
{
    let tool = call.tool.name.clone();
    let failed = move |error: E| ToolError::Failed { tool, message: error.to_string(), retryable: false };
    let running = serde_json::from_value(call.arguments).map(function);
    let running = running.map(|running| async { running.await.map(Into::into).map_err(failed) });
    until_cancelled(call.tool.name.clone(), call.token, running)
}

/// Waits for a function that was started, unless its arguments have the wrong form.
fn until_cancelled<'a>(
    tool: String,
    token: CancellationToken,
    running: serde_json::Result<impl Future<Output = Result<ToolOutput, ToolError>> + Send + 'a>,
) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
    Box::pin(async move {
        let running = match running {
            Ok(running) => running,
            Err(error) => return Err(ToolError::InvalidArguments { tool, message: error.to_string() }),
        };
        token.run_until_cancelled(running).await.unwrap_or(Err(ToolError::Cancelled { tool }))
    })
}

/// An executor of function tools.
#[derive(Clone, Default)]
pub struct FunctionTools(Vec<(Arc<ToolDefinition>, Arc<Function>)>);

impl FunctionTools {
    /// Offers these tools. Names must be unique: of several tools with one name, the first is called.
    pub fn new(tools: impl IntoIterator<Item = FunctionTool>) -> Self {
        Self(tools.into_iter().map(|tool| (Arc::new(tool.definition), tool.function)).collect())
    }
}

impl ToolExecutor for FunctionTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.0.iter().map(|(definition, _)| definition.clone()).collect()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let Some((_, function)) = self.0.iter().find(|(tool, _)| tool.name == call.tool.name) else {
            return unknown(&call);
        };
        let running = function(FunctionCall { invocation: call, progress });
        Box::pin(async { running.await.into() })
    }
}

/// Several executors as one. Of tools with the same name, the one of the first executor is offered and called.
#[derive(Clone, Default)]
pub struct JoinedTools(Vec<Arc<dyn ToolExecutor>>);

impl JoinedTools {
    /// Joins executors, whose tools are offered in this order.
    pub fn new(executors: impl IntoIterator<Item = Arc<dyn ToolExecutor>>) -> Self {
        Self(executors.into_iter().collect())
    }
}

impl ToolExecutor for JoinedTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        first_of_each_name(self.0.iter().flat_map(|executor| executor.definitions()))
    }

    fn offered(&self) -> Vec<Arc<ToolDefinition>> {
        first_of_each_name(self.0.iter().flat_map(|executor| executor.offered()))
    }

    fn withheld(&self, tool: &str) -> Option<String> {
        self.0.iter().find_map(|executor| executor.withheld(tool))
    }

    fn instructions(&self) -> Vec<Instructions> {
        self.0.iter().flat_map(|executor| executor.instructions()).collect()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let offers =
            |executor: &&Arc<dyn ToolExecutor>| executor.definitions().iter().any(|tool| tool.name == call.tool.name);
        match self.0.iter().find(offers) {
            Some(executor) => executor.call(call, progress),
            None => unknown(&call),
        }
    }
}

fn first_of_each_name(tools: impl Iterator<Item = Arc<ToolDefinition>>) -> Vec<Arc<ToolDefinition>> {
    let mut names = HashSet::new();
    tools.filter(|tool| names.insert(tool.name.clone())).collect()
}

/// An executor without tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

impl ToolExecutor for NoTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        Vec::new()
    }

    fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        unknown(&call)
    }
}

fn unknown<'a>(call: &ToolInvocation) -> BoxFuture<'a, ToolReply> {
    let tool = call.tool.name.clone();
    Box::pin(async { Err(ToolError::UnknownTool { tool, suggestions: Vec::new() }).into() })
}
