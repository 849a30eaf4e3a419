//! The agent's way to tools: [`ToolExecutor`] for a [`Runtime`].

use crate::bindings::pinion::plugin::types::{self as wit, CallContext};
use crate::calls::instance::{InstanceJob, Live, Setup};
use crate::calls::progress_relay::Relay;
use crate::convert;
use crate::plain;
use crate::registry::loaded::Loaded;
use crate::runtime::Runtime;
use futures_util::future::BoxFuture;
use pinion_plugin_limits::{FaultKind, GuestError, PluginFault};
use pinion_plugin_offers::lists::ListedTool;
use pinion_protocol::{
    Authority, Instructions, Ledger, ServedTool, ToolDefinition, ToolError, ToolExecutor, ToolInvocation, ToolProgress,
    ToolReply,
};
use std::sync::Arc;

/// The explanation of an error that WASI reports without its cause.
const NO_HANDLES: &str =
    "the host has no file descriptor left: too many open files\nhint: raise the limit on open files (ulimit -n)";

impl ToolExecutor for Runtime {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.registry.current().tools().cloned().collect()
    }

    fn instructions(&self) -> Vec<Instructions> {
        self.registry.current().instructions().cloned().collect()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            let name = call.tool.name.clone();
            let Some((loaded, tool)) = self.registry.tool(&name, &call.token).await else {
                return Err(self.missing(&call.tool)).into();
            };
            // The call may have been cancelled while its plugin was reloaded.
            if call.token.is_cancelled() {
                return Err(ToolError::Cancelled { tool: name }).into();
            }
            // The generation that answers must be the one that was approved. It is held until the call ends.
            let current = &loaded.get(tool).definition;
            if !Arc::ptr_eq(current, &call.tool) && !current.is_same_version(&call.tool) {
                return Err(ToolError::Changed { tool: name }).into();
            }
            let declared = loaded.get(tool).effects.cut_to(call.at_most);
            // An import is not a need: a plain component runs without the grant.
            let is_plain = loaded.generation.inspection.exports.functions;
            if let Some(denied) = loaded.program().authority.missing(declared).filter(|_| !is_plain) {
                return Err(ToolError::Denied { tool: name, reason: denied.to_string() }).into();
            }
            let relay = Arc::new(Relay::default());
            let setup = Setup {
                session: call.session_id.clone(),
                authority: loaded.program().authority.for_tool(declared),
                token: call.token.clone(),
                progress: relay.clone(),
                agents: call.agents.clone().filter(|_| loaded.get(tool).definition.authority.delegates),
                services: call.services.clone(),
            };
            let job = CallTool {
                context: CallContext {
                    extra: loaded.get(tool).route.as_ref().map(|route| format!("{{\"route\":{route}}}")),
                    ..self.call_context(&loaded, call.call_id.clone(), call.session_id.to_string())
                },
                name: name.clone(),
                input: call.arguments.to_string(),
                declared: loaded.get(tool).effects,
                is_current: loaded.generation.has_offers().then(|| self.is_current(&loaded, &call.tool)),
            };
            let finished = {
                let running = loaded.run(&self.shared, setup, job);
                tokio::pin!(running);
                loop {
                    tokio::select! {
                        biased;
                        finished = &mut running => break finished,
                        () = relay.news() => relay.pass_on(progress),
                    }
                }
            };
            relay.pass_on(progress);
            match finished.result {
                Ok(Some(answer)) => reply(&name, &loaded, Ok(answer), finished.ledger),
                Ok(None) => Err(self.replaced(&call.tool)).into(),
                Err(fault) => reply(&name, &loaded, Err(fault), finished.ledger),
            }
        })
    }
}

impl Runtime {
    /// Returns all tools with the properties that only the clients of a server see. Tools that serve only as resources
    /// are not among the [`definitions`](ToolExecutor::definitions), but can be called.
    pub fn served_tools(&self) -> Vec<ServedTool> {
        let served = |tool: &ListedTool| ServedTool {
            definition: tool.definition.clone(),
            resource: tool.served.resource.clone(),
            task: tool.served.task,
        };
        self.registry.current().all_tools().map(served).collect()
    }

    /// Returns all tools, like [`Runtime::served_tools`].
    pub fn all_definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.registry.current().all_tools().map(|tool| tool.definition.clone()).collect()
    }

    /// The error of a call whose plugin is gone, or did not load when it was called for the first time.
    fn missing(&self, tool: &ToolDefinition) -> ToolError {
        let (name, plugin) = (tool.name.clone(), &tool.source.plugin);
        match self.registry.problem(plugin) {
            Some(problem) => {
                ToolError::Fault { tool: name, source: format!("plugin `{plugin}` was not loaded: {problem}").into() }
            }
            None if self.registry.current().may_have_offered(tool) => {
                let message = format!("the plugin `{plugin}` no longer offers `{name}`");
                ToolError::Failed { tool: name, message, retryable: false }
            }
            None => ToolError::UnknownTool { tool: name, suggestions: Vec::new() },
        }
    }

    /// The error of a call whose tool was replaced while the call waited for the instance.
    fn replaced(&self, tool: &ToolDefinition) -> ToolError {
        match self.registry.current().tool(&tool.name) {
            Some(_) => ToolError::Changed { tool: tool.name.clone() },
            None => self.missing(tool),
        }
    }

    /// Asks, once the instance is free for a call, whether its plugin still offers the approved definition.
    fn is_current(&self, loaded: &Loaded, approved: &Arc<ToolDefinition>) -> Box<dyn Fn() -> bool + Send> {
        let (registry, generation) = (Arc::downgrade(&self.registry), loaded.generation.clone());
        let approved = approved.clone();
        Box::new(move || {
            let Some(registry) = registry.upgrade() else { return false };
            let current = registry.current();
            let mut loaded = current.loaded().iter();
            // A call ends on the generation that it began on, also after a reload.
            let Some(own) = loaded.find(|loaded| Arc::ptr_eq(&loaded.generation, &generation)) else { return true };
            own.lists.tool(&approved.name).is_some_and(|tool| tool.definition.is_same_version(&approved))
        })
    }

    /// The context of a call, as the guest gets it.
    pub(super) fn call_context(&self, loaded: &Loaded, call_id: String, session_id: String) -> CallContext {
        CallContext {
            call_id,
            session_id,
            workspace: self.shared.workspace.to_string_lossy().into_owned(),
            deadline_ms: convert::count(loaded.program().limits.deadline_ms),
            extra: None,
        }
    }
}

/// One tool call.
struct CallTool {
    context: CallContext,
    name: String,
    input: String,
    /// The effects that the tool declares, also where the caller may not pass all of them on.
    declared: Authority,
    /// Returns whether a tool is still the approved one, for plugins whose tools change while they run.
    is_current: Option<Box<dyn Fn() -> bool + Send>>,
}

impl InstanceJob for CallTool {
    /// `None` if the tool was replaced.
    type Answer = Option<Result<wit::ToolOutput, wit::ToolError>>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        if self.is_current.as_ref().is_some_and(|is_current| !is_current()) {
            return Ok(None);
        }
        let answer = match live.functions() {
            Some(functions) => plain::call::call(live, &functions, &self.name, &self.input).await?,
            None => {
                let export = live.exported().tools.ok_or(GuestError::NotExported("tools"))?;
                let parameters = (&self.context, self.name.as_str(), self.input.as_str());
                let (answer,) = live.call(&export.call_tool, parameters).await?;
                answer
            }
        };
        let bytes = answer.as_ref().map_or_else(convert::error_bytes, convert::output_bytes);
        live.state().spend_output(bytes)?;
        let state = live.state();
        let files = &state.account.capabilities.files;
        let why = match (&files.excluded, files.lacked_handles, files.looked_in_vain) {
            (Some(denied), ..) => Some(denied.to_string()),
            (_, true, _) => Some(NO_HANDLES.to_owned()),
            (_, _, true) => state.call.authority.why_no_files(&self.name, self.declared),
            _ => None,
        };
        let memory = state.why_no_memory();
        Ok(Some(answer.map_err(|error| explained(error, why, memory))))
    }
}

/// Adds the reasons to an error that the plugin could not explain: why there were no files, and why no memory.
fn explained(mut error: wit::ToolError, files: Option<String>, memory: Option<String>) -> wit::ToolError {
    use wit::ErrorKind::{Denied, Failed, NotFound};
    let files = files.filter(|_| matches!(error.kind, NotFound | Denied | Failed));
    for why in files.into_iter().chain(memory) {
        error.message.push('\n');
        error.message.push_str(&why);
    }
    error
}

fn reply(
    tool: &str,
    loaded: &Loaded,
    result: Result<Result<wit::ToolOutput, wit::ToolError>, PluginFault>,
    ledger: Ledger,
) -> ToolReply {
    let plugin = &loaded.program().name;
    let result = match result {
        Ok(answer) => {
            let converted = match answer {
                Ok(output) => convert::tool_output(output).map(Ok),
                Err(error) => convert::tool_error(tool, error),
            };
            converted.unwrap_or_else(|message| Err(fault(tool, FaultKind::Contract { message }.for_plugin(plugin))))
        }
        Err(PluginFault { kind: FaultKind::Cancelled, .. }) => Err(ToolError::Cancelled { tool: tool.to_owned() }),
        Err(other) => Err(fault(tool, other)),
    };
    ToolReply { result, ledger: Some(ledger) }
}

fn fault(tool: &str, fault: PluginFault) -> ToolError {
    ToolError::Fault { tool: tool.to_owned(), source: Box::new(fault) }
}
