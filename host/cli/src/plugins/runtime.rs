//! The plugin runtime of a command.

use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::plugins::policy::{Binding, Policy};
use pinion_plugin_runtime::{Compiler, HostInfo, NoInfo, Notice, Runtime, RuntimeConfig, guard_programs};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Argument with which this program compiles a component for its parent process and then exits.
pub(crate) const COMPILE_COMPONENT: &str = "compile-component-for-parent";

/// Argument with which this program guards the programs that plugins of its parent process run.
pub(crate) const GUARD_PROGRAMS: &str = "guard-programs-of-parent";

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

/// Returns the command that runs this program with an argument, for work in a process of its own.
pub(crate) fn own_command(argument: &str) -> Option<(PathBuf, Vec<OsString>)> {
    Some((std::env::current_exe().ok()?, vec![argument.into()]))
}
