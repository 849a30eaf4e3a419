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
mod convert;
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
mod shared;

pub use calls::commands::{CommandError, Completion, Effect};
pub use capability::{
    Access, AgentsGrant, Asks, GrantContext, GrantTable, Grants, ProcessGrant, Switch, UnknownCapability,
    capability_forms, shell_word,
};
pub use engine::EngineError;
pub use errors::fault::{FaultKind, PluginFault};
pub use errors::load::LoadError;
pub use host_info::{AgentInfo, HostInfo, ModelInfo, NoInfo, Spent};
pub use limits::{EngineLimits, Limits, PartialLimits};
pub use loading::cache::{CacheKey, Origin};
pub use loading::compiler::{Compiler, compile_for_parent};
pub use loading::component_file::{MAX_COMPONENT_BYTES, ReadError, read_component};
pub use loading::generation::CommandDefinition;
pub use loading::settings::PluginSettings;
pub use loading::source::{FileOrigin, Source};
pub use manifest::{API_VERSION, Exports, Inspection, Lifetime, MANIFEST_SECTION, Manifest, ManifestError};
pub use paths::protected::HostDirectories;
pub use policy::{Ceiling, Component, PluginPolicy, is_alike};
pub use registry::attempt::Loading;
pub use registry::listing::{Capability, PluginInfo};
pub use registry::notice::{Notice, NoticeEvent};
pub use registry::watch::{PluginDirectory, Watch, WatchError, plugins_in};
pub use runtime::Runtime;
pub use shared::RuntimeConfig;
