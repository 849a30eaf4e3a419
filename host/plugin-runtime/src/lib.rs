//! The plugin runtime of Pinion: WebAssembly components under limits, grants and reload.
//!
//! A [`Runtime`] loads plugins from [`Source`]s and is the agent's [`ToolExecutor`](pinion_agent::ToolExecutor). Each
//! call runs on a fresh instance with fuel, a deadline, bounded memory and no more authority than asked for, granted and
//! declared; its account, the ledger, comes back with the result. Files that change are loaded anew between two calls.
//!
//! Where to read: a call goes through `executor`, `registry`, `instance`, and what it asks of the host through `host/`
//! and `capability`. Loading is `generation`, `manifest`, `cache`; reloading is `reload` and `registry`.

mod beneath;
mod bindings;
mod cache;
mod capability;
mod catalog;
mod commands;
mod descriptors;
mod engine;
mod executor;
mod fault;
mod generation;
mod host;
mod instance;
mod limits;
mod listing;
mod manifest;
mod pagemap;
mod policy;
mod program;
mod protected;
mod registry;
mod reload;
mod runtime;
mod session;
mod state;

pub use cache::{CacheKey, Origin};
pub use capability::{AgentsGrant, Grants, ProcessGrant};
pub use catalog::{AgentInfo, HostInfo, ModelInfo, NoInfo, Spent};
pub use commands::{CommandError, Completion, Effect, Mode};
pub use engine::EngineError;
pub use fault::PluginFault;
pub use generation::{CommandDefinition, LoadError, PluginSettings};
pub use limits::{EngineLimits, Limits, PartialLimits};
pub use listing::{Capability, PluginInfo};
pub use manifest::{
    API_VERSION, Access, Asks, Exports, Inspection, Lifetime, MANIFEST_SECTION, Manifest, ManifestError,
};
pub use policy::{Ceiling, Component, PluginPolicy, is_alike};
pub use protected::HostDirectories;
pub use registry::{FileOrigin, Notice, NoticeEvent, Source};
pub use reload::{PluginDirectory, Watch, WatchError, plugins_in};
pub use runtime::{Runtime, RuntimeConfig};
