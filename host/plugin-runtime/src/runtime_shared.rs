//! The parts that all plugins of a runtime share.

use crate::calls::spinning::NextCall;
use crate::calls::state::State;
use crate::capability::authority::SharedAuthority;
use crate::capability::mcp::port::{McpServers, NoServers};
use crate::capability::model::UsedTokens;
use crate::host::linker::linker;
use crate::host_info::{HostInfo, LoadedPlugins};
use crate::loading::code::CodeInMemory;
use crate::policy::PluginPolicy;
use pinion_egress::Client;
use pinion_exclusions::Finder;
use pinion_journal::writer::JournalSink;
use pinion_plugin_engine::{CacheKey, CodeCache, Compiler, Engine, EngineError};
use pinion_plugin_limits::{Descriptors, EngineLimits, LimitsFile, Permits, SharedCounts};
use pinion_plugin_programs::Confinement;
use pinion_plugin_storage::SharedStores;
use pinion_workspace::ReadFiles;
use pinion_workspace::grants::protected::{HostDirectories, Protected};
use pinion_workspace::grants::roots::WorkspaceRoot;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use wasmtime::component::Linker;

/// Configuration of a [`Runtime`](crate::Runtime).
pub struct RuntimeConfig {
    /// The workspace root, an absolute path.
    pub workspace: PathBuf,
    /// The directory of compiled code and the secret that seals it. `None` compiles everything at each start.
    pub cache: Option<(PathBuf, CacheKey)>,
    /// Decides which components are loaded, and the grants of each. A map from names to
    /// [`PluginSettings`](crate::PluginSettings) is a policy, for programs that choose every component themselves.
    pub policy: Arc<dyn PluginPolicy>,
    /// Limits that are the same for all plugins; `None` selects the built-in limits.
    pub engine_limits: Option<EngineLimits>,
    /// Compiles components in a child process; `None` refuses components that take long to compile.
    pub compiler: Option<Compiler>,
    /// Directories of the application itself, which no plugin may use.
    pub host: HostDirectories,
    /// Files that no plugin reads or changes.
    pub exclusions: Arc<Finder>,
    /// Confines the programs that plugins start; `None` runs them as they are.
    pub confinement: Option<Arc<dyn Confinement>>,
    /// MCP servers that plugins with the capability `mcp` may use; `None` without servers.
    pub mcp: Option<Arc<dyn McpServers>>,
    /// Facts about the host that plugins with the capability `catalog` may see.
    pub info: Arc<dyn HostInfo>,
    /// Receives a record of each call; `None` records nothing.
    pub journal: Option<Arc<dyn JournalSink>>,
}

/// The parts that all plugins share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) cache: Option<CodeCache>,
    pub(crate) code_in_memory: Arc<CodeInMemory>,
    pub(crate) limits: LimitsFile,
    pub(crate) workspace: PathBuf,
    pub(crate) surroundings: SharedAuthority,
    pub(crate) descriptors: Descriptors,
    pub(crate) permits: Permits,
    pub(crate) counts: Arc<SharedCounts>,
    pub(crate) next_call: NextCall,
    pub(crate) info: Arc<dyn HostInfo>,
    pub(crate) compiler: Option<Compiler>,
    pub(crate) policy: Arc<dyn PluginPolicy>,
    pub(crate) read_files: Arc<ReadFiles>,
    pub(crate) used_tokens: Arc<UsedTokens>,
    pub(crate) stores: Arc<SharedStores>,
    /// Sends the requests of all plugins.
    pub(crate) client: Client,
    pub(crate) confinement: Option<Arc<dyn Confinement>>,
    pub(crate) mcp: Arc<dyn McpServers>,
    /// The registry of loaded plugins, which owns this.
    pub(crate) plugins: Weak<dyn LoadedPlugins>,
    pub(crate) journal: Option<Arc<dyn JournalSink>>,
}

impl Shared {
    /// Puts the parts together around an engine that runs. `plugins` is the registry that will own the result.
    pub(crate) fn new(
        config: RuntimeConfig,
        core: EngineCore,
        client: Client,
        plugins: Weak<dyn LoadedPlugins>,
    ) -> Self {
        let EngineCore { engine, linker, limits } = core;
        let workspace = WorkspaceRoot::new(&config.workspace);
        let protected = Arc::new(Protected::new(&config.host, workspace.real(), config.exclusions));
        Self {
            linker,
            cache: config.cache.and_then(|(directory, key)| CodeCache::open(&directory, &key)),
            code_in_memory: Arc::default(),
            permits: Permits::new(&limits.engine),
            counts: Arc::default(),
            next_call: NextCall::default(),
            limits,
            workspace: config.workspace,
            surroundings: SharedAuthority { workspace, protected },
            descriptors: Descriptors::new(),
            info: config.info,
            compiler: config.compiler,
            policy: config.policy,
            read_files: Arc::default(),
            used_tokens: Arc::default(),
            stores: Arc::default(),
            client,
            confinement: config.confinement,
            mcp: config.mcp.unwrap_or_else(|| Arc::new(NoServers)),
            plugins,
            journal: config.journal,
            engine,
        }
    }
}

/// An engine that starts on a separate thread, so that an application can prepare the rest of a
/// [`Runtime`](crate::Runtime) meanwhile.
pub struct StartingEngine(Starting);

enum Starting {
    OnThread(JoinHandle<Result<EngineCore, EngineError>>),
    /// The system refused a thread.
    Here(Option<EngineLimits>),
}

impl StartingEngine {
    /// Begins to start an engine. `limits` are the same for all plugins; `None` selects the built-in limits.
    ///
    /// No program that must not trace this process may run until the [`Runtime`](crate::Runtime) has been created.
    pub fn begin(limits: Option<EngineLimits>) -> Self {
        let on_thread = limits.clone();
        let thread = thread::Builder::new().name("pinion-engine".to_owned());
        let started = thread.spawn(move || EngineCore::start(on_thread));
        Self(started.map_or_else(|_| Starting::Here(limits), Starting::OnThread))
    }

    /// Waits for the engine.
    ///
    /// # Errors
    /// The engine does not start on this machine.
    pub(crate) fn started(self) -> Result<EngineCore, EngineError> {
        match self.0 {
            Starting::OnThread(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Starting::Here(limits) => EngineCore::start(limits),
        }
    }
}

/// The parts of [`Shared`] whose creation can fail.
pub(crate) struct EngineCore {
    engine: Engine,
    linker: Linker<State>,
    limits: LimitsFile,
}

impl EngineCore {
    /// Starts the engine and links the host's imports.
    ///
    /// # Errors
    /// The engine does not start on this machine.
    fn start(engine_limits: Option<EngineLimits>) -> Result<Self, EngineError> {
        let mut limits = LimitsFile::built_in().clone();
        limits.engine = engine_limits.unwrap_or(limits.engine);
        let engine = Engine::start(limits.engine.clone())?;
        let linker = linker(&engine).map_err(EngineError::from_wasmtime)?;
        Ok(Self { engine, linker, limits })
    }
}
