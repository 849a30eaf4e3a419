//! A server that answers at once, behind the port for MCP servers.

use futures_util::future::BoxFuture;
use pinion_plugin_runtime::{McpCall, McpFailure, McpRequest, McpServer, McpServers, McpState, McpTool};
use tokio::sync::watch;

/// One server `bench` with a tool `echo` and 30 others, which returns the arguments of a call.
pub(crate) struct Immediate(watch::Sender<u64>);

impl Immediate {
    pub(crate) fn new() -> Self {
        Self(watch::channel(0).0)
    }
}

impl McpServers for Immediate {
    fn servers(&self) -> Vec<McpServer> {
        let schema = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;
        let tool = |name: String| {
            let definition = format!(r#"{{"name":"{name}","description":"Echoes.","inputSchema":{schema}}}"#);
            McpTool { name, definition: definition.into(), enabled: true }
        };
        let others = (0..30).map(|number| format!("other{number}x"));
        vec![McpServer {
            name: "bench".to_owned(),
            identity: "bench".to_owned(),
            state: McpState::Ready,
            problem: None,
            dropped: Vec::new(),
            instructions: None,
            protocol: None,
            software: None,
            tools: ["echo".to_owned()].into_iter().chain(others).map(tool).collect(),
            prompts: Vec::new(),
            tasks: Vec::new(),
            has_resources: false,
            is_known: true,
        }]
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    fn request<'a>(
        &'a self,
        _server: &'a str,
        request: McpRequest,
        _call: McpCall,
    ) -> BoxFuture<'a, Result<String, McpFailure>> {
        let arguments = match request {
            McpRequest::CallTool { arguments, .. } => arguments,
            _ => "{}".to_owned(),
        };
        let text = serde_json::Value::String(arguments);
        Box::pin(async move { Ok(format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)) })
    }
}
