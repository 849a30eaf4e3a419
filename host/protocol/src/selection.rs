//! Restricts an executor to some of its tools and to an authority: for `--tools`, plans, sub-agents and branches.

use crate::authority::Authority;
use crate::definition::{Instructions, ToolDefinition};
use crate::tool::{ToolError, ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Restricts an executor to the tools that match a predicate and stay within an authority. The authority of each call is
/// limited too, so that a tool that is replaced after it was offered gains nothing.
pub struct Selection {
    inner: Arc<dyn ToolExecutor>,
    at_most: Authority,
    /// A plugin whose tools are all left out.
    excluded: Option<String>,
    predicate: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// The reason why other tools of the executor cannot be called.
    reason: Option<&'static str>,
}

impl Selection {
    /// Selects all tools that stay within this authority.
    pub fn new(inner: Arc<dyn ToolExecutor>, at_most: Authority) -> Self {
        Self { inner, at_most, excluded: None, predicate: Box::new(|_| true), reason: None }
    }

    /// Selects only tools whose names match, in place of an earlier predicate.
    #[must_use]
    pub fn with_predicate(self, predicate: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { predicate: Box::new(predicate), ..self }
    }

    /// Selects only tools of other plugins.
    #[must_use]
    pub fn without_plugin(self, plugin: &str) -> Self {
        Self { excluded: Some(plugin.to_owned()), ..self }
    }

    /// Refuses calls of the executor's other tools for this reason, instead of as calls of unknown tools.
    #[must_use]
    pub fn with_reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    fn selects(&self, tool: &ToolDefinition) -> bool {
        tool.authority.is_within(self.at_most)
            && self.excluded.as_ref().is_none_or(|plugin| **plugin != *tool.source.plugin)
            && (self.predicate)(&tool.name)
    }

    /// Returns the names of the current tools.
    pub fn names(&self) -> Vec<String> {
        self.definitions().iter().map(|tool| tool.name.clone()).collect()
    }
}

impl ToolExecutor for Selection {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        let mut definitions = self.inner.definitions();
        definitions.retain(|tool| self.selects(tool));
        definitions
    }

    fn instructions(&self) -> Vec<Instructions> {
        self.inner.instructions()
    }

    fn withheld(&self, tool: &str) -> Option<String> {
        let is_left_out = || self.inner.definitions().iter().any(|other| other.name == tool && !self.selects(other));
        let own = self.reason.filter(|_| is_left_out()).map(str::to_owned);
        own.or_else(|| self.inner.withheld(tool))
    }

    fn call<'a>(&'a self, mut call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        if !self.selects(&call.tool) {
            let tool = call.tool.name.clone();
            return Box::pin(async { Err(ToolError::UnknownTool { tool, suggestions: Vec::new() }).into() });
        }
        call.at_most = call.at_most.cut_to(self.at_most);
        call.agents = call.agents.filter(|_| self.at_most.delegates);
        self.inner.call(call, progress)
    }
}
