//! The agent's way to tools: [`ToolExecutor`] for a [`Runtime`].

use crate::bindings::pinion::plugin::types::{self as wit, CallContext};
use crate::fault::PluginFault;
use crate::host::progress::content;
use crate::instance::{CallTool, Setup};
use crate::registry::Loaded;
use crate::runtime::Runtime;
use futures_util::future::BoxFuture;
use pinion_agent::{
    Content, Display, Ledger, ToolDefinition, ToolError, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress,
    ToolReply,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Media types that models take.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

impl ToolExecutor for Runtime {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.registry.catalog().tools().cloned().collect()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            let name = call.tool.name.clone();
            let Some((loaded, tool)) = self.registry.tool(&name, &call.token).await else {
                return Err(ToolError::UnknownTool { tool: name, suggestions: Vec::new() }).into();
            };
            // It may have been cancelled while its plugin was reloaded.
            if call.token.is_cancelled() {
                return Err(ToolError::Cancelled { tool: name }).into();
            }
            // The generation that answers now must be the one that was decided on. It is held until the call ends.
            let current = &loaded.get(tool).definition;
            if !Arc::ptr_eq(current, &call.tool) && !current.is_same_version(&call.tool) {
                return Err(ToolError::Changed { tool: name }).into();
            }
            let declared = loaded.get(tool).effects.cut_to(call.at_most);
            if let Some(denied) = loaded.program().authority.missing(declared) {
                return Err(ToolError::Denied { tool: name, reason: denied.to_string() }).into();
            }
            let relay = Arc::new(Relay::default());
            let setup = Setup {
                authority: loaded.program().authority.for_tool(declared),
                token: call.token.clone(),
                progress: relay.clone(),
                agents: call.agents.clone().filter(|_| loaded.get(tool).definition.authority.delegates),
            };
            let job = CallTool {
                context: self.context(&loaded, &call),
                name: name.clone(),
                arguments: call.arguments.to_string(),
            };
            let finished = {
                let running = loaded.run(&self.shared, setup, job);
                tokio::pin!(running);
                loop {
                    tokio::select! {
                        biased;
                        finished = &mut running => break finished,
                        () = relay.news.notified() => relay.pass_on(progress),
                    }
                }
            };
            relay.pass_on(progress);
            reply(&name, &loaded, finished.result, finished.ledger)
        })
    }
}

impl Runtime {
    fn context(&self, loaded: &Loaded, call: &ToolInvocation) -> CallContext {
        CallContext {
            call_id: call.call_id.clone(),
            session_id: call.session_id.to_string(),
            workspace: self.shared.workspace.to_string_lossy().into_owned(),
            deadline_ms: loaded.program().limits.deadline_ms,
        }
    }
}

/// Progress on its way from the guest's thread to the one that waits for it. Bounded: of updates only the latest is
/// kept, of lines the last few.
#[derive(Default)]
struct Relay {
    waiting: Mutex<Waiting>,
    news: tokio::sync::Notify,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<String>,
    update: Option<Vec<Content>>,
}

/// Lines that wait at most.
const MAX_LINES: usize = 64;

impl Relay {
    fn pass_on(&self, progress: &dyn ToolProgress) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.lines.into_iter().for_each(|line| progress.report(line));
        if let Some(update) = waiting.update {
            progress.update(update);
        }
    }

    fn put(&self, put: impl FnOnce(&mut Waiting)) {
        put(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.news.notify_one();
    }
}

impl ToolProgress for Relay {
    fn report(&self, message: String) {
        self.put(|waiting| {
            if waiting.lines.len() == MAX_LINES {
                waiting.lines.remove(0);
            }
            waiting.lines.push(message);
        });
    }

    fn update(&self, partial: Vec<Content>) {
        self.put(|waiting| waiting.update = Some(partial));
    }
}

fn reply(
    tool: &str,
    loaded: &Loaded,
    result: Result<Result<wit::ToolOutput, wit::ToolError>, PluginFault>,
    ledger: Ledger,
) -> ToolReply {
    let plugin = &loaded.program().name;
    let result = match result {
        Ok(Ok(output)) => self::output(output)
            .map_err(|message| fault(tool, PluginFault::Contract { plugin: plugin.to_string(), message })),
        Ok(Err(error)) => Err(tool_error(tool, error)),
        Err(PluginFault::Cancelled { .. }) => Err(ToolError::Cancelled { tool: tool.to_owned() }),
        Err(other) => Err(fault(tool, other)),
    };
    ToolReply { result, ledger: Some(ledger) }
}

fn fault(tool: &str, fault: PluginFault) -> ToolError {
    ToolError::Fault { tool: tool.to_owned(), source: Box::new(fault) }
}

fn tool_error(tool: &str, error: wit::ToolError) -> ToolError {
    let tool = tool.to_owned();
    match error {
        wit::ToolError::InvalidArguments(message) => ToolError::InvalidArguments { tool, message },
        wit::ToolError::NotFound(message) => ToolError::Failed { tool, message, retryable: false },
        wit::ToolError::Denied(reason) => ToolError::Denied { tool, reason },
        wit::ToolError::Cancelled => ToolError::Cancelled { tool },
        wit::ToolError::Failed(failure) => {
            ToolError::Failed { tool, message: failure.message, retryable: failure.retryable }
        }
    }
}

/// What the guest returned, when it is what the contract says.
fn output(output: wit::ToolOutput) -> Result<ToolOutput, String> {
    let details = output.details.as_deref().map(serde_json::from_str).transpose();
    for part in &output.content {
        if let wit::Content::Image(image) = part
            && !IMAGE_TYPES.contains(&image.media_type.as_str())
        {
            return Err(format!("`{}` is no media type of an image", image.media_type.escape_debug()));
        }
    }
    Ok(ToolOutput {
        content: output.content.into_iter().map(content).collect(),
        details: details.map_err(|error| format!("its details are no JSON: {error}"))?,
        display: match output.display {
            wit::Display::Plain => Display::Plain,
            wit::Display::Markdown => Display::Markdown,
            wit::Display::Diff => Display::Diff,
            wit::Display::Code(language) => Display::Code(language),
        },
    })
}
