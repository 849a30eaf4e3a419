//! Some of the tools that are loaded: `--tools` and `--no-tools`.

use futures_util::future::BoxFuture;
use pinion_agent::{ToolDefinition, ToolError, ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use std::collections::HashSet;
use std::sync::Arc;

/// Offers only tools of some names.
pub(crate) struct Selection {
    inner: Arc<dyn ToolExecutor>,
    names: HashSet<String>,
}

impl Selection {
    pub(crate) fn of(inner: Arc<dyn ToolExecutor>, names: &[String]) -> Self {
        Self { inner, names: names.iter().cloned().collect() }
    }

    pub(crate) fn none(inner: Arc<dyn ToolExecutor>) -> Self {
        Self { inner, names: HashSet::new() }
    }
}

impl ToolExecutor for Selection {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.inner.definitions().into_iter().filter(|tool| self.names.contains(&tool.name)).collect()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        if self.names.contains(&call.name) {
            return self.inner.call(call, progress);
        }
        Box::pin(async { Err(ToolError::UnknownTool { tool: call.name, suggestions: Vec::new() }).into() })
    }
}
