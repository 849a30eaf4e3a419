//! Sessions and connections of servers over HTTP: their loss, their reuse, and the texts of errors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::FutureExt as _;
use pinion_mcp::{CallContext, McpError, Request};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, yield_now};
use url::Url;

use crate::fake::{NAME, tool};
use crate::http::{Give, Got, PATIENCE, Web, ask, config, json_body, proper, servers, status};

/// Gives the session that `initialize` begins, and refuses requests of any other with `refusal`. The number of the
/// session is the number of restarts, which the name of the tool shows too.
fn with_sessions(got: &Got, restarts: &AtomicUsize, refusal: impl Fn() -> Give) -> Give {
    let current = restarts.load(Ordering::SeqCst).to_string();
    let method = got.json()["method"].clone();
    let said = got.headers.get("mcp-session-id");
    if said.is_some_and(|said| *said != current) {
        return refusal();
    }
    let mut give = proper(got);
    if method == "initialize" {
        give.headers.push(("Mcp-Session-Id", current));
    } else if method == "tools/list" {
        let tools = json!([tool("echo"), tool(&format!("after_{current}_restarts"))]);
        return json_body(&json!({"jsonrpc": "2.0", "id": got.json()["id"], "result": {"tools": tools}}));
    }
    give
}

fn no_session() -> Give {
    let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
    let body = json!({"jsonrpc": "2.0", "error": error, "id": null});
    Give { status: "400 Bad Request", ..json_body(&body) }
}

#[tokio::test]
async fn lost_session_is_replaced_within_the_request() {
    let refusals: [fn() -> Give; 4] = [
        no_session,
        || status("404 Not Found"),
        || status("400 Bad Request"),
        || Give { status: "200 OK", ..no_session() },
    ];
    for refusal in refusals {
        let restarts = Arc::new(AtomicUsize::new(0));
        let seen = restarts.clone();
        let web = Web::new(move |_, got| with_sessions(&got, &seen, refusal)).await;
        let (servers, _cache) = servers(config(&web.url, &[]));
        assert!(ask(&servers).await.unwrap().contains("fine"));
        restarts.fetch_add(1, Ordering::SeqCst);
        assert!(ask(&servers).await.unwrap().contains("fine"));
        // The new connection shows the server's current offer.
        assert_eq!(servers.list()[0].tools[1].name, "after_1_restarts");
    }
}

#[tokio::test]
async fn session_that_is_lost_with_each_request_is_an_error() {
    let web = Web::new(|_, got| match got.json()["method"] == "tools/call" {
        true => no_session(),
        false => with_sessions(&got, &AtomicUsize::new(0), no_session),
    })
    .await;
    let (servers, _cache) = servers(config(&web.url, &[]));
    let error = ask(&servers).await.unwrap_err();
    assert_eq!(error, McpError::Failed { message: lost(), request_sent: false });
    let calls = web.requests("/mcp").iter().filter(|got| got["body"].as_str().unwrap().contains("tools/call")).count();
    assert_eq!(calls, 2);
}

#[tokio::test]
async fn requests_wait_for_the_stream_of_events_of_their_session() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = order.clone();
    let web = Web::serve(move |_, got, mut stream| {
        let noted = noted.clone();
        async move {
            let mut give = proper(&got);
            give.headers.push(("Mcp-Session-Id", "1".to_owned()));
            if got.method != "GET" {
                noted.lock().unwrap().push(got.json()["method"].as_str().unwrap_or_default().to_owned());
                return give.send(&mut stream).await;
            }
            // Anything that does not wait comes first.
            for _ in 0..10_000 {
                yield_now().await;
            }
            noted.lock().unwrap().push("stream".to_owned());
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            std::future::pending().await
        }
        .boxed()
    })
    .await;
    let (servers, _cache) = servers(config(&web.url, &[]));
    assert!(ask(&servers).await.unwrap().contains("fine"));
    let order = order.lock().unwrap().clone();
    assert_eq!(order[order.len() - 4..], ["notifications/initialized", "stream", "tools/list", "tools/call"]);
}

fn lost() -> String {
    "MCP server `fake` no longer knows the session".to_owned()
}

#[tokio::test]
async fn error_without_an_id_answers_its_request_if_there_is_no_session() {
    let web = Web::new(|_, got| match got.json()["method"] == "tools/call" {
        true => no_session(),
        false => proper(&got),
    })
    .await;
    let (servers, _cache) = servers(config(&web.url, &[]));
    let error = ask(&servers).await.unwrap_err();
    assert!(matches!(&error, McpError::Server { code: -32000, .. }), "{error:?}");
}

#[tokio::test]
async fn requests_without_an_effect_are_sent_again_when_they_are_lost() {
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = failures.clone();
    let web = Web::new(move |_, got| {
        let message = got.json();
        let is_first = |method: &str| message["method"] == method && counted.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first("resources/read") || is_first("tools/call") {
            return status("502 Bad Gateway");
        }
        match message["method"].as_str() {
            Some("resources/read") => json_body(&json!({
                "jsonrpc": "2.0", "id": message["id"], "result": {"contents": [{"uri": "a://b", "text": "read"}]},
            })),
            _ => proper(&got),
        }
    })
    .await;
    let (servers, _cache) = servers(config(&web.url, &[]));
    let read = Request::ReadResource { uri: "a://b".into() };
    let result = servers.request(NAME, read, CallContext::within(PATIENCE)).await.unwrap();
    assert!(result.contains("read"), "{result}");
    failures.store(0, Ordering::SeqCst);
    let error = ask(&servers).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server `fake` could not be asked: HTTP 502");
    assert!(error.request_sent() && failures.load(Ordering::SeqCst) == 1);
}

#[tokio::test]
async fn errors_say_the_cause_without_types_of_the_program() {
    for (status_line, cause) in
        [("403 Forbidden", "HTTP 403 Forbidden"), ("500 Oops", "HTTP 500"), ("429 Too Many Requests", "HTTP 429")]
    {
        let web = Web::new(move |_, _| status(status_line)).await;
        let (servers, _cache) = servers(config(&web.url, &[]));
        let error = ask(&servers).await.unwrap_err().to_string();
        assert_eq!(error, format!("MCP server `fake` is not reachable: {cause}"));
    }
    let web = Web::new(|_, got| Give { body: "<html>".into(), ..json_body(&got.json()) }).await;
    let (no_json, _cache) = servers(config(&web.url, &[]));
    let error = ask(&no_json).await.unwrap_err().to_string();
    assert!(!error.contains("::") && !error.contains('{'), "{error}");
}

/// A web server that keeps its connections, and counts them.
struct Keeping {
    url: Url,
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Keeping {
    async fn new(answer: fn(&Got) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                open.spawn(serve(stream, answer));
            }
        });
        Self { url, connections, _tasks: tasks }
    }
}

async fn serve(stream: TcpStream, answer: fn(&Got) -> String) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.is_ok_and(|bytes| bytes == 0) {
                return;
            }
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let method = head.split(' ').next().unwrap_or_default().to_owned();
        let body = String::from_utf8(body).unwrap();
        let got = Got { method, path: String::new(), headers: Default::default(), body };
        stream.get_mut().write_all(answer(&got).as_bytes()).await.unwrap();
    }
}

fn response(give: &Give) -> String {
    let headers: String = give.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {}\r\n{headers}Content-Length: {}\r\n\r\n{}", give.status, give.body.len(), give.body)
}

#[tokio::test]
async fn requests_over_http_share_a_connection() {
    let as_json: fn(&Got) -> String = |got| response(&proper(got));
    // As most SDKs answer: one event of a stream of unknown length.
    let as_events: fn(&Got) -> String = |got| {
        let give = proper(got);
        if give.body.is_empty() {
            return response(&give);
        }
        let event = format!("event: message\ndata: {}\n\n", give.body);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}{:x}\r\n{event}\r\n0\r\n\r\n", event.len())
    };
    for answer in [as_json, as_events] {
        let web = Keeping::new(answer).await;
        let (servers, _cache) = servers(config(&web.url, &[]));
        for _ in 0..10 {
            assert!(ask(&servers).await.unwrap().contains("fine"));
        }
        // A request that begins before the last one has left its connection opens one more.
        let connections = web.connections.load(Ordering::SeqCst);
        assert!(connections <= 3, "{connections} connections for 14 requests");
        servers.shutdown().await;
    }
}
