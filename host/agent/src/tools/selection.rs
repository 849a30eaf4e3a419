//! Some of an executor's tools, with no more authority than said: for `--tools`, plans, sub-agents and branches.

use futures_util::future::BoxFuture;
use pinion_protocol::authority::Authority;
use pinion_protocol::definition::ToolDefinition;
use pinion_protocol::tool::{ToolError, ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use std::sync::Arc;

/// Offers only tools that some people like and that can do no more than is allowed. What a call may do is cut to that as
/// well, so that a tool that is replaced between two glances gains nothing.
pub struct Selection {
    inner: Arc<dyn ToolExecutor>,
    at_most: Authority,
    likes: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Selection {
    /// All tools that can do no more than that.
    pub fn new(inner: Arc<dyn ToolExecutor>, at_most: Authority) -> Self {
        Self { inner, at_most, likes: Box::new(|_| true) }
    }

    /// Only those whose names are liked.
    #[must_use]
    pub fn of(self, likes: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { likes: Box::new(likes), ..self }
    }

    /// The names of the tools, as they are now.
    pub fn names(&self) -> Vec<String> {
        self.definitions().iter().map(|tool| tool.name.clone()).collect()
    }
}

impl ToolExecutor for Selection {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        let mut definitions = self.inner.definitions();
        definitions.retain(|tool| tool.authority.is_within(self.at_most) && (self.likes)(&tool.name));
        definitions
    }

    fn call<'a>(&'a self, mut call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        if !(self.likes)(call.name()) || !call.tool.authority.is_within(self.at_most) {
            let tool = call.tool.name.clone();
            return Box::pin(async { Err(ToolError::UnknownTool { tool, suggestions: Vec::new() }).into() });
        }
        call.at_most = call.at_most.cut_to(self.at_most);
        call.agents = call.agents.filter(|_| self.at_most.delegates);
        self.inner.call(call, progress)
    }
}
