//! The built-in plugins of a run, without which it does not continue.

use crate::failure::{Failure, Result};
use crate::options::RunOptions;
use crate::plugins::sources::Purpose;
use crate::process::hardening::address_space;
use crate::workspace_base::Base;
use futures_util::future::BoxFuture;
use pinion_agent::hooks::HookVerdict;
use pinion_agent::{Context, Hooks};
use pinion_plugin_runtime::Runtime;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// Address space that suffices to call several plugins at once.
const ADDRESS_SPACE_OF_PLUGINS: u64 = 32 << 30;

/// Words of the system about the limit on open files.
const TOO_MANY_OPEN: &str = "Too many open files";

/// The built-in plugins that a run needs.
///
/// A plugin that the cache describes loads its code when it is called first, so it may be lost while a run works. Then
/// the run ends before its next turn: the user did not ask for a run without tools.
pub(crate) struct BuiltIns {
    names: Vec<&'static str>,
    runtime: Arc<Runtime>,
    /// The first loss, with its cause.
    lost: OnceLock<String>,
}

impl BuiltIns {
    /// Returns the plugins that a run with these options needs: an empty list if it has no tools.
    pub(crate) fn for_run(base: &Base, options: &RunOptions, purpose: Purpose, runtime: &Arc<Runtime>) -> Self {
        let names = base.built_in(options, purpose).filter(|_| !options.no_tools).map(|plugin| plugin.name).collect();
        Self { names, runtime: runtime.clone(), lost: OnceLock::new() }
    }

    /// Fails if a plugin is missing, now or since an earlier check.
    pub(crate) fn check(&self) -> Result<()> {
        let without = "run with --no-builtin-plugins to do without the built-in tools";
        match (self.lost(), address_space()) {
            (None, _) => Ok(()),
            (Some(lost), Some(limit)) if limit < ADDRESS_SPACE_OF_PLUGINS => Err(Failure::failed(lost).hint(format!(
                "raise the limit on address space (ulimit -v), of which each call of a plugin reserves 4 GiB, or {without}"
            ))),
            (Some(lost), _) if lost.contains(TOO_MANY_OPEN) => Err(Failure::failed(lost).hint(format!(
                "raise the limit on open files (`ulimit -n 1024`), of which a run needs 64, or {without}"
            ))),
            (Some(lost), _) if lost.contains("`ulimit -f`") => Err(Failure::failed(lost).hint(format!(
                "raise the limit on the size of files (`ulimit -f unlimited`), or {without}"
            ))),
            (Some(lost), _) => Err(Failure::failed(lost).hint(without)),
        }
    }

    fn lost(&self) -> Option<&str> {
        if let Some(missing) = self.names.iter().find(|name| !self.runtime.has_plugin(name)) {
            let causes: Vec<String> = self.runtime.problems().into_iter().map(|(_, problem)| problem).collect();
            let text = || format!("the built-in plugin `{missing}` was not loaded: {}", causes.join("; "));
            return Some(self.lost.get_or_init(text));
        }
        self.lost.get().map(String::as_str)
    }
}

impl Hooks for BuiltIns {
    fn before_turn<'a>(&'a self, _: &'a Context, _: u32, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        let verdict = self.lost().map_or(HookVerdict::Pass, |lost| HookVerdict::Deny(lost.to_owned()));
        Box::pin(async { verdict })
    }
}
