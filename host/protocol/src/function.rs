//! Tools that are functions of the application.

use crate::authority::Authority;
use crate::definition::{Execution, ToolDefinition, ToolSource};
use crate::tool::{ToolError, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

type Function = dyn Fn(ToolInvocation) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

/// A tool that runs an async function in this process.
#[derive(Clone)]
pub struct FunctionTool {
    definition: ToolDefinition,
    function: Arc<Function>,
}

impl FunctionTool {
    /// Creates a tool from an async function. `input_schema` is the JSON Schema of `A`; a call is validated against it
    /// before the function runs. An error of the function is the text that the model gets.
    ///
    /// Nothing confines the function, so it counts as one that can do everything and needs approval, until
    /// [`FunctionTool::authority`] says what it can do.
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
        let name = name.into();
        let definition = ToolDefinition {
            label: name.clone(),
            name,
            description: description.into(),
            input_schema,
            guidelines: Vec::new(),
            authority: Authority::ALL,
            execution: Execution::Parallel,
            source: ToolSource::default(),
        };
        let function = Arc::new(move |call: ToolInvocation| run(&function, call));
        Self { definition, function }
    }

    /// Declares the most that the function can do.
    #[must_use]
    pub fn authority(mut self, authority: Authority) -> Self {
        self.definition.authority = authority;
        self
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
    let started = serde_json::from_value(call.arguments).map(function);
    Box::pin(async move {
        let running = match started {
            Ok(running) => running,
            Err(error) => return Err(ToolError::InvalidArguments { tool, message: error.to_string() }),
        };
        match call.token.run_until_cancelled(running).await {
            None => Err(ToolError::Cancelled { tool }),
            Some(Ok(output)) => Ok(output.into()),
            Some(Err(error)) => Err(ToolError::Failed { tool, message: error.to_string(), retryable: false }),
        }
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

    fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let Some((_, function)) = self.0.iter().find(|(tool, _)| tool.name == call.tool.name) else {
            return unknown(&call);
        };
        let running = function(call);
        Box::pin(async { running.await.into() })
    }
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
