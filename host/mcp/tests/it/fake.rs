//! Scripted servers.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use pinion_mcp::config::{ServerConfig, ServerTransport};
use pinion_mcp::{
    CallContext, HttpSettings, LaunchedServer, Launcher, McpError, MemoryTokens, NoPerson, Person, Ports, Request,
    ServerProcess, Servers,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::task::JoinHandle;

/// Name of the server in tests with one.
pub(crate) const NAME: &str = "fake";

/// The pipes of a scripted server.
pub(crate) struct Io {
    input: BufReader<DuplexStream>,
    output: DuplexStream,
    errors: DuplexStream,
    /// The messages that were read.
    pub(crate) log: Log,
}

impl Io {
    /// Returns the next message, which it notes; `None` at the end of the input.
    pub(crate) async fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.input.read_line(&mut line).await.is_ok_and(|bytes| bytes == 0) {
            return None;
        }
        let message = serde_json::from_str(&line).unwrap();
        self.log.add(&message);
        Some(message)
    }

    pub(crate) async fn write(&mut self, message: &Value) {
        self.write_text(&format!("{message}\n")).await;
    }

    pub(crate) async fn write_text(&mut self, text: &str) {
        self.write_bytes(text.as_bytes()).await;
    }

    pub(crate) async fn write_bytes(&mut self, bytes: &[u8]) {
        let _ = self.output.write_all(bytes).await;
    }

    pub(crate) async fn complain(&mut self, text: &str) {
        let _ = self.errors.write_all(text.as_bytes()).await;
    }

    /// Leaves the standard error to a child of the server, which complains a little later. For paused time only.
    pub(crate) fn leave_complaint(self, text: &'static str) {
        let mut errors = self.errors;
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(400)).await;
            let _ = errors.write_all(text.as_bytes()).await;
        });
    }

    pub(crate) async fn reply(&mut self, request: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i32, message: &str) {
        let error = json!({"code": code, "message": message});
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    pub(crate) async fn notify(&mut self, method: &str) {
        self.write(&json!({"jsonrpc": "2.0", "method": method})).await;
    }

    /// Answers everything up to the first message that is not part of connecting, and returns that one.
    pub(crate) async fn connect(&mut self, tools: &Value) -> Option<Value> {
        loop {
            let message = self.read().await?;
            if !self.answer_start(&message, tools).await {
                return Some(message);
            }
        }
    }

    /// Answers a message that is part of connecting, as a server of protocol 2025-11-25.
    pub(crate) async fn answer_start(&mut self, message: &Value, tools: &Value) -> bool {
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" => self.refuse(message, -32601, "Method not found").await,
            "initialize" => self.reply(message, initialized()).await,
            "notifications/initialized" => {}
            "tools/list" => self.reply(message, json!({"tools": tools})).await,
            _ => return false,
        }
        true
    }
}

pub(crate) fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "fake", "version": "1.0"},
    })
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

pub(crate) fn tools() -> Value {
    json!([tool("echo")])
}

pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

pub(crate) type Behaviour = Arc<dyn Fn(usize, Io) -> BoxFuture<'static, ()> + Send + Sync>;

/// Launches scripted servers.
pub(crate) struct Fakes {
    behaviour: Behaviour,
    pub(crate) launches: AtomicUsize,
    pub(crate) alive: Arc<AtomicUsize>,
    /// The messages that all processes read.
    log: Log,
}

impl Fakes {
    pub(crate) fn with(behaviour: Behaviour, launches: AtomicUsize) -> Self {
        Self { behaviour, launches, alive: Arc::default(), log: Log::default() }
    }
}

struct FakeProcess {
    task: JoinHandle<()>,
    alive: Arc<AtomicUsize>,
}

impl ServerProcess for FakeProcess {
    fn wait(&mut self) -> BoxFuture<'_, String> {
        async {
            let _ = (&mut self.task).await;
            "exit status 1".to_owned()
        }
        .boxed()
    }
}

impl Drop for FakeProcess {
    fn drop(&mut self) {
        self.task.abort();
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Launcher for Fakes {
    fn launch(&self, _: &ServerConfig) -> io::Result<LaunchedServer> {
        let number = self.launches.fetch_add(1, Ordering::SeqCst);
        self.alive.fetch_add(1, Ordering::SeqCst);
        let (stdin, input) = duplex(64 << 10);
        let (output, stdout) = duplex(64 << 10);
        let (errors, stderr) = duplex(64 << 10);
        let io = Io { input: BufReader::new(input), output, errors, log: self.log.clone() };
        let task = tokio::spawn((self.behaviour)(number, io));
        Ok(LaunchedServer {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Some(Box::new(stderr)),
            process: Box::new(FakeProcess { task, alive: self.alive.clone() }),
        })
    }
}

/// Servers under test, with their cache.
pub(crate) struct Bench {
    pub(crate) servers: Arc<Servers>,
    pub(crate) fakes: Arc<Fakes>,
    pub(crate) cache: TempDir,
}

impl Bench {
    /// One stdio server whose every process runs `behaviour` with its number.
    pub(crate) fn new<F>(behaviour: impl Fn(usize, Io) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::with(stdio(), Arc::new(NoPerson), behaviour)
    }

    pub(crate) fn with<F>(
        config: ServerConfig,
        person: Arc<dyn Person>,
        behaviour: impl Fn(usize, Io) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let behaviour: Behaviour = Arc::new(move |number, io| behaviour(number, io).boxed());
        let fakes = Arc::new(Fakes::with(behaviour, AtomicUsize::new(0)));
        let cache = tempfile::tempdir().unwrap();
        let servers = Servers::new(vec![config], ports(fakes.clone(), cache.path(), person));
        Self { servers, fakes, cache }
    }

    pub(crate) async fn call(&self, tool: &str) -> Result<String, McpError> {
        self.call_within(tool, Duration::from_secs(3600)).await
    }

    pub(crate) async fn call_within(&self, tool: &str, limit: Duration) -> Result<String, McpError> {
        self.servers.request(NAME, call(tool), CallContext::within(limit)).await
    }

    pub(crate) fn launches(&self) -> usize {
        self.fakes.launches.load(Ordering::SeqCst)
    }

    /// Returns the messages that the server read so far.
    pub(crate) fn log(&self) -> &Log {
        &self.fakes.log
    }

    pub(crate) fn alive(&self) -> usize {
        self.fakes.alive.load(Ordering::SeqCst)
    }
}

pub(crate) fn ports(launcher: Arc<dyn Launcher>, cache: &Path, person: Arc<dyn Person>) -> Ports {
    Ports {
        launcher,
        http: HttpSettings::default(),
        cache: cache.join("mcp"),
        tasks: cache.join("tasks"),
        tokens: Arc::new(MemoryTokens::default()),
        person,
        client_metadata: None,
        workspace_roots: vec!["/work/project".into()],
    }
}

pub(crate) fn stdio() -> ServerConfig {
    let transport = ServerTransport::Stdio { command: "fake".into(), args: vec![], env: Default::default(), cwd: None };
    ServerConfig::new(NAME, transport)
}

pub(crate) fn call(tool: &str) -> Request {
    Request::CallTool { name: tool.into(), arguments: "{}".into() }
}

/// Messages that a server noted, for assertions.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Value>>>);

impl Log {
    pub(crate) fn add(&self, message: &Value) {
        self.0.lock().unwrap().push(message.clone());
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|message| message["method"] == method).count()
    }

    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }
}

/// Waits until a condition holds, letting other tasks run. Takes no time where time is paused.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.expect("the condition never held");
}
