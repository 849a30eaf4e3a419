//! What all plugins share, and how it is put together.

use crate::calls::instance::Setup;
use crate::calls::state::State;
use crate::capability::Surroundings;
use crate::capability::files::roots::Workspace;
use crate::engine::pagemap;
use crate::engine::{Engine, EngineError};
use crate::errors::fault::PluginFault;
use crate::host;
use crate::host_info::HostInfo;
use crate::limits::descriptors::Descriptors;
use crate::limits::shares::{Counts, Turn, Turns};
use crate::limits::{EngineLimits, LimitsFile};
use crate::loading::cache::{Cache, CacheKey};
use crate::loading::compiler::Compiler;
use crate::loading::program::Program;
use crate::paths::protected::{HostDirectories, Protected};
use crate::policy::PluginPolicy;
use crate::registry::listing::PluginInfo;
use crate::registry::load::Loading;
use crate::registry::watch::{PluginDirectory, Watch, WatchError};
use crate::registry::{Notice, Registry, Source};
use pinion_protocol::MAX_AGENT_DEPTH;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::Linker;

/// How long a call may wait for its turn.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// How a runtime is to be.
pub struct RuntimeConfig {
    /// The workspace root, absolute.
    pub workspace: PathBuf,
    /// Where compiled code is kept, and the secret that seals it; none compiles everything anew.
    pub cache: Option<(PathBuf, CacheKey)>,
    /// Decides which components are loaded and what each is granted. A map from names to
    /// [`PluginSettings`](crate::loading::generation::PluginSettings) is one, for programs that choose every component themselves.
    pub policy: Arc<dyn PluginPolicy>,
    /// Limits that are the same for all plugins; none takes the built-in ones.
    pub engine_limits: Option<EngineLimits>,
    /// Compiles components in a process of its own; none refuses components that take long to compile.
    pub compiler: Option<Compiler>,
    /// Directories of the application itself, which no plugin may use.
    pub host: HostDirectories,
    /// Answers what the runtime itself does not know.
    pub info: Arc<dyn HostInfo>,
}

/// Runs plugins.
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registry: Arc<Registry>,
}

impl Runtime {
    /// Starts the engine; loads nothing yet. `on_notice` hears of every plugin that is loaded, refused or removed, from
    /// any thread, and must not block.
    ///
    /// # Errors
    /// The engine does not start on this machine.
    pub fn new(config: RuntimeConfig, on_notice: impl Fn(Notice) + Send + Sync + 'static) -> Result<Self, EngineError> {
        let shared = Shared::new(config)?;
        let registry = Registry::new(shared.clone(), Box::new(on_notice));
        Ok(Self { shared, registry })
    }

    /// Loads plugins concurrently and waits until each was loaded or refused; where names collide, the one that comes
    /// first wins. A refusal is notified and stands in [`Runtime::problems`]; the other plugins load all the same.
    pub async fn add(&self, sources: Vec<Source>) {
        self.begin(sources).settled().await;
    }

    /// Begins to load plugins, as [`Runtime::add`] does, and returns at once. Plugins answer from when they are ready; a
    /// source that comes first wins where names collide also when it is ready last. Must be called within a tokio
    /// runtime; dropping this runtime gives up what is not loaded.
    pub fn begin(&self, sources: Vec<Source>) -> Loading {
        self.registry.begin(sources)
    }

    /// Reloads plugins whose files have changed, and waits until each was loaded or refused.
    pub async fn refresh(&self) {
        self.begin_refresh().settled().await;
    }

    /// Begins to reload plugins whose files have changed, and returns at once.
    pub fn begin_refresh(&self) -> Loading {
        self.registry.begin_refresh()
    }

    /// Plugins, or their files, that are being loaded for the first time.
    pub fn being_loaded(&self) -> Vec<String> {
        self.registry.being_loaded()
    }

    /// Loads files that change anew as long as the result lives. In `directories`, files named `*.wasm` that appear are
    /// loaded, too.
    ///
    /// # Errors
    /// The system does not watch. Calls still look at their plugin's file themselves.
    pub fn watch(&self, directories: Vec<PluginDirectory>) -> Result<Watch, WatchError> {
        let files: Vec<PathBuf> = self.registry.catalog().loaded().iter().filter_map(|loaded| loaded.file()).collect();
        Watch::start(self.registry.clone(), &files, directories)
    }

    /// The plugins that answer calls.
    pub fn plugins(&self) -> Vec<PluginInfo> {
        self.registry.plugins()
    }

    /// What did not load: the plugin's name, or its file's, and why.
    pub fn problems(&self) -> Vec<(String, String)> {
        self.registry.catalog().problems().to_vec()
    }
}

/// Turns to run, and permits of loads. Calls that may wait for sub-agents have turns of their own, by how deep these may
/// be nested: the calls of sub-agents must get theirs while those wait that they work for.
pub(crate) struct Permits {
    calls: Turns,
    delegating: [Turns; MAX_AGENT_DEPTH as usize],
    reading: Arc<Semaphore>,
    compiling: Arc<Semaphore>,
    compiling_apart: Arc<Semaphore>,
    describing: Arc<Semaphore>,
}

impl Permits {
    fn new(limits: &EngineLimits) -> Self {
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        // Only plugins that the user granted agents take these.
        let delegating = std::array::from_fn(|_| Turns::new(limits.delegating_calls(), 0));
        let cores = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        Self {
            calls: Turns::new(limits.concurrent_calls, EngineLimits::FIRST_CALLS),
            delegating,
            reading: semaphore(cores.max(4)),
            compiling: semaphore(cores),
            compiling_apart: semaphore(cores.div_ceil(2)),
            describing: semaphore(EngineLimits::DESCRIPTIONS),
        }
    }

    /// For a component that is read. None, here and below, when the runtime ends.
    pub(crate) async fn reading(&self) -> Option<OwnedSemaphorePermit> {
        self.reading.clone().acquire_owned().await.ok()
    }

    /// For a component that is compiled in this process.
    pub(crate) async fn compiling(&self) -> Option<OwnedSemaphorePermit> {
        self.compiling.clone().acquire_owned().await.ok()
    }

    /// For a component that is compiled in a process of its own, on all cores.
    pub(crate) async fn compiling_apart(&self) -> Option<OwnedSemaphorePermit> {
        self.compiling_apart.clone().acquire_owned().await.ok()
    }

    /// For a plugin that is asked what it offers: loads take no permit from calls.
    pub(crate) async fn describing(&self) -> Option<OwnedSemaphorePermit> {
        self.describing.clone().acquire_owned().await.ok()
    }

    /// A turn for a call of a plugin.
    ///
    /// # Errors
    /// The call is cancelled, or has waited too long.
    pub(crate) async fn turn(&self, program: &Program, setup: &Setup) -> Result<Turn, PluginFault> {
        let depth = setup.agents.as_ref().map_or(0, |agents| agents.depth_left() as usize);
        let turns = depth.checked_sub(1).and_then(|at| self.delegating.get(at)).unwrap_or(&self.calls);
        let plugin = || program.name.to_string();
        tokio::select! {
            biased;
            turn = turns.take(&program.share) => turn.ok_or_else(|| PluginFault::Cancelled { plugin: plugin() }),
            () = setup.token.cancelled() => Err(PluginFault::Cancelled { plugin: plugin() }),
            () = tokio::time::sleep(MAX_WAIT) => Err(PluginFault::Busy { plugin: plugin(), waited_s: MAX_WAIT.as_secs() }),
        }
    }
}

/// What all plugins share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) cache: Option<Cache>,
    pub(crate) limits: LimitsFile,
    pub(crate) workspace: PathBuf,
    pub(crate) surroundings: Surroundings,
    pub(crate) descriptors: Descriptors,
    pub(crate) permits: Permits,
    pub(crate) counts: Arc<Counts>,
    pub(crate) info: Arc<dyn HostInfo>,
    pub(crate) compiler: Option<Compiler>,
    pub(crate) policy: Arc<dyn PluginPolicy>,
    registry: OnceLock<Weak<Registry>>,
}

impl Shared {
    pub(crate) fn new(config: RuntimeConfig) -> Result<Arc<Self>, EngineError> {
        let mut limits = LimitsFile::built_in();
        limits.engine = config.engine_limits.unwrap_or(limits.engine);
        let engine = pagemap::readable(|| Engine::new(limits.engine.clone()))?;
        let workspace = Workspace::new(&config.workspace);
        let protected = Arc::new(Protected::new(&config.host, workspace.real()));
        let linker = host::linker::linker(&engine).map_err(EngineError::from_wasmtime)?;
        Ok(Arc::new(Self {
            linker,
            cache: config.cache.and_then(|(folder, key)| Cache::open(&folder, &key)),
            permits: Permits::new(&limits.engine),
            counts: Arc::default(),
            limits,
            workspace: config.workspace,
            surroundings: Surroundings { workspace, protected },
            descriptors: Descriptors::new(),
            info: config.info,
            compiler: config.compiler,
            policy: config.policy,
            registry: OnceLock::new(),
            engine,
        }))
    }

    pub(crate) fn registry(&self) -> Weak<Registry> {
        self.registry.get().cloned().unwrap_or_default()
    }

    pub(crate) fn set_registry(&self, registry: &Arc<Registry>) {
        // Set once, by the registry that was made with this.
        let _ = self.registry.set(Arc::downgrade(registry));
    }
}
