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
mod compiler;
mod component_file;
mod descriptors;
mod engine;
mod executor;
mod fault;
mod generation;
mod host;
mod instance;
mod limits;
mod listing;
mod loading;
mod manifest;
mod pagemap;
mod policy;
mod program;
mod protected;
mod registry;
mod reload;
mod runtime;
mod session;
mod shares;
mod state;
mod weight;
mod wording;

pub use cache::{CacheKey, Origin};
pub use capability::{
    Access, AgentsGrant, Asks, GrantContext, GrantTable, Grants, ProcessGrant, Switch, UnknownCapability,
    capability_forms, shell_word,
};
pub use catalog::{AgentInfo, HostInfo, ModelInfo, NoInfo, Spent};
pub use commands::{CommandError, Completion, Effect, Mode};
pub use compiler::{Compiler, compile_for_parent};
pub use component_file::{MAX_COMPONENT_BYTES, ReadError, read_component};
pub use engine::EngineError;
pub use fault::PluginFault;
pub use generation::{CommandDefinition, LoadError, PluginSettings};
pub use limits::{EngineLimits, Limits, PartialLimits};
pub use listing::{Capability, PluginInfo};
pub use loading::Loading;
pub use manifest::{API_VERSION, Exports, Inspection, Lifetime, MANIFEST_SECTION, Manifest, ManifestError};
pub use policy::{Ceiling, Component, PluginPolicy, is_alike};
pub use protected::HostDirectories;
pub use registry::{FileOrigin, Notice, NoticeEvent, Source};
pub use reload::{PluginDirectory, Watch, WatchError, plugins_in};
pub use runtime::{Runtime, RuntimeConfig};
