//! The plugin runtime of Pinion: WebAssembly components under limits, grants and reload.
//!
//! A [`Runtime`] loads plugins from [`PluginSource`]s and implements [`ToolExecutor`](pinion_protocol::ToolExecutor). Each
//! call runs on a fresh instance with fuel, a deadline, bounded memory and the authority that the plugin asked for, the
//! user granted and the tool declared; a ledger of the resources that the call used comes back with the result. A
//! plugin whose file changes is reloaded between two calls.
//!
//! A runtime with one plugin, which may read the workspace:
//!
//! ```no_run
//! use pinion_plugin_runtime::{
//!     FileAccess, Grants, HostDirectories, NoInfo, PluginSettings, Runtime, RuntimeConfig, PluginSource,
//! };
//! use std::collections::BTreeMap;
//! use std::path::PathBuf;
//! use std::sync::Arc;
//!
//! async fn load(workspace: PathBuf) -> Result<Runtime, Box<dyn std::error::Error>> {
//!     let files = BTreeMap::from([(workspace.clone(), FileAccess::Read)]);
//!     let settings = PluginSettings { grants: Grants { files, ..Grants::default() }, ..PluginSettings::default() };
//!     let config = RuntimeConfig {
//!         policy: Arc::new(BTreeMap::from([("word-count".to_owned(), settings)])),
//!         workspace,
//!         cache: None,
//!         engine_limits: None,
//!         compiler: None,
//!         host: HostDirectories::default(),
//!         exclusions: Arc::default(),
//!         confinement: None,
//!         mcp: None,
//!         info: Arc::new(NoInfo),
//!         journal: None,
//!     };
//!     let runtime = Runtime::new(config, |_notice| {})?;
//!     runtime.add(vec![PluginSource::file("word-count.wasm")]).await;
//!     assert!(runtime.plugins().iter().any(|plugin| &*plugin.name == "word-count"));
//!     Ok(runtime)
//! }
//! ```
//!
//! # Features
//!
//! - `openapi`, off by default: embeds the component that makes tools of the operations of HTTP interfaces, and adds
//!   `OpenApi` and `RuntimeConfig::with_openapi_file`, `with_openapi_url` and `with_openapi_spec`. It adds half a megabyte and
//!   no dependency.
//!
//! To follow a call, read `calls::executor`, `registry` and `calls::instance`; its imports are in `host` and `capability`.
//! To follow a load, read `registry::load`, `loading::generation` and `manifest`.

mod capability;
mod host_info;
mod load_error;
mod loading;
mod manifest;
#[cfg(feature = "openapi")]
mod openapi;
mod policy;
mod registry;
mod runtime;
mod runtime_shared;

/// Calls of plugins: tool calls, commands and hooks, the instance each one runs on, and the state the host keeps for it.
///
/// A call enters through `executor`, [`commands`](calls::commands) or [`hooks`](calls::hooks) and
/// runs on a fresh instance ([`instance`](calls::instance)), on an earlier one of a plugin of lifetime `reused`
/// ([`idle`](calls::idle)) or on the one instance of a plugin of lifetime `session` ([`session`](calls::session)), on
/// another thread (`thread_handover`), under a deadline and with the [`state`](calls::state)
/// that host imports see.
mod calls {
    mod actions;
    pub(crate) mod commands;
    mod executor;
    pub(crate) mod hooks;
    pub(crate) mod idle;
    pub(crate) mod instance;
    mod progress_relay;
    pub(crate) mod session;
    pub(crate) mod spinning;
    pub(crate) mod state;
    mod thread_handover;
}

/// The host's side of imports.
///
/// Interfaces that need no grant are implemented here, and so is the work behind those that do. [`crate::capability`]
/// decides which work is allowed.
mod host {
    pub(crate) mod files;
    pub(crate) mod linker;
    pub(crate) mod open_interfaces;
    mod questions;
    pub(crate) mod wasi_config;
    pub(crate) mod workspace;
}

/// Components without an interface of `pinion:plugin`, whose functions of plain WIT types become tools.
///
/// [`manifest`](plain::manifest) stands in for the manifest that such a component lacks: its name is the name of its file,
/// and [`asks`](plain::asks) derives its capabilities from the functions of WASI that it imports. `pinion-plugin-functions`
/// describes its functions as tools, and converts arguments and results. [`call`](plain::call) calls them.
mod plain {
    pub(crate) mod asks;
    pub(crate) mod call;
    pub(crate) mod manifest;
}

// Imports name the contract's types by `crate::bindings`.
use pinion_plugin_contract::{bindings, convert};

pub use calls::commands::{CommandError, Completion, HostAction};
pub use capability::agents::AgentsGrant;
pub use capability::definition::{GrantContext, Switch};
pub use capability::files::shell_word;
pub use capability::http::HttpAsk;
pub use capability::invoke::InvokeGrant;
pub use capability::mcp::{
    McpCall, McpFailure, McpGrant, McpPrompt, McpRequest, McpServer, McpServers, McpState, McpTask, McpTool,
};
pub use capability::model::{ModelEntry, ModelGrant};
pub use capability::process::ProcessGrant;
pub use capability::secrets::{
    NoSecrets, SecretError, SecretPlacement, SecretRequests, SecretSource, SecretsAsk, SecretsGrant,
};
pub use capability::session::SessionAccess;
pub use capability::storage::{StorageGrant, StorageQuota};
pub use capability::table::{Asks, GrantTable, Grants, UnknownCapability, capability_forms};
pub use host_info::{AgentInfo, HostInfo, ModelInfo, NoInfo, Spent};
pub use load_error::LoadError;
pub use loading::code::CodeOrigin;
pub use loading::source::{FileOrigin, PluginSource};
pub use manifest::{Exports, Inspection, Lifetime, MANIFEST_SECTION, Manifest, ManifestError};
#[cfg(feature = "openapi")]
pub use openapi::{OpenApi, OpenApiError};
pub use pinion_plugin_contract::version::API_VERSION;
pub use pinion_plugin_engine::{
    CacheKey, Compiler, EngineError, MAX_COMPONENT_BYTES, ReadError, compile_for_parent, read_component,
};
pub use pinion_plugin_limits::{EngineLimits, FaultKind, Limits, PartialLimits, PluginFault};
pub use pinion_plugin_offers::offer::{ActionInfo, CommandDefinition};
pub use pinion_plugin_programs::{
    AfterProgram, ConfinedProgram, Confinement, PlainProgram, ProgramGroup, guard_for_parent, guard_programs,
};
pub use pinion_plugin_storage::{
    ExportedValues, MAX_EXPORT_BYTES, PluginIdentity, PluginStorage, StoredPlugin, StoredScope, TransferError,
};
pub use pinion_workspace::grants::access::FileAccess;
pub use pinion_workspace::grants::protected::{HostDirectories, is_host_part};
pub use pinion_workspace::paths::real::without_links;
pub use pinion_workspace::{FileList, list_files};
pub use policy::{Ceiling, Component, Likeness, LikenessMap, PluginPolicy, PluginSettings, is_alike};
pub use registry::listing::{Capability, Hook, PluginInfo};
pub use registry::load_attempt::Loading;
pub use registry::notice::{Notice, NoticeEvent};
pub use registry::watch::{PluginDirectory, Watch, WatchError, plugins_in};
pub use runtime::Runtime;
pub use runtime_shared::{RuntimeConfig, StartingEngine};
