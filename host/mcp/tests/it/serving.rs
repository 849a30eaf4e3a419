//! The server, with tools of the test instead of plugins.

use futures_util::future::BoxFuture;
use pinion_mcp::serve::{Offered, OfferedCall, OfferedReply, Server};
use pinion_protocol::{ServedTool, TaskSupport, ToolDefinition, ToolOutput};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Calls of `ask` and `work` ask for an approval, of `work` once it has reported progress. Calls of `wait` never end.
#[derive(Default)]
struct Tools {
    calls: Mutex<Vec<CancellationToken>>,
}

impl Tools {
    fn call(&self, number: usize) -> CancellationToken {
        self.calls.lock().unwrap()[number].clone()
    }
}

struct Shared(Arc<Tools>);

impl Offered for Shared {
    fn tools(&self, _: bool) -> Vec<ServedTool> {
        let tool = |(name, task): (&str, TaskSupport)| {
            let definition = ToolDefinition {
                name: name.to_owned(),
                label: String::new(),
                description: String::new(),
                input_schema: json!({ "type": "object" }),
                guidelines: Vec::new(),
                authority: Default::default(),
                execution: Default::default(),
                source: Default::default(),
            };
            ServedTool { definition: Arc::new(definition), resource: None, task }
        };
        [("ask", TaskSupport::None), ("work", TaskSupport::Optional), ("wait", TaskSupport::Optional)].map(tool).into()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    fn call(&self, call: OfferedCall) -> BoxFuture<'static, OfferedReply> {
        self.0.calls.lock().unwrap().push(call.token.clone());
        Box::pin(async move {
            match call.tool.name.as_str() {
                "wait" => std::future::pending::<()>().await,
                "work" => call.progress.report("working".to_owned()),
                _ => {}
            }
            let answer = call.client.approves("? allow this call?".to_owned()).await;
            OfferedReply { output: ToolOutput::text(format!("{answer:?}")), is_fault: false, ledger: None }
        })
    }
}

struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    tools: Arc<Tools>,
    id: u64,
}

impl Client {
    fn start() -> Self {
        let tools = Arc::new(Tools::default());
        let (own, served) = tokio::io::duplex(1 << 20);
        let server = Server::new(Arc::new(Shared(tools.clone())), CancellationToken::new());
        let (reader, writer) = tokio::io::split(served);
        tokio::spawn(server.serve_streams(reader, writer));
        let (reader, writer) = tokio::io::split(own);
        Self { reader: BufReader::new(reader), writer, tools, id: 0 }
    }

    async fn request(&mut self, method: &str, mut params: Value) -> Value {
        self.id += 1;
        let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
        params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {}, "extensions": extensions } });
        let request = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.writer.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).await.unwrap() > 0, "the server ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.id {
                return message;
            }
        }
    }

    async fn call(&mut self, tool: &str) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": {} })).await["result"].clone()
    }

    async fn task(&mut self, id: &Value) -> Value {
        self.request("tasks/get", json!({ "taskId": id })).await
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn abandoned_question_ends_its_call() {
    let mut client = Client::start();
    let asked = client.call("ask").await;
    assert_eq!(asked["inputRequests"]["approval"]["method"], "elicitation/create", "{asked}");
    let call = client.tools.call(0);
    tokio::time::sleep(9 * MINUTE).await;
    assert!(!call.is_cancelled());
    tokio::time::sleep(2 * MINUTE).await;
    assert!(call.is_cancelled(), "nobody else has asked since");
    let answer = json!({ "approval": { "action": "accept", "content": { "allow": true } } });
    let late =
        json!({ "name": "ask", "arguments": {}, "requestState": asked["requestState"], "inputResponses": answer });
    assert_eq!(client.request("tools/call", late).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn task_lasts_as_long_as_its_client_asks_about_it() {
    let mut client = Client::start();
    let task = client.call("work").await;
    assert_eq!((&task["resultType"], &task["statusMessage"]), (&json!("task"), &json!("working")), "{task}");
    let id = &task["taskId"];
    for _ in 0..3 {
        tokio::time::sleep(9 * MINUTE).await;
        assert_eq!(client.task(id).await["result"]["status"], "input_required");
    }
    let kept = client.task(id).await["result"]["ttlMs"].as_u64().unwrap();
    let call = client.tools.call(0);
    tokio::time::sleep(11 * MINUTE).await;
    assert!(call.is_cancelled() && kept >= 600_000, "{kept}");
    assert_eq!(client.task(id).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn call_without_progress_becomes_a_task_after_two_seconds() {
    let mut client = Client::start();
    let begun = tokio::time::Instant::now();
    let task = client.call("wait").await;
    assert_eq!((&task["status"], begun.elapsed()), (&json!("working"), Duration::from_secs(2)), "{task}");
    client.request("tasks/cancel", json!({ "taskId": task["taskId"] })).await;
    assert!(client.tools.call(0).is_cancelled());
    assert_eq!(client.task(&task["taskId"]).await["result"]["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_leave_room_for_other_calls() {
    let mut client = Client::start();
    for _ in 0..64 {
        assert_eq!(client.call("work").await["resultType"], "task");
    }
    // Without room for another task, a call goes on without one.
    let asked = client.call("work").await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert!(client.tools.calls.lock().unwrap().iter().all(|call| !call.is_cancelled()));
}
