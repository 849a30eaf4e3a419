//! Servers of the Model Context Protocol, as the plugin runtime uses them and the crate for the protocol provides them.

use crate::text::one_line;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// The name in the config.
    pub name: String,
    /// A digest of how the server is started or reached, which approvals are bound to.
    pub identity: String,
    /// Its state.
    pub state: McpState,
    /// For people: why it does not work, and how to fix it.
    pub problem: Option<String>,
    /// Entries of the catalogue that were dropped or repaired, each with the reason.
    pub dropped: Vec<String>,
    /// Text of the server about its use.
    pub instructions: Option<String>,
    /// The version of the protocol.
    pub protocol: Option<String>,
    /// The name and version that the server calls itself.
    pub software: Option<String>,
    /// Its tools.
    pub tools: Vec<McpTool>,
    /// Its prompts.
    pub prompts: Vec<McpPrompt>,
    /// Tasks of earlier calls, whose results can be fetched.
    pub tasks: Vec<McpTask>,
    /// True if it has resources.
    pub has_resources: bool,
    /// True once it has listed its offer, here or in an earlier process.
    pub is_known: bool,
}

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpState {
    /// Switched off.
    Disabled,
    /// Not running.
    Idle,
    /// Being started.
    Starting,
    /// Ready for requests.
    Ready,
    /// It did not start, or broke down.
    Failed,
    /// The user has to log in.
    LoginRequired,
}

/// A tool of a server. Its texts are the server's and not cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpTool {
    /// The name that the server uses.
    pub name: String,
    /// The tool as JSON, as the server sent it.
    pub definition: Arc<str>,
    /// False if the user switched it off.
    pub enabled: bool,
}

/// A prompt of a server. Its texts are the server's and not cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPrompt {
    /// The name that the server uses.
    pub name: String,
    /// The prompt as JSON, as the server sent it.
    pub definition: Arc<str>,
}

/// A task at a server: a call that continues after its request has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpTask {
    /// The server's id of the task.
    pub id: String,
    /// The tool that was called.
    pub tool: String,
    /// Time of the call, in seconds since the epoch.
    pub created: u64,
}

/// A request to a server. Arguments are JSON texts of objects, or empty for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpRequest {
    /// Start the server, and wait until it has described its offer. The result is `{"protocol", "software"}`.
    Connect,
    /// Call a tool.
    CallTool {
        /// The name that the server uses.
        name: String,
        /// The arguments.
        arguments: String,
    },
    /// Wait for the result of a task.
    FollowTask {
        /// The server's id of the task.
        id: String,
    },
    /// Cancel a task.
    CancelTask {
        /// The server's id of the task.
        id: String,
    },
    /// Get the messages of a prompt.
    GetPrompt {
        /// The name that the server uses.
        name: String,
        /// The arguments.
        arguments: String,
    },
    /// List resources.
    ListResources {
        /// The page after the first.
        cursor: Option<String>,
    },
    /// List the templates of resources.
    ListResourceTemplates {
        /// The page after the first.
        cursor: Option<String>,
    },
    /// Read a resource.
    ReadResource {
        /// Its address.
        uri: String,
    },
    /// Complete an argument.
    Complete {
        /// The prompt or template, as the protocol has it.
        reference: String,
        /// The argument and its beginning, as the protocol has them, with the member `context` of the request, if there is
        /// one.
        argument: String,
    },
}

/// The reason why a request has no result. Messages name the server and hold no control characters, except the text of the
/// server in [`McpFailure::Server`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpFailure {
    /// No server of that name is configured.
    #[error("no MCP server `{0}` is configured")]
    NotFound(String),
    /// The user switched the server off.
    #[error("MCP server `{server}` is disabled")]
    Disabled {
        /// The name in the config.
        server: String,
    },
    /// The user has to log in to this server, which happens outside of requests.
    #[error("MCP server `{server}` requires a login")]
    LoginRequired {
        /// The name in the config.
        server: String,
    },
    /// The result has more bytes than this.
    #[error("the result exceeds {0} bytes")]
    TooLarge(u32),
    /// The request took too long.
    #[error("{message}")]
    TimedOut {
        /// Text that names the server and the limit.
        message: String,
        /// True if the server may have received the request.
        request_sent: bool,
    },
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled {
        /// True if the server may have received the request; it was sent a cancellation too.
        request_sent: bool,
    },
    /// The server returned an error.
    #[error("MCP server `{server}` answered with error {code}: {message}")]
    Server {
        /// The name in the config.
        server: String,
        /// The code of JSON-RPC.
        code: i64,
        /// The server's own message.
        message: String,
        /// JSON with more.
        data: Option<String>,
    },
    /// The connection failed, or the server broke the protocol.
    #[error("{message}")]
    Failed {
        /// Text that names the server.
        message: String,
        /// True if the server may have received the request.
        request_sent: bool,
    },
}

impl McpFailure {
    /// Returns a failure before the request was sent: `` MCP server `x` … ``.
    pub fn unsent(server: &str, problem: impl AsRef<str>) -> Self {
        Self::Failed { message: culprit(server, problem.as_ref()), request_sent: false }
    }

    /// Returns a failure after the request was sent.
    pub fn sent(server: &str, problem: impl AsRef<str>) -> Self {
        Self::Failed { message: culprit(server, problem.as_ref()), request_sent: true }
    }

    /// Returns whether the server may have received the request, so that repeating it may have an effect twice.
    #[must_use]
    pub fn request_sent(&self) -> bool {
        match self {
            Self::NotFound(_) | Self::Disabled { .. } | Self::LoginRequired { .. } => false,
            Self::TimedOut { request_sent, .. }
            | Self::Cancelled { request_sent }
            | Self::Failed { request_sent, .. } => *request_sent,
            Self::Server { .. } | Self::TooLarge(_) => true,
        }
    }

    /// Returns the text for a message that already names the server.
    pub fn without_culprit(&self, server: &str) -> String {
        let text = self.to_string();
        let name = culprit(server, "");
        text.strip_prefix(&name).map_or_else(|| text.clone(), str::to_owned)
    }
}

fn culprit(server: &str, problem: &str) -> String {
    format!("MCP server `{}` {problem}", one_line(server, 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_server_cleanly() {
        let error = McpFailure::unsent("fake\u{1b}[31m", "is not reachable");
        assert_eq!(error.to_string(), "MCP server `fake␛[31m` is not reachable");
        assert_eq!(McpFailure::unsent("fake", "is not reachable").without_culprit("fake"), "is not reachable");
    }
}
