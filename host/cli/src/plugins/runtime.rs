//! The plugin runtime of a command.

use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::plugins::policy::{Binding, Policy};
use pinion_plugin_runtime::{Compiler, HostInfo, NoInfo, Notice, Runtime, RuntimeConfig};
use std::sync::Arc;

/// Argument with which this program compiles a component for its parent process and then exits.
pub(crate) const COMPILE_COMPONENT: &str = "compile-component-for-parent";

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
        let config = RuntimeConfig {
            workspace: self.workspace.clone(),
            cache: self.compiled_code(),
            policy: Arc::new(policy),
            engine_limits: self.config.engine_limits.clone(),
            compiler: compiler(),
            host: self.host_directories(),
            info,
        };
        Runtime::new(config, on_notice).map_err(Failure::from)
    }
}

/// Returns this program as the compiler of components, in a process of its own.
pub(crate) fn compiler() -> Option<Compiler> {
    let program = std::env::current_exe().ok()?;
    Some(Compiler { program, arguments: vec![COMPILE_COMPONENT.into()] })
}
