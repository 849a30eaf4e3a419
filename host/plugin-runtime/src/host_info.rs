//! Facts about the host that plugins with the capability `catalog` may see.

use crate::bindings::pinion::plugin::catalog as wit;
use pinion_protocol::{Cost, Usage};

/// The loaded plugins, as the import `catalog` lists them.
pub(crate) trait LoadedPlugins: Send + Sync {
    fn tools(&self) -> Vec<wit::ToolInfo>;
    fn commands(&self) -> Vec<wit::CommandInfo>;
    fn plugins(&self) -> Vec<wit::PluginInfo>;
}

/// Answers what the runtime itself does not know. Implemented where the parts are put together.
pub trait HostInfo: Send + Sync {
    /// The models that can be chosen, and which one is in use.
    fn models(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    /// The sub-agents that the user has set up.
    fn agents(&self) -> Vec<AgentInfo> {
        Vec::new()
    }

    /// What the session has spent.
    fn spent(&self) -> Spent {
        Spent::default()
    }
}

/// A model that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// As after `--model`.
    pub name: String,
    /// Is it the one in use?
    pub current: bool,
}

/// A sub-agent that the user has set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// What a session has spent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Requests to models.
    pub requests: u64,
    /// Tokens.
    pub usage: Usage,
    /// Money; none when the prices are not known.
    pub cost: Option<Cost>,
}

/// Knows nothing: for commands and tests that have no session.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoInfo;

impl HostInfo for NoInfo {}
