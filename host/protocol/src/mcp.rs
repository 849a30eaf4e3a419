//! Servers of the Model Context Protocol, as the plugin runtime uses them and the crate for the protocol provides them.

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

/// The reason why a request has no result. Texts of servers in it are as they came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpFailure {
    /// There is no such server.
    #[error("no MCP server `{0}`")]
    NotFound(String),
    /// The server or the tool is switched off.
    #[error("{0}")]
    Disabled(String),
    /// The user has to log in to this server.
    #[error("the MCP server `{server}` requires a login\nhint: the user can log in with `pinion mcp login {server}`")]
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
        /// True if the server may have received the request.
        request_sent: bool,
    },
    /// The server returned an error.
    #[error("{message}")]
    Server {
        /// The code of JSON-RPC.
        code: i64,
        /// The server's own message.
        message: String,
        /// JSON with more.
        data: Option<String>,
    },
    /// Any other failure.
    #[error("{message}")]
    Failed {
        /// The failure and its cause.
        message: String,
        /// True if the server may have received the request.
        request_sent: bool,
    },
}
