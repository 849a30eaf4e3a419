//! The agent's way to tools: [`ToolExecutor`] for a [`Runtime`].

use crate::bindings::pinion::plugin::types::{self as wit, CallContext};
use crate::calls::instance::{CallTool, Setup};
use crate::errors::fault::PluginFault;
use crate::host::clip;
use crate::host::progress::{self, MAX_PARTS};
use crate::registry::Loaded;
use crate::runtime::Runtime;
use futures_util::future::BoxFuture;
use pinion_protocol::{
    Content, Display, Ledger, ToolDefinition, ToolError, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress,
    ToolReply,
};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the details of one result.
const MAX_DETAILS_BYTES: usize = 4 * 1024 * 1024;
/// Values in the details of one result.
const MAX_DETAILS_VALUES: usize = 100_000;
/// Bytes of the name of a language or media type.
const MAX_LANGUAGE_BYTES: usize = 64;

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
    let had_content = !output.content.is_empty();
    let parts: Vec<wit::Content> = output.content.into_iter().filter(|part| !progress::is_empty(part)).collect();
    if parts.len() > MAX_PARTS {
        return Err(format!("a result of {} parts, of at most {MAX_PARTS}", parts.len()));
    }
    let content: Vec<Content> = parts.into_iter().map(progress::content).collect();
    for part in &content {
        if let Content::Image(image) = part {
            image.check_format().map_err(|problem| {
                format!("an image `{}`: {problem}", clip(&image.media_type, MAX_LANGUAGE_BYTES).escape_debug())
            })?;
        }
    }
    Ok(ToolOutput {
        // A result of nothing but an empty text remains one.
        content: if content.is_empty() && had_content { vec![Content::text("")] } else { content },
        details: output.details.as_deref().map(details).transpose()?,
        display: match output.display {
            wit::Display::Plain => Display::Plain,
            wit::Display::Markdown => Display::Markdown,
            wit::Display::Diff => Display::Diff,
            wit::Display::Code(language) => Display::Code(clip(&language, MAX_LANGUAGE_BYTES).to_owned()),
        },
    })
}

/// Parses the details, which take many times their length in memory when they are made of small values.
fn details(json: &str) -> Result<Value, String> {
    if json.len() > MAX_DETAILS_BYTES {
        return Err(format!("details of {} bytes, of at most {MAX_DETAILS_BYTES}", json.len()));
    }
    if count_values(json) > MAX_DETAILS_VALUES {
        return Err(format!("details of more than {MAX_DETAILS_VALUES} values"));
    }
    serde_json::from_str(json).map_err(|error| format!("its details are no JSON: {error}"))
}

/// About how many values there are in a JSON text: every one but the first follows a bracket, a brace or a comma.
fn count_values(json: &str) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' | b',' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_bounded_in_bytes_values_and_nesting() {
        assert!(details(r#"{"text": "[[[,,,\"[[["}"#).is_ok());
        assert_eq!(count_values(r#"{"a": "[,\"[", "b": [1, {}]}"#), 6);
        assert!(details(&format!("[{}0]", "0,".repeat(MAX_DETAILS_VALUES))).unwrap_err().contains("values"));
        assert!(details(&format!("\"{}\"", "x".repeat(MAX_DETAILS_BYTES))).unwrap_err().contains("bytes"));
        assert!(details(&"[".repeat(1000)).is_err());
        assert!(details(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))).unwrap_err().contains("recursion limit"));
    }
}
