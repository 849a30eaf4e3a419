//! Facts about the host that plugins with the capability `catalog` may see.

use crate::bindings::pinion::plugin::catalog as wit;
use crate::capability::authority::PluginAuthority;
use pinion_plugin_offers::offer::{ActionInfo, CommandDefinition};
use pinion_protocol::spend_meter::SpendMeter;
use pinion_protocol::{Cost, Usage};
use std::sync::Arc;

/// The settings of one generation of a plugin.
#[derive(Debug, Clone)]
pub(crate) struct GenerationSettings {
    /// The plugin's own section of the config, as JSON.
    pub(crate) config: Arc<str>,
    /// The number of the generation.
    pub(crate) generation: u32,
}

/// The loaded plugins, as the imports `catalog` and `settings` see them.
pub(crate) trait LoadedPlugins: Send + Sync {
    fn tools(&self) -> Vec<wit::ToolInfo>;
    /// The commands whose definitions a predicate accepts.
    fn commands(&self, is_offered: &dyn Fn(&CommandDefinition) -> bool) -> Vec<wit::CommandInfo>;
    fn plugins(&self) -> Vec<wit::PluginInfo>;
    /// Returns the settings of the current generation of a plugin, if it is still loaded.
    fn settings(&self, plugin: &PluginAuthority) -> Option<GenerationSettings>;
}

/// Provides facts that the runtime itself does not know. Implemented by the application.
pub trait HostInfo: Send + Sync {
    /// The models that can be selected.
    fn models(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    /// The kinds of sub-agents that the user configured.
    fn agents(&self) -> Vec<AgentInfo> {
        Vec::new()
    }

    /// The actions that slash commands may name.
    fn actions(&self) -> Vec<ActionInfo> {
        Vec::new()
    }

    /// Sums with limits that the spend of a plugin's sub-agents and model requests counts against.
    fn meters(&self, _plugin: &str) -> Vec<Arc<dyn SpendMeter>> {
        Vec::new()
    }

    /// The usage of the session so far.
    fn spent(&self) -> Spent {
        Spent::default()
    }
}

/// A model that can be selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name that `--model` accepts.
    pub name: String,
    /// Set for the model in use.
    pub current: bool,
}

/// A kind of sub-agent that the user configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// The name of the kind.
    pub name: String,
    /// Its purpose, in one line.
    pub description: String,
}

/// The usage of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// The number of requests to models.
    pub requests: u64,
    /// The tokens of all requests.
    pub usage: Usage,
    /// The cost of all requests; `None` when the prices are unknown.
    pub cost: Option<Cost>,
}

/// Provides no facts: for commands and tests without a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoInfo;

impl HostInfo for NoInfo {}
