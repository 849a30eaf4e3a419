//! What the host tells plugins with the capability `catalog`.

use pinion_protocol::{Cost, Usage};

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
