//! The runtime, as an application uses it.

use crate::calls::hooks::observers::Observers;
use crate::calls::hooks::run_hooks::StartedSessions;
use crate::loading::describe::describe;
use crate::loading::description_cache::Described;
use crate::loading::source::PluginSource;
use crate::registry::Registry;
use crate::registry::listing::PluginInfo;
use crate::registry::load_attempt::Loading;
use crate::registry::notice::Notice;
use crate::registry::watch::{PluginDirectory, Watch, WatchError};
use crate::runtime_shared::{RuntimeConfig, Shared, StartingEngine};
use pinion_egress::Client;
use pinion_plugin_engine::EngineError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Loads plugins and runs their tools and commands.
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) observers: Observers,
    /// The sessions whose start was announced to plugins.
    pub(crate) sessions: StartedSessions,
}

impl Runtime {
    /// Starts the engine; loads nothing yet. `on_notice` is called for every plugin that is loaded, refused or removed, from
    /// any thread, and must not block.
    ///
    /// # Errors
    /// The engine does not start on this machine.
    pub fn new(config: RuntimeConfig, on_notice: impl Fn(Notice) + Send + Sync + 'static) -> Result<Self, EngineError> {
        Self::with_client(config, Client::default(), on_notice)
    }

    /// Starts the engine, as [`Runtime::new`] does, with another HTTP client for the requests of all plugins.
    ///
    /// # Errors
    /// The engine does not start on this machine.
    pub fn with_client(
        config: RuntimeConfig,
        client: Client,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Self, EngineError> {
        let engine = StartingEngine::begin(config.engine_limits.clone());
        Self::with_parts(config, engine, client, on_notice)
    }

    /// Waits for an engine that was begun with the limits of `config`, while the application prepared the rest.
    ///
    /// # Errors
    /// The engine does not start on this machine.
    pub fn with_engine(
        config: RuntimeConfig,
        engine: StartingEngine,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Self, EngineError> {
        Self::with_parts(config, engine, Client::default(), on_notice)
    }

    fn with_parts(
        config: RuntimeConfig,
        engine: StartingEngine,
        client: Client,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Self, EngineError> {
        let core = engine.started()?;
        let registry = Registry::new(|plugins| Shared::new(config, core, client, plugins), Box::new(on_notice));
        Ok(Self {
            shared: registry.shared.clone(),
            registry,
            observers: Observers::default(),
            sessions: StartedSessions::default(),
        })
    }

    /// Loads plugins concurrently and waits until each was loaded or refused; where names collide, the first source wins.
    /// A refusal is reported as a notice and listed by [`Runtime::problems`]; it does not affect the other plugins.
    pub async fn add(&self, sources: Vec<PluginSource>) {
        self.begin(sources).settled().await;
    }

    /// Begins to load plugins, as [`Runtime::add`] does, and returns immediately. Each plugin answers as soon as it is
    /// loaded; where names collide, the first source wins even when it is ready last. Must be called within a tokio
    /// runtime; dropping this runtime gives up plugins that are not loaded.
    pub fn begin(&self, sources: Vec<PluginSource>) -> Loading {
        self.registry.begin(sources)
    }

    /// Reloads plugins whose files have changed, and waits until each was loaded or refused.
    pub async fn refresh(&self) {
        self.begin_refresh().settled().await;
    }

    /// Begins to reload plugins whose files have changed, and returns immediately.
    pub fn begin_refresh(&self) -> Loading {
        self.registry.begin_refresh()
    }

    /// Loads the code of plugins that are known only by their descriptions in the cache, and waits until each was loaded
    /// or refused. Without this, the first call of each does so.
    pub async fn load_code(&self) {
        self.registry.begin_code(None).settled().await;
    }

    /// Begins to load the code of one plugin that is known only by its description, because a call of it is likely.
    pub fn begin_code(&self, plugin: &str) -> Loading {
        self.registry.begin_code(Some(plugin))
    }

    /// Begins to ask plugins for their offers, with their grants, if their tools and commands change while they run:
    /// now, after each load, and when they report a change. Until then, the lists that they returned without any
    /// authority count. Must be called within a tokio runtime.
    pub fn begin_offers(&self) {
        self.registry.begin_offers();
    }

    /// Waits until every loaded plugin was asked once since its load; ten seconds and the calls that it runs bound the time.
    pub async fn offers_settled(&self) {
        self.registry.offers_settled().await;
    }

    /// Returns whether a loaded plugin may offer other tools and commands later.
    pub fn has_changing_offers(&self) -> bool {
        self.registry.current().loaded().iter().any(|loaded| loaded.generation.has_offers())
    }

    /// The names of plugins, or of their files, that are being loaded for the first time.
    pub fn being_loaded(&self) -> Vec<String> {
        self.registry.being_loaded()
    }

    /// Reloads files that change, and plugins with a different decision of the policy, as long as the result lives.
    /// Files named `*.wasm` that appear in `directories` are loaded, too.
    ///
    /// # Errors
    /// The system cannot watch. Calls still check their plugin's file themselves.
    pub fn watch(&self, directories: Vec<PluginDirectory>) -> Result<Watch, WatchError> {
        let files = watched_files(&self.registry);
        Watch::start(self.registry.clone(), &files, directories)
    }

    /// Like [`Self::watch`], but begins after a time, and then also finds what changed until then. For short runs: on Linux,
    /// the end of a process that watches waits about 10 ms for the system.
    pub fn watch_after(&self, delay: Duration, directories: Vec<PluginDirectory>) -> Watch {
        Watch::start_after(delay, self.registry.clone(), watched_files, directories)
    }

    /// Says that a session continues which was last active at `since`, in another process. Tools that replace whole files
    /// refuse those that changed since then until the session has read them.
    pub fn continue_session(&self, session: Arc<str>, since: SystemTime) {
        self.shared.read_files.continue_session(session, since);
    }

    /// Returns the description of a plugin whose code is loaded, as [`PluginSource::BuiltIn`] embeds it; `None` for other
    /// plugins, and for a plugin that fails to describe itself.
    pub async fn description(&self, plugin: &str) -> Option<String> {
        let current = self.registry.current();
        let loaded = current.loaded().iter().find(|loaded| *loaded.program().name == *plugin)?;
        let generation = &loaded.generation;
        let description = describe(&self.shared, &generation.program, &generation.inspection).await.ok()?;
        let described =
            Described::new(generation.inspection.clone(), &generation.digest, &generation.program.config, description);
        serde_json::to_string_pretty(&described).ok()
    }

    /// Returns whether a plugin of this name answers calls.
    pub fn has_plugin(&self, name: &str) -> bool {
        self.registry.current().loaded().iter().any(|loaded| *loaded.program().name == *name)
    }

    /// Returns whether the plugin from this source answers calls.
    pub fn has_source(&self, source: &PluginSource) -> bool {
        self.registry.current().loaded().iter().any(|loaded| loaded.source() == source)
    }

    /// Returns the number of plugins whose code is in memory now, those aside whose code always stays.
    pub fn code_in_memory(&self) -> usize {
        self.shared.code_in_memory.count()
    }

    /// The plugins that answer calls, with everything that people see of them.
    pub fn plugins(&self) -> Vec<PluginInfo> {
        self.registry.current().infos()
    }

    /// The sources that did not load: the name of the plugin or of its file, and the error with its hint.
    pub fn problems(&self) -> Vec<(String, String)> {
        self.registry.current().problems().to_vec()
    }
}

/// Returns the files of the plugins, and those that the policy reads.
fn watched_files(registry: &Registry) -> Vec<PathBuf> {
    let current = registry.current();
    let plugins = current.loaded().iter().filter_map(|loaded| Some(loaded.source().path()?.to_owned()));
    plugins.chain(registry.shared.policy.files()).collect()
}
