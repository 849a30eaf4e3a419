//! One hook of all plugins, called one after the other.

use super::words::bounded;
use crate::bindings::pinion::plugin::types::CallContext;
use crate::calls::instance::{FinishedJob, InstanceJob, Setup};
use crate::calls::state::NoProgress;
use crate::convert;
use crate::registry::loaded::Loaded;
use crate::runtime::Runtime;
use pinion_plugin_limits::{FaultKind, PluginFault};
use pinion_protocol::{HookAnswer, HookCall, HookPoint, Ledger};
use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;
use tokio_util::sync::CancellationToken;

/// Time that a call has to notice its deadline by itself.
const PATIENCE: Duration = Duration::from_millis(500);

/// The occasion of a hook.
#[derive(Clone, Copy)]
pub(super) struct Occasion<'a> {
    pub(super) point: HookPoint,
    pub(super) call_id: &'a str,
    pub(super) session_id: &'a str,
    pub(super) token: &'a CancellationToken,
}

/// The end of one call of a hook: the guest's answer, or the error that the user sees.
struct HookCallResult<A> {
    answer: Result<A, String>,
    ledger: Option<Ledger>,
}

/// The calls of one hook, of all plugins that have it.
pub(super) struct HookRound<'a> {
    runtime: &'a Runtime,
    on: Occasion<'a>,
    /// The plugins to ask, in the order of their loading.
    plugins: IntoIter<Arc<Loaded>>,
    /// The plugin that answered last, and the resources that its call used.
    last: (String, Option<Ledger>),
    /// The answers that were recorded.
    pub(super) calls: Vec<HookCall>,
}

impl<'a> HookRound<'a> {
    pub(super) fn new(runtime: &'a Runtime, on: Occasion<'a>) -> Self {
        let plugins: Vec<Arc<Loaded>> = runtime.registry.current().hooked(on.point).cloned().collect();
        Self { runtime, on, plugins: plugins.into_iter(), last: (String::new(), None), calls: Vec::new() }
    }

    /// Calls the hook of the next plugin. Returns the plugin's name, and its answer or the error that the user sees; `None`
    /// after the last plugin.
    pub(super) async fn ask_next<J: InstanceJob>(
        &mut self,
        mut job: impl FnMut(CallContext) -> J,
    ) -> Option<(String, Result<J::Answer, String>)> {
        for found in self.plugins.by_ref() {
            let asked = self.runtime.ask_plugin(&found, self.on, &mut job).await;
            let Some(HookCallResult { answer, ledger }) = asked else { continue };
            let plugin = found.program().name.to_string();
            self.last = (plugin.clone(), ledger);
            return Some((plugin, answer));
        }
        None
    }

    /// Records the decision of the plugin that answered last.
    pub(super) fn record(&mut self, answer: HookAnswer, text: &str) {
        let (plugin, ledger) = std::mem::take(&mut self.last);
        self.calls.push(HookCall { point: self.on.point, plugin, answer, text: text.to_owned(), ledger });
    }
}

impl Runtime {
    /// Calls the hook of a plugin in its current generation. `None` if that has no such hook any more.
    async fn ask_plugin<J: InstanceJob>(
        &self,
        found: &Arc<Loaded>,
        on: Occasion<'_>,
        job: impl FnOnce(CallContext) -> J,
    ) -> Option<HookCallResult<J::Answer>> {
        let plugin = &found.program().name;
        let refreshed = self.registry.refreshed(found, on.token);
        let loaded = if found.generation.is_described() {
            refreshed.await
        } else {
            // Calls of all plugins wait for this one.
            let patience = Duration::from_millis(found.hook_program().limits.deadline_ms);
            tokio::time::timeout(patience, refreshed).await.unwrap_or_else(|_| Some(found.clone()))
        };
        let Some(loaded) = loaded else {
            // Gone with its file, or lost: then its answer is unknown.
            let problem = self.registry.problem(plugin)?;
            return Some(HookCallResult {
                answer: Err(bounded(&format!("it was not loaded: {problem}"))),
                ledger: None,
            });
        };
        if !loaded.generation.has_hook(on.point) {
            return None;
        }
        let program = loaded.hook_program();
        let context = CallContext {
            call_id: on.call_id.to_owned(),
            session_id: on.session_id.to_owned(),
            workspace: self.shared.workspace.to_string_lossy().into_owned(),
            deadline_ms: convert::count(program.limits.deadline_ms),
            extra: None,
        };
        let setup = Setup {
            services: None,
            session: on.session_id.into(),
            authority: program.authority.for_command(),
            token: on.token.clone(),
            progress: Arc::new(NoProgress),
            agents: None,
        };
        let limit_ms = program.limits.deadline_ms;
        let running = loaded.run_as(&self.shared, program, setup, job(context));
        let ended = tokio::time::timeout(Duration::from_millis(limit_ms) + PATIENCE, running).await;
        let FinishedJob { result, ledger } =
            ended.unwrap_or_else(|_| FinishedJob::fault(program, FaultKind::Deadline { limit_ms }));
        // Without its hint: raising a limit of tool calls would not help.
        let answer = result.map_err(|fault: PluginFault| bounded(&fault.to_string()));
        Some(HookCallResult { answer, ledger: Some(ledger) })
    }
}
