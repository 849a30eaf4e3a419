//! The MCP servers as the plugin runtime sees them.

use crate::mcp::sampling::RunningCalls;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_mcp::{CallContext, RequestProgress, Servers};
use pinion_plugin_runtime::{McpCall, McpFailure, McpRequest, McpServer, McpServers};
use std::sync::Arc;
use tokio::sync::watch;

/// Passes requests of plugins on to the servers.
pub(super) struct Adapter {
    pub(super) servers: Arc<Servers>,
    /// Calls during which servers may ask the model.
    pub(super) calls: RunningCalls,
}

impl McpServers for Adapter {
    fn servers(&self) -> Vec<McpServer> {
        self.servers.list()
    }

    fn fingerprint(&self) -> String {
        self.servers.fingerprint()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.servers.changed()
    }

    fn request<'a>(
        &'a self,
        server: &'a str,
        request: McpRequest,
        call: McpCall,
    ) -> BoxFuture<'a, Result<String, McpFailure>> {
        Box::pin(async move {
            let McpCall { cancel, deadline, progress, services, only_connected, .. } = call;
            let _running = services.map(|services| self.calls.begin(server, services));
            let on_progress = move |step: RequestProgress| {
                if let Some(line) = step.line() {
                    progress.report(line);
                }
            };
            let on_progress = Some(Arc::new(on_progress) as _);
            let context = CallContext { cancel, deadline, on_progress, only_connected };
            self.servers.request(server, request, context).await
        })
    }
}
