//! The plugin runtime of Pinion: WebAssembly components under limits, grants and reload.
//!
//! A [`Runtime`] loads plugins from [`Source`]s and is the agent's [`ToolExecutor`](pinion_protocol::ToolExecutor). Each
//! call runs on a fresh instance with fuel, a deadline, bounded memory and no more authority than asked for, granted and
//! declared; its account, the ledger, comes back with the result. Files that change are loaded anew between two calls.
//!
//! Where to read: a call goes through `executor`, `registry`, `instance`, and what it asks of the host through `host/`
//! and `capability`. Loading is `generation`, `manifest`, `cache`; reloading is `reload` and `registry`.

mod bindings;
mod calls;
mod capability;
mod engine;
mod errors;
mod host;
mod host_info;
mod limits;
mod loading;
mod manifest;
mod paths;
mod policy;
mod registry;
mod runtime;

pub use calls::commands::{CommandError, Completion, Effect};
pub use capability::{
    Access, AgentsGrant, Asks, GrantContext, GrantTable, Grants, ProcessGrant, Switch, UnknownCapability,
    capability_forms, shell_word,
};
pub use engine::EngineError;
pub use errors::fault::PluginFault;
pub use host_info::{AgentInfo, HostInfo, ModelInfo, NoInfo, Spent};
pub use limits::{EngineLimits, Limits, PartialLimits};
pub use loading::cache::{CacheKey, Origin};
pub use loading::compiler::{Compiler, compile_for_parent};
pub use loading::component_file::{MAX_COMPONENT_BYTES, ReadError, read_component};
pub use loading::generation::{CommandDefinition, LoadError, PluginSettings};
pub use manifest::{API_VERSION, Exports, Inspection, Lifetime, MANIFEST_SECTION, Manifest, ManifestError};
pub use paths::protected::HostDirectories;
pub use policy::{Ceiling, Component, PluginPolicy, is_alike};
pub use registry::listing::{Capability, PluginInfo};
pub use registry::load::Loading;
pub use registry::watch::{PluginDirectory, Watch, WatchError, plugins_in};
pub use registry::{FileOrigin, Notice, NoticeEvent, Source};
pub use runtime::{Runtime, RuntimeConfig};
