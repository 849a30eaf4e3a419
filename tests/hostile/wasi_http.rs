//! `wasi:http` is another way to the same client: requests that are refused to `pinion:plugin/http` are refused there.

use super::storage::command::answer as answer_of;
use pinion_agent::Authority;
use pinion_agent::tool::Ledger;
use pinion_plugin_runtime::PartialLimits;
use pinion_tests::{
    Answer, Ended, HttpServer, Pinion, Progress, Received, Sandbox, SandboxBuilder, answer, assert_served, guest,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";

fn ok(_: &Received) -> Answer {
    answer(200, &[("x-answer", "yes")], "reached")
}

fn builder(rules: &[&str]) -> SandboxBuilder {
    SandboxBuilder::default().guest("surfer").http("surfer", rules).watched()
}

async fn granted(rules: &[&str]) -> Sandbox {
    builder(rules).build().await
}

fn get(url: &str) -> Value {
    json!({ "url": url })
}

/// Makes one call that sends requests; another plugin is served afterwards. Returns its text and its ledger.
async fn surf(sandbox: &Sandbox, arguments: Value) -> (String, Ledger) {
    let (result, ledger) = sandbox.call_with("surf", arguments, &Progress::default(), CancellationToken::new()).await;
    let text = match result {
        Ok(output) => output.content[0].as_text().unwrap().to_owned(),
        Err(error) => error.to_string(),
    };
    assert_served(&sandbox.runtime).await;
    (text, ledger)
}

async fn outcomes(sandbox: &Sandbox, requests: &[Value]) -> Vec<Value> {
    let (text, _) = surf(sandbox, json!({ "requests": requests })).await;
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
}

async fn outcome(sandbox: &Sandbox, request: Value) -> Value {
    outcomes(sandbox, &[request]).await.remove(0)
}

fn error(outcome: &Value) -> &str {
    outcome["error"].as_str().unwrap_or_else(|| panic!("{outcome}"))
}

/// A server that accepts connections and never answers; the notification says that a request has arrived.
async fn silent() -> (HttpServer, Arc<Notify>) {
    let arrived = Arc::new(Notify::new());
    let notify = arrived.clone();
    let server = HttpServer::raw(move |mut stream| {
        let notify = notify.clone();
        async move {
            let _ = stream.read(&mut [0; 1024]).await;
            notify.notify_one();
            // Ends when the client closes the connection.
            while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
        }
    });
    (server.await, arrived)
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_request_is_answered_and_counted() {
    let server = HttpServer::start(|request| answer(200, &[("x-answer", "yes")], request.body().clone())).await;
    let sandbox = granted(&[&server.url("")]).await;
    let request = json!({
        "method": "POST",
        "url": server.url("/items?page=2"),
        "headers": [["x-asked", "yes"], ["content-length", "10240"]],
        "body": "0123456789",
        "repeat": 1024,
    });
    let (text, ledger) = surf(&sandbox, json!({ "requests": [request] })).await;
    let outcome = serde_json::from_str::<Vec<Value>>(&text).unwrap().remove(0);
    assert_eq!((&outcome["status"], &outcome["size"]), (&json!(200), &json!(10_240)), "{outcome}");
    assert!(outcome["headers"].as_array().unwrap().contains(&json!(["x-answer", "yes"])));
    assert_eq!(server.lines(), ["POST /items?page=2"]);
    let received = &server.requests()[0];
    assert_eq!(
        (&received.headers()["x-asked"], received.body().len()),
        (&http::HeaderValue::from_static("yes"), 10_240)
    );
    assert!(received.headers()["user-agent"].to_str().unwrap().starts_with("pinion/"));
    assert_eq!((ledger.requests, ledger.hosts.iter().map(String::as_str).collect()), (1, vec!["127.0.0.1"]));
    assert!(ledger.bytes_sent > 10_240 && ledger.bytes_received > 10_240, "{ledger}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_without_a_grant_connects_to_nothing() {
    let server = HttpServer::start(ok).await;
    let ungranted = SandboxBuilder::default().guest("surfer").watched().build().await;
    let request = json!({ "requests": [get(&server.url("/"))] });
    let denied = ungranted.error("surf", request.clone()).await;
    assert!(denied.contains("may not send requests to servers"), "{denied}");
    assert!(denied.contains("[plugins.surfer.grants] http ="), "{denied}");
    let sandbox = granted(&[&server.url("")]).await;
    let text = sandbox.text("surf_quietly", request.clone()).await;
    assert!(text.contains("does not declare the effect `network`"), "{text}");
    let cut = sandbox.call_at_most(Authority::READ_ONLY, "surf", request).await;
    assert!(!cut.contains("reached"), "{cut}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_grant_reaches_nothing_else() {
    let (server, other) = (HttpServer::start(ok).await, HttpServer::start(ok).await);
    let sandbox = granted(&[&format!("GET {}", server.url("/v1/"))]).await;
    let (port, wrong) = (server.port(), other.port());
    let urls = [
        format!("http://127.0.0.1:{wrong}/v1/"),
        format!("http://localhost:{port}/v1/"),
        format!("http://[::1]:{port}/v1/"),
        format!("http://[::ffff:127.0.0.1]:{port}/v1/"),
        format!("http://127.0.0.2:{port}/v1/"),
        format!("https://127.0.0.1:{port}/v1/"),
        format!("ws://127.0.0.1:{port}/v1/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://0xa9fea9fe/".to_owned(),
        "http://example.com/".to_owned(),
        server.url("/"),
        server.url("/v10"),
        server.url("/v1/../v2"),
        server.url("/v1/%2e%2e/v2"),
        server.url("/v1/..%2fv2"),
        server.url("//v1/"),
        server.url("/v1/ HTTP/1.1\r\nhost: other\r\n\r\n"),
    ];
    let mut requests: Vec<Value> = urls.iter().map(|url| get(url)).collect();
    for method in ["POST", "CONNECT", "TRACE", "get", "GET /v2 HTTP/1.1\r\nx:"] {
        requests.push(json!({ "method": method, "url": server.url("/v1/") }));
    }
    let real = format!("127.0.0.1:{port}");
    for authority in
        [format!("{real}@127.0.0.1:{wrong}"), format!("user@{real}"), format!("{real}/v1/?"), String::new()]
    {
        requests.push(json!({ "authority": authority, "url": server.url("/v1/") }));
    }
    for (request, outcome) in requests.iter().zip(outcomes(&sandbox, &requests).await) {
        assert!(outcome["error"].is_string(), "{request}: {outcome}");
    }
    // The last request of a call is refused before the host looks at it.
    assert!(outcome(&sandbox, get(&format!("ws://127.0.0.1:{port}/v1/"))).await["error"].is_string());
    assert_eq!((other.connections(), server.connections()), (0, 0));
    assert_eq!(outcome(&sandbox, get(&server.url("/v1/x"))).await["body"], json!("reached"));
}

#[tokio::test(flavor = "multi_thread")]
async fn wildcard_opens_no_private_address() {
    let sandbox = granted(&["http://*"]).await;
    for url in ["http://a.localhost/", "http://10.0.0.1/", "http://[fd00::1]/", "http://169.254.169.254/latest/"] {
        let outcome = outcome(&sandbox, get(url)).await;
        assert!(error(&outcome).contains("the user can grant the address itself"), "{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_is_returned_and_leads_to_nothing_that_is_not_granted() {
    let private = HttpServer::start(ok).await;
    let location = private.url("/secret");
    let server = HttpServer::start(move |_| answer(302, &[("location", &location)], "")).await;
    let sandbox = granted(&[&server.url("/open/")]).await;
    let redirect = outcome(&sandbox, get(&server.url("/open/"))).await;
    assert_eq!(redirect["status"], json!(302));
    let target = redirect["headers"].as_array().unwrap().iter().find(|field| field[0] == "location").unwrap();
    let followed = outcome(&sandbox, get(target[1].as_str().unwrap())).await;
    assert!(error(&followed).contains("may not send `GET`"), "{followed}");
    assert_eq!((server.lines().len(), private.connections()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_cannot_be_smuggled() {
    let server = HttpServer::start(ok).await;
    let sandbox = granted(&[&server.url("")]).await;
    let headers = [
        ("host", "other.example"),
        ("Transfer-Encoding", "chunked"),
        ("Transfer_Encoding", "chunked"),
        ("connection", "keep-alive"),
        ("upgrade", "websocket"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic x"),
        ("expect", "100-continue"),
        ("x-http-method-override", "DELETE"),
        ("content-length", "5"),
        ("content-length", "+0"),
        ("x", "a\r\nhost: other.example"),
        ("x\r\nhost", "other.example"),
        ("", "a"),
        ("x", "a\0b"),
        ("pinion-credential", "github"),
    ];
    let mut requests: Vec<Value> =
        headers.iter().map(|header| json!({ "url": server.url("/"), "headers": [header] })).collect();
    requests.push(json!({ "url": server.url("/"), "headers": [["content-length", "0"], ["content-length", "0"]] }));
    let many: Vec<(String, &str)> = (0..101).map(|at| (format!("x-{at}"), "a")).collect();
    requests.push(json!({ "url": server.url("/"), "headers": many }));
    for (request, outcome) in requests.iter().zip(outcomes(&sandbox, &requests).await) {
        assert!(outcome["error"].is_string(), "{request}: {outcome}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_limited_in_both_directions() {
    let server = HttpServer::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
    })
    .await;
    let sandbox = granted(&[&server.url("")]).await;
    let endless = outcome(&sandbox, get(&server.url("/"))).await;
    assert!(error(&endless).contains("response body size exceeds limit: 16777216 bytes"), "{endless}");
    let large = json!({ "method": "POST", "url": server.url("/"), "body": "x".repeat(1025), "repeat": 16 << 10 });
    let refused = outcome(&sandbox, large).await;
    assert!(error(&refused).contains("HttpRequestBodySize(Some(16777216))"), "{refused}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_is_limited_by_the_request_and_by_the_call() {
    let (server, _) = silent().await;
    let sandbox = granted(&[&server.url("")]).await;
    let outcome = outcome(&sandbox, json!({ "url": server.url("/"), "first_byte_ms": 50 })).await;
    assert!(error(&outcome).contains("Timeout"), "{outcome}");
    let limits = PartialLimits { deadline_ms: Some(300), ..PartialLimits::default() };
    let sandbox = builder(&[&server.url("")]).limits("surfer", limits).build().await;
    let (text, ledger) = surf(&sandbox, json!({ "requests": [get(&server.url("/"))] })).await;
    assert!(text.contains("deadline of 300 ms") || text.contains("Timeout"), "{text}");
    assert_eq!(ledger.requests, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_and_in_a_call_are_limited() {
    let (server, _) = silent().await;
    let sandbox = granted(&[&server.url("")]).await;
    let requests = vec![json!({ "url": server.url("/"), "first_byte_ms": 3_000 }); 40];
    let (text, _) = surf(&sandbox, json!({ "requests": requests, "at_once": true })).await;
    assert_eq!(text.matches("ConnectionLimitReached").count(), 8, "{text}");
    let limits = PartialLimits { requests: Some(2), ..PartialLimits::default() };
    let answering = HttpServer::start(ok).await;
    let sandbox = builder(&[&answering.url("")]).limits("surfer", limits).build().await;
    let outcomes = outcomes(&sandbox, &vec![get(&answering.url("/")); 3]).await;
    assert_eq!(outcomes[1]["body"], json!("reached"));
    let refused = error(&outcomes[2]);
    assert!(refused.contains("sent more than 2 requests") && refused.contains("raise `requests`"), "{refused}");
    assert_eq!(answering.lines().len(), 2);
}

/// The guest returns before the response arrives: the host closes the connection, and the ledger has the request.
#[tokio::test(flavor = "multi_thread")]
async fn request_that_is_left_open_ends_with_its_call_and_is_counted() {
    let ((server, _), (other, arrived)) = (silent().await, silent().await);
    let sandbox = granted(&[&server.url(""), &other.url("")]).await;
    // The first request waits for its answer until the second one was sent.
    let leaving = json!({ "requests": vec![get(&server.url("/")); 3], "leave": true });
    let (text, ledger) = surf(&sandbox, leaving).await;
    assert_eq!(text, "3");
    assert!(ledger.requests <= 3, "{ledger}");
    let (result, ledger) = {
        let token = CancellationToken::new();
        let progress = Progress::default();
        let call = sandbox.call_with("surf", json!({ "requests": [get(&other.url("/"))] }), &progress, token.clone());
        let cancel = async {
            arrived.notified().await;
            token.cancel();
        };
        tokio::join!(call, cancel).0
    };
    assert_eq!(ledger.requests, 1, "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_without_end_stop_at_the_handles() {
    let sandbox = granted(&["https://a.example"]).await;
    let error = sandbox.error("hoard", json!({})).await;
    assert!(error.contains("open handles") && error.contains("raise `handles`"), "{error}");
}

/// Runs one call of the command with a secret for a server.
fn run(pinion: &Pinion, request: Value) -> Ended {
    let call = json!({ "calls": [{ "tool": "surf", "arguments": { "requests": [request] } }] });
    let script = pinion.script(&[call, json!({ "text": "done" })]);
    let (script, plugin) = (script.to_str().unwrap().to_owned(), guest("surfer"));
    let arguments = ["-p", "--plugin", plugin.to_str().unwrap(), "--replay", &script, "--approve", "all"];
    let mut command = pinion.command(arguments.iter().chain(&["--output-format", "stream-json", "go"]));
    let run = command.env("HIDDEN_VARIABLE", SECRET).output().unwrap();
    Ended {
        code: run.status.code(),
        stdout: String::from_utf8(run.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&run.stderr).into_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_is_inserted_by_name_and_never_seen() {
    // Sends everything back, in the header and in the body.
    let server = HttpServer::start(|request| {
        let sent = request.headers().get("authorization").map_or("none", |value| value.to_str().unwrap());
        assert!(!request.headers().contains_key("pinion-credential"));
        answer(200, &[("x-echo", sent)], format!("you are {sent}"))
    })
    .await;
    let other = HttpServer::start(ok).await;
    let pinion = Pinion::default();
    let rules = [server.url("/"), other.url("/")];
    pinion.config(&format!(
        "[secrets.github]\nenv = \"HIDDEN_VARIABLE\"\nhosts = [{:?}]\n\
         [plugins.surfer.grants]\nsecrets = [\"github\"]\nhttp = {rules:?}\n",
        rules[0]
    ));
    let with = |url: &str| json!({ "url": url, "headers": [["pinion-credential", "github"]] });
    let runs = tokio::task::block_in_place(|| [run(&pinion, with(&rules[0])), run(&pinion, with(&rules[1]))]);
    let received: Vec<_> = server.requests().iter().map(|sent| sent.headers()["authorization"].clone()).collect();
    assert_eq!(received, [&format!("Bearer {SECRET}")]);
    let text = answer_of(&runs[0]);
    assert!(text.contains("you are Bearer [redacted]"), "{text}");
    assert!(answer_of(&runs[1]).contains("InternalError"), "{:?}", runs[1]);
    assert_eq!(other.connections(), 0);
    for run in &runs {
        for at in 0..=SECRET.len() - 8 {
            let window = &SECRET[at..at + 8];
            assert!(!run.stdout.contains(window) && !run.stderr.contains(window), "`{window}` in {run:?}");
        }
    }
}
