//! The built-in bridge to MCP servers, in the real runtime, with scripted servers behind the port.

mod approvals;
mod calls;
mod completion;
mod hostile;
mod lists;

use futures_util::future::BoxFuture;
use pinion_agent::tool::ToolOutput;
use pinion_agent::{Content, ToolExecutor as _};
use pinion_plugin_runtime::{McpCall, McpFailure, McpRequest, McpServer, McpServers, McpState, McpTool, NoticeEvent};
use pinion_tests::{Sandbox, SandboxBuilder, builtin};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{Semaphore, watch};

type Answer = dyn Fn(&McpRequest) -> Result<String, McpFailure> + Send + Sync;

/// Scripted servers.
struct Servers {
    list: Mutex<Vec<McpServer>>,
    changed: watch::Sender<u64>,
    received: Mutex<Vec<(String, McpRequest)>>,
    answer: Box<Answer>,
    /// Each request takes a permit before it is answered, if this is set.
    gate: Option<Semaphore>,
    waiting: watch::Sender<usize>,
    /// A server that never answers.
    silent: Option<String>,
    /// Requests that were dropped before an answer.
    abandoned: AtomicUsize,
    /// Requests while the user types.
    while_typing: AtomicUsize,
    /// Times that the list was asked for.
    listed: AtomicUsize,
}

/// Counts when it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Servers {
    fn new(
        list: Vec<McpServer>,
        answer: impl Fn(&McpRequest) -> Result<String, McpFailure> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self::with_gate(list, Box::new(answer), None))
    }

    fn with_gate(list: Vec<McpServer>, answer: Box<Answer>, gate: Option<Semaphore>) -> Self {
        let (list, changed, received) = (Mutex::new(list), watch::channel(0).0, Mutex::default());
        Self {
            list,
            changed,
            received,
            answer,
            gate,
            waiting: watch::channel(0).0,
            silent: None,
            abandoned: AtomicUsize::new(0),
            while_typing: AtomicUsize::new(0),
            listed: AtomicUsize::new(0),
        }
    }

    /// Servers whose tools return their arguments.
    fn echoing(list: Vec<McpServer>) -> Arc<Self> {
        Self::new(list, |request| match request {
            McpRequest::CallTool { name, arguments } => Ok(text(&format!("{name} {arguments}"))),
            _ => Ok("{}".to_owned()),
        })
    }

    fn replace(&self, list: Vec<McpServer>) {
        *self.list.lock().unwrap() = list;
        self.changed.send_modify(|revision| *revision += 1);
    }

    fn received(&self) -> Vec<(String, McpRequest)> {
        self.received.lock().unwrap().clone()
    }
}

impl McpServers for Servers {
    fn servers(&self) -> Vec<McpServer> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        self.list.lock().unwrap().clone()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn request<'a>(
        &'a self,
        server: &'a str,
        request: McpRequest,
        call: McpCall,
    ) -> BoxFuture<'a, Result<String, McpFailure>> {
        Box::pin(async move {
            self.received.lock().unwrap().push((server.to_owned(), request.clone()));
            self.while_typing.fetch_add(usize::from(call.only_connected), Ordering::Relaxed);
            call.progress.report(format!("asked {server}"));
            if self.silent.as_deref() == Some(server) {
                let _counted = Counted(&self.abandoned);
                std::future::pending::<()>().await;
            }
            if let Some(gate) = &self.gate {
                self.waiting.send_modify(|count| *count += 1);
                tokio::select! {
                    permit = gate.acquire() => permit.unwrap().forget(),
                    () = call.cancel.cancelled() => return Err(McpFailure::Cancelled { request_sent: true }),
                }
            }
            (self.answer)(&request)
        })
    }
}

fn text(text: &str) -> String {
    json!({ "content": [{ "type": "text", "text": text }] }).to_string()
}

fn tool(name: &str) -> McpTool {
    tool_with(name, json!({ "type": "object", "properties": { "city": { "type": "string" } } }))
}

fn tool_with(name: &str, schema: Value) -> McpTool {
    defined(name, json!({ "name": name, "description": format!("Does {name}."), "inputSchema": schema }))
}

fn defined(name: &str, definition: Value) -> McpTool {
    McpTool { name: name.to_owned(), definition: definition.to_string().into(), enabled: true }
}

fn server(name: &str, tools: Vec<McpTool>) -> McpServer {
    McpServer {
        name: name.to_owned(),
        identity: format!("command of {name}"),
        state: McpState::Ready,
        problem: None,
        dropped: Vec::new(),
        instructions: None,
        protocol: None,
        software: None,
        tools,
        prompts: Vec::new(),
        tasks: Vec::new(),
        has_resources: false,
        is_known: true,
    }
}

/// The bridge over these servers, after its first offer.
async fn bridge(servers: &Arc<Servers>) -> Sandbox {
    configured(servers, json!({})).await
}

async fn configured(servers: &Arc<Servers>, config: Value) -> Sandbox {
    let cache = tempfile::TempDir::new().unwrap();
    let builder = SandboxBuilder::default().file(builtin("mcp")).mcp("mcp", servers.clone()).config("mcp", config);
    // The cache of all tests has the last offer of other servers.
    let sandbox = builder.cache(cache.path()).build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    sandbox.runtime.offers_settled().await;
    sandbox
}

fn names(sandbox: &Sandbox) -> Vec<String> {
    sandbox.runtime.definitions().iter().map(|tool| tool.name.clone()).collect()
}

fn offer_notices(sandbox: &Sandbox) -> Vec<String> {
    let notices = sandbox.notices().into_iter().filter_map(|notice| match notice.event {
        NoticeEvent::Offer(text) => Some(text),
        _ => None,
    });
    notices.collect()
}

fn text_of(output: &ToolOutput) -> String {
    output.content.iter().filter_map(Content::as_text).collect()
}
