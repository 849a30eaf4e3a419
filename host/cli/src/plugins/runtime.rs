//! The plugin runtime of a command.

use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::plugins::policy::{Binding, Policy};
use pinion_plugin_runtime::{Compiler, HostInfo, NoInfo, Notice, Runtime, RuntimeConfig};
use std::sync::Arc;

/// The argument with which this program compiles a component for another process of itself, and does nothing else.
pub(crate) const COMPILE_COMPONENT: &str = "compile-component-for-parent";

impl Base {
    /// The plugin runtime, with nothing loaded.
    pub(crate) fn runtime(
        &self,
        info: Arc<dyn HostInfo>,
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Runtime> {
        self.runtime_with(Policy::new(self, Binding::Bind, None), info, on_notice)
    }

    /// A runtime that shows plugins and runs none: no grants are bound to what it loads.
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

/// This program, as the one that compiles components in a process of its own.
pub(crate) fn compiler() -> Option<Compiler> {
    let program = std::env::current_exe().ok()?;
    Some(Compiler { program, arguments: vec![COMPILE_COMPONENT.into()] })
}
