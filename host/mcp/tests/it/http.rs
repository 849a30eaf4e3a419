//! Servers over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use pinion_mcp::config::{ServerConfig, ServerTransport};
use pinion_mcp::limits::MAX_MESSAGE;
use pinion_mcp::{CallContext, McpError, NoPerson, ServerState, Servers};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

use crate::fake::{Fakes, Log, NAME, call, initialized, ports, text, tools, until};

/// A request that a scripted web server got.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Returns the request as JSON, for logs.
    fn note(&self) -> Value {
        json!({"method": self.method, "path": self.path, "headers": self.headers, "body": self.body})
    }
}

/// A response: status line, headers, body.
pub(crate) struct Give {
    pub(crate) status: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Give {
    /// Sends the response as the last one of its connection.
    pub(crate) async fn send(self, stream: &mut TcpStream) {
        let mut head = format!("HTTP/1.1 {}\r\nConnection: close\r\n", self.status);
        head += &format!("Content-Length: {}\r\n", self.body.len());
        for (name, value) in self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let _ = stream.write_all(format!("{head}\r\n{}", self.body).as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

pub(crate) fn status(status: &'static str) -> Give {
    Give { status, headers: vec![], body: String::new() }
}

pub(crate) fn json_body(value: &Value) -> Give {
    Give { status: "200 OK", headers: vec![("Content-Type", "application/json".into())], body: value.to_string() }
}

/// A scripted web server on loopback.
pub(crate) struct Web {
    pub(crate) url: Url,
    pub(crate) log: Log,
    _tasks: JoinSet<()>,
}

impl Web {
    pub(crate) async fn new(answer: impl Fn(&Url, Got) -> Give + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::serve(move |url, got, mut stream| {
            let give = answer(&url, got);
            async move { give.send(&mut stream).await }.boxed()
        })
        .await
    }

    pub(crate) async fn serve(
        answer: impl Fn(Url, Got, TcpStream) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
        let log = Log::default();
        let mut tasks = JoinSet::new();
        let (own, noted) = (url.clone(), log.clone());
        let answer = Arc::new(answer);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, own, noted) = (answer.clone(), own.clone(), noted.clone());
                // A set keeps ended tasks until it is asked.
                while connections.try_join_next().is_some() {}
                connections.spawn(async move {
                    if let Some((got, stream)) = receive(stream).await {
                        noted.add(&got.note());
                        answer(own, got, stream).await;
                    }
                });
            }
        });
        Self { url, log, _tasks: tasks }
    }

    /// Returns the requests to paths that begin so.
    pub(crate) fn requests(&self, path: &str) -> Vec<Value> {
        let all = self.log.all().into_iter();
        all.filter(|got| got["path"].as_str().is_some_and(|got| got.starts_with(path))).collect()
    }
}

async fn receive(stream: TcpStream) -> Option<(Got, TcpStream)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.ok()?;
        match line.trim().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.ok()?;
    let body = String::from_utf8(body).ok()?;
    Some((Got { method, path, headers, body }, reader.into_inner()))
}

/// Answers as a server of protocol 2025-11-25 without sessions.
pub(crate) fn proper(got: &Got) -> Give {
    let message = got.json();
    let reply = |result: Value| json_body(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    match (got.method.as_str(), message["method"].as_str()) {
        ("POST", Some("server/discover")) => status("400 Bad Request"),
        ("POST", Some("initialize")) => reply(initialized()),
        ("POST", Some("notifications/initialized")) => status("202 Accepted"),
        ("POST", Some("tools/list")) => reply(json!({"tools": tools()})),
        ("POST", Some("tools/call")) => reply(text("fine")),
        ("POST", _) => status("202 Accepted"),
        _ => status("405 Method Not Allowed"),
    }
}

pub(crate) fn config(url: &Url, headers: &[(&str, &str)]) -> ServerConfig {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    ServerConfig::new(NAME, ServerTransport::Http { url: url.clone(), headers, sse: false })
}

pub(crate) fn servers(config: ServerConfig) -> (Arc<Servers>, TempDir) {
    let behaviour = Arc::new(|_, io| async move { drop(io) }.boxed());
    let fakes = Fakes::with(behaviour, AtomicUsize::new(0));
    let cache = tempfile::tempdir().unwrap();
    (Servers::new(vec![config], ports(Arc::new(fakes), cache.path(), Arc::new(NoPerson))), cache)
}

/// Time limit for outcomes that must not depend on time, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn ask(servers: &Servers) -> Result<String, McpError> {
    servers.request(NAME, call("echo"), CallContext::within(PATIENCE)).await
}

#[tokio::test]
async fn calls_work_and_carry_the_users_headers() {
    let web = Web::new(|_, got| proper(&got)).await;
    let (servers, _cache) = servers(config(&web.url, &[("X-Key", "secret"), ("Authorization", "Bearer mine")]));
    assert!(ask(&servers).await.unwrap().contains("fine"));
    let calls = web.requests("/mcp");
    assert!(calls.iter().all(|got| got["headers"]["x-key"] == "secret"));
    assert!(calls.iter().all(|got| got["headers"]["authorization"] == "Bearer mine"));
    assert_eq!(servers.list()[0].state, ServerState::Ready);
}

#[tokio::test]
async fn redirect_to_another_origin_gets_no_header_and_no_message() {
    let thief = Web::new(|_, got| proper(&got)).await;
    for code in ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let location = thief.url.to_string();
        let web = Web::new(move |_, _| Give {
            status: code,
            headers: vec![("Location", location.clone())],
            body: String::new(),
        });
        let web = web.await;
        let (servers, _cache) = servers(config(&web.url, &[("X-Key", "secret")]));
        let error = ask(&servers).await.unwrap_err().to_string();
        assert!(error.contains("MCP server `fake`"), "{error}");
    }
    assert_eq!(thief.log.all(), Vec::<Value>::new());
}

#[tokio::test]
async fn redirect_within_the_origin_is_followed_with_the_message() {
    let web = Web::new(|_, got| match got.path.as_str() {
        "/mcp" => {
            Give { status: "307 Temporary Redirect", headers: vec![("Location", "/real".into())], body: String::new() }
        }
        _ => proper(&got),
    })
    .await;
    let (servers, _cache) = servers(config(&web.url, &[]));
    assert!(ask(&servers).await.is_ok());
}

#[tokio::test]
async fn giant_and_deep_responses_fail_the_call() {
    for kind in ["giant", "deep", "unknown length", "no json", "error page"] {
        let web = Web::new(move |_, got| {
            if got.json()["method"] != "tools/call" {
                return proper(&got);
            }
            let mut give = json_body(&json!({}));
            match kind {
                "giant" => give.body = "x".repeat(MAX_MESSAGE + 1),
                "deep" => {
                    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
                    give.body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{deep}}}");
                }
                "no json" => give.body = "<html>\u{1b}[31m</html>".into(),
                "error page" => (give.status, give.body) = ("500 Oops", "x".repeat(1 << 20)),
                _ => {
                    give.headers = vec![("Content-Type", "text/event-stream".into())];
                    give.body = format!("data: {}", "x".repeat(MAX_MESSAGE + 1));
                }
            }
            give
        })
        .await;
        let (servers, _cache) = servers(config(&web.url, &[]));
        let error = ask(&servers).await.unwrap_err();
        let message = error.to_string();
        assert!(message.contains("MCP server `fake`") && !message.contains('\u{1b}'), "{kind}: {message}");
        assert!(message.len() < 2_000 && error.request_sent(), "{kind}: {message}");
    }
}

#[tokio::test]
async fn unreachable_server_fails_before_sending() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let (servers, _cache) = servers(config(&url, &[]));
    let error = ask(&servers).await.unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("MCP server `fake` is not reachable: ") && !error.request_sent(), "{message}");
    assert!(message.contains("refused") && !message.contains("::") && !message.contains('['), "{message}");
}

#[tokio::test]
async fn stream_of_events_that_never_ends_is_given_up_and_closed() {
    let (calls, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, noticed) = (calls.clone(), closed.clone());
    let web = Web::serve(move |_, got, mut stream| {
        let message = got.json();
        let is_endless = message["method"] == "tools/call" && counted.fetch_add(1, Ordering::SeqCst) == 0;
        let give = match message["method"] == "ping" {
            true => json_body(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {}})),
            false => proper(&got),
        };
        let noticed = noticed.clone();
        async move {
            if !is_endless {
                return give.send(&mut stream).await;
            }
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
            let event = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}});
            while stream.write_all(format!(": still here\n\ndata: {event}\n\n").as_bytes()).await.is_ok() {
                tokio::task::yield_now().await;
            }
            noticed.fetch_add(1, Ordering::SeqCst);
        }
        .boxed()
    })
    .await;
    let mut config = config(&web.url, &[]);
    config.call_timeout = Duration::from_millis(300);
    let (servers, _cache) = servers(config);
    let error = ask(&servers).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server `fake` did not answer `tools/call` in time");
    until(|| closed.load(Ordering::SeqCst) == 1).await;
    assert!(ask(&servers).await.unwrap().contains("fine"));
}

/// Serves the transport of 2024-11-05, whose address for events refuses messages with this status.
async fn oldest(refusal: &'static str) -> Web {
    let events = Arc::new(tokio::sync::Mutex::new(None::<TcpStream>));
    Web::serve(move |_, got, mut stream| {
        let events = events.clone();
        async move {
            let reply = match (got.method.as_str(), got.path.as_str()) {
                ("GET", "/mcp") => {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
                    let first = "event: endpoint\ndata: /messages?session=1\n\n";
                    stream.write_all(format!("{head}{first}").as_bytes()).await.unwrap();
                    *events.lock().await = Some(stream);
                    return;
                }
                ("POST", "/messages?session=1") => {
                    if let Some(stream) = events.lock().await.as_mut() {
                        let give = proper(&got);
                        let event = format!("event: message\ndata: {}\n\n", give.body);
                        if !give.body.is_empty() {
                            stream.write_all(event.as_bytes()).await.unwrap();
                        }
                    }
                    "202 Accepted"
                }
                _ => refusal,
            };
            let head = format!("HTTP/1.1 {reply}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
        }
        .boxed()
    })
    .await
}

#[tokio::test]
async fn server_of_the_oldest_transport_is_used_whatever_it_refuses_with() {
    for refusal in [
        "405 Method Not Allowed",
        "404 Not Found",
        "400 Bad Request",
        "406 Not Acceptable",
        "415 Unsupported Media Type",
    ] {
        let web = oldest(refusal).await;
        let (servers, _cache) = servers(config(&web.url, &[("X-Key", "secret")]));
        assert!(ask(&servers).await.unwrap().contains("fine"), "{refusal}");
        assert!(web.requests("/messages").iter().all(|got| got["headers"]["x-key"] == "secret"));
    }
    for refusal in ["403 Forbidden", "429 Too Many Requests", "500 Oops"] {
        let web = oldest(refusal).await;
        let (servers, _cache) = servers(config(&web.url, &[]));
        assert!(ask(&servers).await.unwrap_err().to_string().contains(&refusal[..3]));
        assert!(web.requests("/mcp").iter().all(|got| got["method"] == "POST"), "{refusal}");
    }
}

#[tokio::test]
async fn events_cannot_lead_messages_to_another_origin() {
    let thief = Web::new(|_, got| proper(&got)).await;
    let target = thief.url.to_string();
    let web = Web::new(move |_, got| match got.method.as_str() {
        "GET" => Give {
            status: "200 OK",
            headers: vec![("Content-Type", "text/event-stream".into())],
            body: format!("event: endpoint\ndata: {target}\n\n"),
        },
        _ => status("404 Not Found"),
    })
    .await;
    let mut config = config(&web.url, &[("X-Key", "secret")]);
    if let ServerTransport::Http { sse, .. } = &mut config.transport {
        *sse = true;
    }
    let (servers, _cache) = servers(config);
    let error = ask(&servers).await.unwrap_err().to_string();
    assert!(error.contains("another origin"), "{error}");
    assert!(thief.log.all().is_empty());
}

#[tokio::test]
async fn invalid_header_names_the_header_but_not_its_value() {
    let web = Web::new(|_, got| proper(&got)).await;
    let (servers, _cache) = servers(config(&web.url, &[("X-Key", "sec\nret")]));
    let error = ask(&servers).await.unwrap_err().to_string();
    assert!(error.contains("X-Key") && !error.contains("sec"), "{error}");
}

#[tokio::test]
async fn keys_in_the_address_stay_out_of_messages() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/mcp?key=hunter2", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let (servers, _cache) = servers(config(&url, &[]));
    let error = ask(&servers).await.unwrap_err();
    assert!(!format!("{error} {error:?} {:?}", servers.list()).contains("hunter2"));
}

#[tokio::test]
async fn servers_on_the_web_are_told_no_directories() {
    let web = Web::new(|_, got| proper(&got)).await;
    let (servers, _cache) = servers(config(&web.url, &[]));
    ask(&servers).await.unwrap();
    assert!(web.requests("/mcp").iter().all(|got| !got.to_string().contains("/work/project")));
    let initialize = web.requests("/mcp").into_iter().find(|got| got.to_string().contains("initialize")).unwrap();
    assert!(!initialize["body"].as_str().unwrap().contains("roots"));
}
