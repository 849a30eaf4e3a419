//! Everything that is known of a server, for its users.

use std::sync::Arc;

use crate::tasks::TaskHandle;

/// State of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Switched off by the user.
    Disabled,
    /// Not running; the next request starts it.
    Idle,
    /// Starting.
    Starting,
    /// Connected.
    Ready,
    /// The last start or connection failed; the next request tries again.
    Failed,
    /// Waits for a login.
    LoginRequired,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolInfo {
    /// Name, of printable ASCII.
    pub name: String,
    /// The tool as JSON. Its texts are the server's and not cleaned.
    pub definition: Arc<str>,
    /// False for a tool that the user switched off.
    pub enabled: bool,
}

/// A prompt of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptInfo {
    /// Name, of printable ASCII.
    pub name: String,
    /// The prompt as JSON. Its texts are the server's and not cleaned.
    pub definition: Arc<str>,
}

/// Everything known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Name in the configuration.
    pub name: String,
    /// Digest of its command or address.
    pub identity: String,
    /// State.
    pub state: ServerState,
    /// Last failure, or entries that were dropped, as one line.
    pub problem: Option<String>,
    /// Entries of the catalogue that were dropped or repaired, each with the reason.
    pub dropped: Vec<String>,
    /// Instructions of the server for the model.
    pub instructions: Option<String>,
    /// Version of the protocol.
    pub protocol: Option<String>,
    /// Name and version that the server calls itself.
    pub software: Option<String>,
    /// Tools, in the server's order.
    pub tools: Vec<ToolInfo>,
    /// Prompts, in the server's order.
    pub prompts: Vec<PromptInfo>,
    /// Tasks of earlier calls for which no request waits.
    pub tasks: Vec<TaskHandle>,
    /// The server has resources.
    pub has_resources: bool,
    /// The catalogue is known, from this connection or an earlier one.
    pub is_known: bool,
}
