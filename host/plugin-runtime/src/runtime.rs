//! What all plugins share, and how it is put together.

use crate::cache::{Cache, CacheKey};
use crate::capability::{Surroundings, Workspace};
use crate::catalog::HostInfo;
use crate::descriptors::Descriptors;
use crate::engine::{Engine, EngineError};
use crate::host;
use crate::instance::Setup;
use crate::limits::{EngineLimits, LimitsFile};
use crate::listing::PluginInfo;
use crate::pagemap;
use crate::policy::PluginPolicy;
use crate::protected::{HostDirectories, Protected};
use crate::registry::{Notice, Registry, Source};
use crate::reload::{PluginDirectory, Watch, WatchError};
use crate::state::State;
use pinion_agent::MAX_AGENT_DEPTH;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::Semaphore;
use wasmtime::component::Linker;

/// How a runtime is to be.
pub struct RuntimeConfig {
    /// The workspace root, absolute.
    pub workspace: PathBuf,
    /// Where compiled code is kept, and the secret that seals it; none compiles everything anew.
    pub cache: Option<(PathBuf, CacheKey)>,
    /// Decides which components are loaded and what each is granted. A map from names to
    /// [`PluginSettings`](crate::generation::PluginSettings) is one, for programs that choose every component themselves.
    pub policy: Arc<dyn PluginPolicy>,
    /// Limits that are the same for all plugins; none takes the built-in ones.
    pub engine_limits: Option<EngineLimits>,
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

    /// Loads plugins, side by side; where names collide, the one that comes first wins. What goes wrong is told as a
    /// notice and stands in [`Runtime::problems`]; the others are loaded all the same.
    pub async fn add(&self, sources: Vec<Source>) {
        self.registry.add(sources).await;
    }

    /// Looks at all plugin files, and loads those anew that have changed.
    pub async fn refresh(&self) {
        self.registry.refresh().await;
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

/// Whose turn it is to run. Calls that may wait for sub-agents have permits of their own, by how deep these may be
/// nested: the calls of sub-agents must get theirs while those wait that they work for.
pub(crate) struct Permits {
    calls: Arc<Semaphore>,
    delegating: [Arc<Semaphore>; MAX_AGENT_DEPTH as usize],
}

impl Permits {
    fn new(limits: &EngineLimits) -> Self {
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        let delegating = std::array::from_fn(|_| semaphore(limits.delegating_calls()));
        Self { calls: semaphore(limits.concurrent_calls), delegating }
    }

    /// Those for a call.
    pub(crate) fn of(&self, setup: &Setup) -> &Arc<Semaphore> {
        let depth = setup.agents.as_ref().map_or(0, |agents| agents.depth_left() as usize);
        depth.checked_sub(1).and_then(|at| self.delegating.get(at)).unwrap_or(&self.calls)
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
    pub(crate) info: Arc<dyn HostInfo>,
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
        let linker = host::linker(&engine).map_err(EngineError::from_wasmtime)?;
        Ok(Arc::new(Self {
            linker,
            cache: config.cache.and_then(|(folder, key)| Cache::open(&folder, &key)),
            permits: Permits::new(&limits.engine),
            limits,
            workspace: config.workspace,
            surroundings: Surroundings { workspace, protected },
            descriptors: Descriptors::new(),
            info: config.info,
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
