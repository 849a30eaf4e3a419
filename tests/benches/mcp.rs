//! A call of an MCP server's tool through the loop, the bridge plugin and the host and back, against a direct call with
//! rmcp to another process of the same server, in one run. Exits with 1 beyond its bounds, which are meant for an optimised
//! build on a machine with nothing else to do.
//!
//! Run `tests/build-guests.sh`, then `cargo bench -p pinion-tests --bench mcp`. The server is this program, or the command
//! after `--`, which needs a tool `echo` with an argument `message`:
//! `cargo bench -p pinion-tests --bench mcp -- npx -y @modelcontextprotocol/server-everything stdio`. Both ways take turns, so
//! that other load affects them alike. The loop's time is from the model's reply with a call to its next request, which
//! has the result: with validation, approval, events and the history, and without the model.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a bench prints its results and may panic")]

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::approval::{Approval, ApprovalMode, Decision, Question};
use pinion_agent::provider::Request as ModelRequest;
use pinion_agent::{Agent, Approver, Context, LoopConfig, Message, Model, ToolExecutor as _};
use pinion_mcp::config::{ServerConfig, ServerTransport};
use pinion_mcp::{
    CallContext, HttpSettings, LaunchedServer, Launcher, MemoryTokens, NoPerson, Ports, Request, ServerProcess, Servers,
};
use pinion_plugin_runtime::{McpCall, McpFailure, McpRequest, McpServer, McpServers};
use pinion_tests::{Sandbox, SandboxBuilder, Say, Thinker, builtin, until};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig as ServerInfo, Tool,
};
use rmcp::service::{ClientLifecycleMode, RequestContext, RoleClient, RoleServer, RunningService};
use rmcp::{ClientServiceExt as _, ErrorData, ServerHandler, ServiceExt as _};
use serde_json::json;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Calls of one agent and of the direct client before they take turns. The history of an agent stays short.
const CALLS: usize = 10;
/// Rounds that count, after a tenth as many that do not.
const ROUNDS: usize = 200;
/// Bytes of the argument, which comes back as the result.
const BYTES: usize = 1_000;
/// Bounds of half of the calls: times the direct call, and microseconds more.
const FACTOR: f64 = 1.4;
const MORE_MICROS: f64 = 150.0;
/// Argument of this program that makes it the server.
const SERVE: &str = "serve-for-bench";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    // `cargo test --benches` only checks that it builds.
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    if arguments.first().is_some_and(|argument| argument == SERVE) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(async { drop(Echo.serve(rmcp::transport::stdio()).await.unwrap().waiting().await) });
    }
    let command = match arguments.is_empty() {
        true => vec![std::env::current_exe().unwrap().to_string_lossy().into_owned(), SERVE.to_owned()],
        false => arguments,
    };
    tokio::runtime::Runtime::new().unwrap().block_on(compare(&command));
}

async fn compare(command: &[String]) {
    let cache = tempfile::tempdir().unwrap();
    let ports = Ports {
        launcher: Arc::new(Programs),
        http: HttpSettings::default(),
        cache: cache.path().join("mcp"),
        tasks: cache.path().join("tasks"),
        tokens: Arc::new(MemoryTokens::default()),
        person: Arc::new(NoPerson),
        client_metadata: None,
        workspace_roots: Vec::new(),
    };
    let transport = ServerTransport::Stdio {
        command: command[0].clone(),
        args: command[1..].to_vec(),
        env: Default::default(),
        cwd: None,
    };
    let servers = Servers::new(vec![ServerConfig::new("bench", transport)], ports);
    let connecting = CallContext::within(Duration::from_secs(60));
    servers.request("bench", Request::Connect, connecting).await.unwrap();
    let builder = SandboxBuilder::default().file(builtin("mcp")).cache(cache.path());
    let sandbox = Arc::new(builder.mcp("mcp", Arc::new(Port(servers.clone()))).build().await);
    let is_offered = || sandbox.runtime.definitions().iter().any(|tool| tool.name == "bench__echo");
    until("the tool is offered", is_offered).await;
    let (mut child, direct) = connect(command).await;

    let [mut through, mut alone, mut host] = <[Vec<Duration>; 3]>::default();
    for round in 0..ROUNDS + ROUNDS / 10 {
        if round == ROUNDS / 10 {
            [&mut through, &mut alone, &mut host].into_iter().for_each(Vec::clear);
        }
        looped(&sandbox, &mut through).await;
        for number in 0..CALLS {
            let params = CallToolRequestParams::new("echo").with_arguments(arguments(number));
            let started = Instant::now();
            let result = direct.call_tool(params).await.unwrap();
            alone.push(started.elapsed());
            assert!(result.content[0].as_text().unwrap().text.contains(&message(number)));
            let call = Request::CallTool { name: "echo".into(), arguments: json!(arguments(number)).to_string() };
            let started = Instant::now();
            let result = servers.request("bench", call, CallContext::within(Duration::from_secs(60))).await.unwrap();
            host.push(started.elapsed());
            assert!(result.contains(&message(number)));
        }
    }
    let micros = |times: &[Duration], part: usize| times[times.len() * part / 100].as_secs_f64() * 1e6;
    for (name, times) in [("direct", &mut alone), ("through the host", &mut host), ("through the loop", &mut through)] {
        times.sort();
        println!("{name:<20} p50 {:>7.1} µs   p99 {:>7.1} µs", micros(times, 50), micros(times, 99));
    }
    let mut is_met = true;
    for part in [50, 99] {
        let (with, without) = (micros(&through, part), micros(&alone, part));
        println!("p{part}: {:.2} × the direct call, {:.1} µs more", with / without, with - without);
        is_met &= part > 50 || with <= without * FACTOR && with - without <= MORE_MICROS;
    }
    let _ = direct.cancel().await;
    let _ = child.kill().await;
    servers.shutdown().await;
    if !is_met {
        println!("missed: half of the calls within {FACTOR} × the direct call and {MORE_MICROS} µs more");
        std::process::exit(1);
    }
}

fn message(number: usize) -> String {
    format!("{number}{}", "x".repeat(BYTES))
}

fn arguments(number: usize) -> JsonObject {
    JsonObject::from_iter([("message".to_owned(), json!(message(number)))])
}

/// Runs an agent whose model calls the tool in each turn, and adds the times between a call and the next request.
async fn looped(sandbox: &Arc<Sandbox>, times: &mut Vec<Duration>) {
    let (replied, made) = (Mutex::new(None::<Instant>), Arc::new(Mutex::new(Vec::new())));
    let (taken, number) = (made.clone(), AtomicUsize::new(0));
    let model = Thinker::new(move |request: &ModelRequest| {
        let mut replied = replied.lock().unwrap();
        if let Some(replied) = *replied {
            taken.lock().unwrap().push(replied.elapsed());
            let Some(Message::ToolResult(result)) = request.messages.last().map(|message| &**message) else {
                panic!("no result");
            };
            assert!(!result.is_error, "{result:?}");
        }
        let number = number.fetch_add(1, Ordering::Relaxed);
        let say = match number < CALLS {
            true => Say::Call("bench__echo", json!(arguments(number))),
            false => Say::Text("done".to_owned()),
        };
        *replied = Some(Instant::now());
        say
    });
    let mut config = LoopConfig::new(model, Model::default(), sandbox.runtime.clone());
    config.ports.approval = Approval::new(ApprovalMode::Smart, Arc::new(Yes));
    Agent::new(config, Context::new("You are a bench.", "s")).run(vec![Message::user("go")]).await.unwrap();
    times.append(&mut made.lock().unwrap());
}

/// Allows everything for the session.
struct Yes;

impl Approver for Yes {
    fn decide<'a>(&'a self, _: Question<'a>, _: &'a CancellationToken) -> BoxFuture<'a, Decision> {
        Box::pin(async { Decision::AllowForSession })
    }
}

/// Connects a client of rmcp to a separate process.
async fn connect(command: &[String]) -> (Child, RunningService<RoleClient, ()>) {
    let mut child = spawn(command);
    let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    };
    (child, ().serve_with_lifecycle(pipes, lifecycle).await.unwrap())
}

fn spawn(command: &[String]) -> Child {
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    program.kill_on_drop(true).spawn().unwrap()
}

/// The server: returns the message of each call.
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerInfo {
        ServerInfo::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "message": { "type": "string" } } });
        let schema = schema.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Returns a message.", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("message").and_then(|message| message.as_str()).unwrap_or_default();
        Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(text)])))
    }
}

/// Starts servers without a sandbox, which costs nothing once a server runs.
struct Programs;

struct Process(Child);

impl ServerProcess for Process {
    fn wait(&mut self) -> BoxFuture<'_, String> {
        async { self.0.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string()) }.boxed()
    }
}

impl Launcher for Programs {
    fn launch(&self, server: &ServerConfig) -> std::io::Result<LaunchedServer> {
        let ServerTransport::Stdio { command, args, .. } = &server.transport else { unreachable!() };
        let mut child = spawn(&[std::slice::from_ref(command), args].concat());
        Ok(LaunchedServer {
            stdin: Box::new(child.stdin.take().unwrap()),
            stdout: Box::new(child.stdout.take().unwrap()),
            stderr: None,
            process: Box::new(Process(child)),
        })
    }
}

/// Passes calls on to the servers, like the command.
struct Port(Arc<Servers>);

impl McpServers for Port {
    fn servers(&self) -> Vec<McpServer> {
        self.0.list()
    }

    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed()
    }

    fn request<'a>(
        &'a self,
        server: &'a str,
        request: McpRequest,
        call: McpCall,
    ) -> BoxFuture<'a, Result<String, McpFailure>> {
        Box::pin(async move {
            let McpCall { cancel, deadline, progress, .. } = call;
            let on_progress = move |step: pinion_mcp::RequestProgress| {
                if let Some(message) = step.message {
                    progress.report(message);
                }
            };
            let context =
                CallContext { cancel, deadline, on_progress: Some(Arc::new(on_progress)), only_connected: false };
            self.0.request(server, request, context).await
        })
    }
}
