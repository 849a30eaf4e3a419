//! The plugin runtime of a command.

use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::plugins::policy::{Binding, Policy};
use crate::process::own_command::{COMPILE_COMPONENT, GUARD_PROGRAMS, own_command};
use pinion_plugin_runtime::{Compiler, HostInfo, NoInfo, Notice, Runtime, RuntimeConfig, guard_programs};
use std::sync::Arc;

impl Base {
    /// Creates a plugin runtime with nothing loaded.
    pub(crate) fn runtime(
        &self,
        info: Arc<dyn HostInfo>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Runtime> {
        self.runtime_with(Policy::new(self, Binding::Bind, None), info, on_notice)
    }

    /// Creates a runtime for inspection, which binds no grants to what it loads.
    pub(crate) fn showing(&self, on_notice: impl Fn(Notice) + Send + Sync + 'static) -> Result<Runtime> {
        self.runtime_with(Policy::new(self, Binding::LookOnly, None), Arc::new(NoInfo), on_notice)
    }

    pub(crate) fn runtime_with(
        &self,
        policy: Policy,
        info: Arc<dyn HostInfo>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Runtime> {
        if let Some((program, arguments)) = own_command(GUARD_PROGRAMS) {
            guard_programs(program, arguments);
        }
        let config = RuntimeConfig {
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
        };
        Runtime::new(config, on_notice).map_err(Failure::from)
    }
}
