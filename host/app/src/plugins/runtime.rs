//! The plugin runtime of a command.

use crate::failure::{Failure, Result};
use crate::plugins::policy::{Binding, RuntimePolicy};
use crate::process::own_command::{COMPILE_COMPONENT, guard_command, own_command};
use crate::run::journal::SessionJournal;
use crate::run::notices::announce_compiling;
use crate::workspace_base::Base;
use pinion_plugin_runtime::{
    Compiler, HostInfo, NoInfo, Notice, Runtime, RuntimeConfig, StartingEngine, guard_programs,
};
use std::sync::Arc;

impl Base {
    /// Begins to start the engine of a plugin runtime.
    pub fn begin_engine(&self) -> StartingEngine {
        StartingEngine::begin(self.config.engine_limits.clone())
    }

    /// Creates a plugin runtime with nothing loaded.
    pub fn runtime(
        &self,
        engine: StartingEngine,
        info: Arc<dyn HostInfo>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Runtime> {
        self.recorded_runtime(engine, info, SessionJournal::default(), on_notice)
    }

    /// Creates a plugin runtime with nothing loaded, whose calls are recorded in a journal.
    pub(crate) fn recorded_runtime(
        &self,
        engine: StartingEngine,
        info: Arc<dyn HostInfo>,
        journal: SessionJournal,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Runtime> {
        let config = self.runtime_config(RuntimePolicy::new(self, Binding::Bind, None), info);
        let config = RuntimeConfig { journal: journal.sink(), ..config };
        Runtime::with_engine(config, engine, on_notice).map_err(Failure::from)
    }

    /// Creates a runtime for inspection, which binds no grants to loaded files.
    pub fn showing(&self) -> Result<Runtime> {
        let (policy, screen) = (RuntimePolicy::new(self, Binding::LookOnly, None), self.screen.clone());
        self.runtime_with(self.begin_engine(), policy, Arc::new(NoInfo), move |notice| {
            announce_compiling(&*screen, &notice)
        })
    }

    /// Creates a runtime with a policy and nothing loaded.
    pub fn runtime_with(
        &self,
        engine: StartingEngine,
        policy: RuntimePolicy,
        info: Arc<dyn HostInfo>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Runtime> {
        Runtime::with_engine(self.runtime_config(policy, info), engine, on_notice).map_err(Failure::from)
    }

    fn runtime_config(&self, policy: RuntimePolicy, info: Arc<dyn HostInfo>) -> RuntimeConfig {
        if let Some((program, arguments)) = guard_command(&self.paths.removed()) {
            guard_programs(program, arguments);
        }
        RuntimeConfig {
            workspace: self.workspace.clone(),
            cache: self.compiled_code(),
            policy: Arc::new(policy),
            engine_limits: self.config.engine_limits.clone(),
            compiler: own_command(COMPILE_COMPONENT).map(|(program, arguments)| Compiler { program, arguments }),
            host: self.host_directories(),
            exclusions: self.config.exclusions.clone(),
            confinement: self.confinement(),
            mcp: Some(self.mcp_adapter()),
            info,
            journal: None,
        }
    }
}
