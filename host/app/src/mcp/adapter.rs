//! The MCP servers as the plugin runtime sees them.

use crate::mcp::sampling::RunningCalls;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_mcp::{CallContext, McpError, Progress, Request, ServerInfo, ServerState, Servers, TaskHandle};
use pinion_plugin_runtime::{
    McpCall, McpFailure, McpPrompt, McpRequest, McpServer, McpServers, McpState, McpTask, McpTool,
};
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
        self.servers.list().into_iter().map(server).collect()
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
            let on_progress = move |step: Progress| {
                if let Some(line) = step.line() {
                    progress.report(line);
                }
            };
            let on_progress = Some(Arc::new(on_progress) as _);
            let context = CallContext { cancel, deadline, on_progress, only_connected };
            self.servers.request(server, converted(request), context).await.map_err(failure)
        })
    }
}

fn server(info: ServerInfo) -> McpServer {
    let tool =
        |tool: pinion_mcp::ToolInfo| McpTool { name: tool.name, definition: tool.definition, is_enabled: tool.enabled };
    let prompt = |prompt: pinion_mcp::PromptInfo| McpPrompt { name: prompt.name, definition: prompt.definition };
    McpServer {
        name: info.name,
        identity: info.identity,
        state: match info.state {
            ServerState::Disabled => McpState::Disabled,
            ServerState::Idle => McpState::Idle,
            ServerState::Starting => McpState::Starting,
            ServerState::Ready => McpState::Ready,
            ServerState::Failed => McpState::Failed,
            ServerState::LoginRequired => McpState::LoginRequired,
        },
        problem: info.problem,
        instructions: info.instructions,
        protocol: info.protocol,
        tools: info.tools.into_iter().map(tool).collect(),
        prompts: info.prompts.into_iter().map(prompt).collect(),
        tasks: info.tasks.into_iter().map(task).collect(),
        has_resources: info.has_resources,
        is_known: info.is_known,
    }
}

fn task(task: TaskHandle) -> McpTask {
    let TaskHandle { id, tool, created } = task;
    McpTask { id, tool, created }
}

fn converted(request: McpRequest) -> Request {
    match request {
        McpRequest::Connect => Request::Connect,
        McpRequest::CallTool { name, arguments } => Request::CallTool { name, arguments },
        McpRequest::FollowTask { id } => Request::FollowTask { id },
        McpRequest::CancelTask { id } => Request::CancelTask { id },
        McpRequest::GetPrompt { name, arguments } => Request::GetPrompt { name, arguments },
        McpRequest::ListResources { cursor } => Request::ListResources { cursor },
        McpRequest::ListResourceTemplates { cursor } => Request::ListResourceTemplates { cursor },
        McpRequest::ReadResource { uri } => Request::ReadResource { uri },
        McpRequest::Complete { reference, argument } => Request::Complete { reference, argument },
    }
}

fn failure(error: McpError) -> McpFailure {
    let text = error.to_string();
    match error {
        McpError::NotFound(server) => McpFailure::NotFound(server),
        McpError::Disabled { .. } => McpFailure::Disabled(text),
        McpError::LoginRequired { server } => McpFailure::LoginRequired { server },
        McpError::TimedOut { message, request_sent } => McpFailure::TimedOut { message, request_sent },
        McpError::Cancelled { request_sent } => McpFailure::Cancelled { request_sent },
        McpError::Server { code, message, data, .. } => McpFailure::Server { code, message, data },
        McpError::Failed { message, request_sent } => McpFailure::Failed { message, request_sent },
        other => McpFailure::Failed { message: text, request_sent: other.request_sent() },
    }
}
