//! The port to the servers that the user configured. Its values are in [`pinion_protocol::mcp`].

use futures_util::future::BoxFuture;
use pinion_protocol::ToolProgress;
use pinion_protocol::mcp::{McpFailure, McpRequest, McpServer, McpState};
use pinion_protocol::services::Services;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The configured servers of the Model Context Protocol, as an application provides them.
pub trait McpServers: Send + Sync {
    /// Returns all servers in a stable order, each with its latest answers. Starts no server and does not wait.
    fn servers(&self) -> Vec<McpServer>;

    /// Returns a text that changes when the servers would offer something else, regardless of the state of their
    /// connections. It is compared with the text of an earlier process, before anything else is asked.
    fn fingerprint(&self) -> String {
        let mut text = String::new();
        for server in self.servers() {
            let McpServer { name, identity, instructions, tools, prompts, has_resources, is_known, .. } = &server;
            let is_disabled = server.state == McpState::Disabled;
            text.push_str(&format!("{name:?} {identity} {is_disabled} {has_resources} {is_known} {instructions:?}\n"));
            tools.iter().for_each(|tool| text.push_str(&format!("{tool:?}\n")));
            prompts.iter().for_each(|prompt| text.push_str(&format!("{prompt:?}\n")));
        }
        text
    }

    /// Returns a counter that changes whenever [`McpServers::servers`] would return something else.
    fn changed(&self) -> watch::Receiver<u64>;

    /// Sends a request to a server, which is started if it does not run. Returns the result as JSON, as the server sent it.
    ///
    /// The request ends promptly once `call.cancel` is cancelled, and by `call.deadline`. Dropping the future cancels it.
    fn request<'a>(
        &'a self,
        server: &'a str,
        request: McpRequest,
        call: McpCall,
    ) -> BoxFuture<'a, Result<String, McpFailure>>;
}

/// The circumstances of a request.
#[derive(Clone)]
pub struct McpCall {
    /// Cancelled when the result is no longer wanted.
    pub cancel: CancellationToken,
    /// The deadline of the request.
    pub deadline: Instant,
    /// Takes the lines that the server reports as progress.
    pub progress: Arc<dyn ToolProgress>,
    /// The id of the session that makes the call; empty for calls of the host itself.
    pub session: Arc<str>,
    /// The conversation of the call; a server may ask the user or the model on its behalf. `None` outside of
    /// conversations.
    pub services: Option<Services>,
    /// True if the user types: the request goes to a server that is connected and fails otherwise; no question is
    /// asked, and nothing is started.
    pub only_connected: bool,
}

/// An implementation of the port that has no servers.
pub(crate) struct NoServers;

impl McpServers for NoServers {
    fn servers(&self) -> Vec<McpServer> {
        Vec::new()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    fn request<'a>(&'a self, server: &'a str, _: McpRequest, _: McpCall) -> BoxFuture<'a, Result<String, McpFailure>> {
        Box::pin(async { Err(McpFailure::NotFound(server.to_owned())) })
    }
}
