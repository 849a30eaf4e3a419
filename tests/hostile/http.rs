//! A network grant is only for the requests that it names, against all attempts of the guest, the server and a reload.

use super::grants::{manifest, packed};
use pinion_agent::Authority;
use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::{EngineLimits, HostAction, NoticeEvent, PartialLimits};
use pinion_tests::{
    Answer, HttpServer, Pinion, Progress, Received, Sandbox, SandboxBuilder, answer, assert_served, guest,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

fn ok(_: &Received) -> Answer {
    answer(200, &[], "reached")
}

fn builder(rules: &[&str]) -> SandboxBuilder {
    SandboxBuilder::default().guest("fetcher").http("fetcher", rules).watched()
}

async fn granted(rules: &[&str]) -> Sandbox {
    builder(rules).build().await
}

/// Sends requests in one call and returns their outcomes. Another plugin is served after it.
async fn outcomes(sandbox: &Sandbox, requests: &[Value]) -> Vec<Value> {
    let outcomes = sandbox.text("fetch", json!({ "requests": requests })).await;
    assert_served(&sandbox.runtime).await;
    serde_json::from_str(&outcomes).unwrap()
}

async fn outcome(sandbox: &Sandbox, request: Value) -> Value {
    outcomes(sandbox, &[request]).await.remove(0)
}

fn get(url: &str) -> Value {
    json!({ "url": url })
}

fn is_refused(outcome: &Value) -> bool {
    outcome["denied"].is_string() || outcome["invalid"].is_string()
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
async fn plugin_without_a_grant_connects_to_nothing() {
    let server = HttpServer::start(ok).await;
    let sandbox = SandboxBuilder::default().guest("fetcher").watched().build().await;
    let error = sandbox.error("fetch", json!({ "requests": [get(&server.url("/"))] })).await;
    assert!(error.contains("may not send requests to servers") && error.contains("[plugins.fetcher.grants] http ="));
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_does_not_declare_the_network_sends_nothing() {
    let server = HttpServer::start(ok).await;
    let sandbox = granted(&[&server.url("")]).await;
    let requests = json!({ "requests": [get(&server.url("/"))] });
    let text = sandbox.text("fetch_quietly", requests.clone()).await;
    assert!(text.contains("does not declare the effect `network`"), "{text}");
    let cut = sandbox.call_at_most(Authority::READ_ONLY, "fetch", requests).await;
    assert!(!cut.contains("reached"), "{cut}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn completion_and_init_send_nothing() {
    let server = HttpServer::start(ok).await;
    let config = json!({ "url": server.url("/init") });
    let sandbox = builder(&[&server.url("")]).config("fetcher", config).build().await;
    let completions = sandbox.completed("fetch", &server.url("/completion")).await;
    assert!(completions.iter().all(|completion| completion.value.contains("only calls of tools and commands may")));
    let init = sandbox.text("init_outcome", json!({})).await;
    assert!(init.contains("only calls of tools and commands may"), "{init}");
    assert_eq!(server.connections(), 0);
    let ran = sandbox.runtime.run_command("fetch", &server.url("/command"), "s", None, CancellationToken::new()).await;
    assert!(matches!(&ran.unwrap()[..], [HostAction::Print(text)] if text.contains("reached")));
    assert_eq!(server.lines(), ["GET /command"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_leads_to_nothing_that_is_not_granted() {
    let other = HttpServer::start(ok).await;
    let targets = [
        other.url("/"),
        "/secret".to_owned(),
        "http://localhost:1/".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "//[::1]/".to_owned(),
    ];
    let locations = targets.clone();
    let server = HttpServer::start(move |request| {
        let at: usize = request.uri().path()["/open/".len()..].parse().unwrap();
        answer(302, &[("location", &locations[at])], "")
    })
    .await;
    let sandbox = granted(&[&server.url("/open/")]).await;
    for at in 0..targets.len() {
        let outcome = outcome(&sandbox, get(&server.url(&format!("/open/{at}")))).await;
        let denied = outcome["denied"].as_str().unwrap_or_else(|| panic!("{outcome}"));
        assert!(denied.contains("to which the server redirected it"), "{denied}");
    }
    let invalid = HttpServer::start(|_| answer(302, &[("location", "file:///etc/passwd")], "")).await;
    let sandbox = granted(&[&invalid.url("")]).await;
    assert!(outcome(&sandbox, get(&invalid.url("/"))).await["failed"].as_str().unwrap().contains("invalid URL"));
    assert_eq!((other.connections(), server.lines().len()), (0, targets.len()));
}

/// Forty ways for a plugin with one grant to try to reach anything else.
#[tokio::test(flavor = "multi_thread")]
async fn one_grant_reaches_nothing_else() {
    let (server, other) = (HttpServer::start(ok).await, HttpServer::start(ok).await);
    let sandbox = granted(&[&format!("GET {}", server.url("/v1/"))]).await;
    let (port, wrong) = (server.port(), other.port());
    let urls = [
        format!("http://127.0.0.1:{wrong}/v1/"),
        format!("http://localhost:{port}/v1/"),
        format!("http://localhost:{wrong}/v1/"),
        format!("http://a.localhost:{port}/v1/"),
        format!("http://[::1]:{port}/v1/"),
        format!("http://[::ffff:127.0.0.1]:{port}/v1/"),
        format!("http://127.0.0.2:{port}/v1/"),
        format!("http://0.0.0.0:{port}/v1/"),
        format!("https://127.0.0.1:{port}/v1/"),
        format!("ws://127.0.0.1:{port}/v1/"),
        format!("ftp://127.0.0.1:{port}/v1/"),
        "file:///etc/passwd".to_owned(),
        "data:text/plain,x".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://0xa9fea9fe/".to_owned(),
        "http://example.com/".to_owned(),
        server.url("/"),
        server.url("/v10"),
        server.url("/v1/../v2"),
        server.url("/v1/%2e%2e/v2"),
        server.url("/v1/..%2fv2"),
        server.url("/v1/%252e%252e%252fv2"),
        server.url("//v1/"),
        server.url("/V1/"),
        server.url("/v1%2f"),
        server.url("/v1/\\..\\..\\v2"),
        format!("http://user@127.0.0.1:{port}/v1/"),
        format!("http://127.0.0.1:{port}@127.0.0.1:{wrong}/v1/"),
        format!("http://127.0.0.1:{port}\\@127.0.0.1:{wrong}/v1/"),
        format!("http://127.0.0.1:{port}#@127.0.0.1:{wrong}/v1/"),
        format!("http://127.0.0.1:{wrong}?@127.0.0.1:{port}/v1/"),
        format!("http://127.0.0.1:{port}/v1/ HTTP/1.1\r\nhost: 127.0.0.1:{wrong}\r\n\r\n"),
        format!("/v1/?{port}"),
        String::new(),
        format!("http://127.0.0.1:{port}.{wrong}/v1/"),
    ];
    let mut requests: Vec<Value> = urls.iter().map(|url| get(url)).collect();
    for method in ["POST", "CONNECT", "TRACE", "get", "GET /v2 HTTP/1.1\r\nx:"] {
        requests.push(json!({ "method": method, "url": server.url("/v1/") }));
    }
    assert_eq!(requests.len(), 40);
    for (request, outcome) in requests.iter().zip(outcomes(&sandbox, &requests).await) {
        assert!(is_refused(&outcome), "{request}: {outcome}");
    }
    assert_eq!((other.connections(), server.connections()), (0, 0));
    assert_eq!(outcome(&sandbox, get(&server.url("/v1/x"))).await["body"], json!("reached"));
}

/// A response is followed only by its status and `location`, even if other parts of it name another server.
#[tokio::test(flavor = "multi_thread")]
async fn redirects_of_every_kind_reach_nothing_else() {
    let other = HttpServer::start(ok).await;
    let target = other.url("/");
    let page = format!("<meta http-equiv=refresh content='0;url={target}'><script src='{target}'></script>");
    let elsewhere = target.clone();
    let server = HttpServer::start(move |request| {
        let status: u16 = request.uri().path()["/open/".len()..].parse().unwrap();
        let link = format!("<{elsewhere}>; rel=preload");
        let headers = [("location", &*elsewhere), ("refresh", &*elsewhere), ("link", &*link), ("alt-svc", "h2=\":1\"")];
        answer(status, &headers, page.clone())
    })
    .await;
    let sandbox = granted(&[&server.url("/open/")]).await;
    for status in [301, 302, 303, 307, 308] {
        for method in ["GET", "POST"] {
            let request = json!({ "method": method, "url": server.url(&format!("/open/{status}")) });
            let outcome = outcome(&sandbox, request).await;
            let denied = outcome["denied"].as_str().unwrap_or_else(|| panic!("{method} {status}: {outcome}"));
            assert!(denied.contains("to which the server redirected it"), "{denied}");
        }
    }
    for status in [200, 201, 300, 304, 305, 306, 401, 407, 426, 503] {
        let outcome = outcome(&sandbox, get(&server.url(&format!("/open/{status}")))).await;
        assert_eq!(outcome["status"], json!(status), "{outcome}");
    }
    assert_eq!((other.connections(), server.lines().len()), (0, 20));
}

/// The environment of the host names proxies, as users have it. Requests of plugins do not use them.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_of_the_environment_sees_no_request_of_a_plugin() {
    let (server, proxy) = (HttpServer::start(ok).await, HttpServer::start(ok).await);
    let pinion = Pinion::default();
    let (plugin, grant) = (guest("fetcher"), format!("http={}", server.url("")));
    let requests = json!({ "requests": [get(&server.url("/"))] }).to_string();
    let mut command =
        pinion.command(["plugin", "call", plugin.to_str().unwrap(), "fetch", &requests, "--grant", &grant]);
    for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(variable, proxy.url(""));
    }
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains("reached"), "{ended:?}");
    assert_eq!((server.connections(), proxy.connections()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_cannot_be_smuggled() {
    let server = HttpServer::start(ok).await;
    let sandbox = granted(&[&server.url("")]).await;
    let headers = [
        ("host", "other.example"),
        ("Host", "other.example"),
        ("content-length", "0"),
        ("transfer-encoding", "chunked"),
        ("Transfer_Encoding", "chunked"),
        ("connection", "keep-alive"),
        ("upgrade", "websocket"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic x"),
        ("expect", "100-continue"),
        ("x-http-method-override", "DELETE"),
        ("x-original-url", "/admin"),
        ("x", "a\r\nhost: other.example"),
        ("x", "a\nGET /admin HTTP/1.1"),
        ("x\r\nhost", "other.example"),
        ("x: y\r\nz", "a"),
        ("", "a"),
        ("x", "a\0b"),
    ];
    let requests: Vec<Value> =
        headers.iter().map(|header| json!({ "url": server.url("/"), "headers": [header] })).collect();
    for (header, outcome) in headers.iter().zip(outcomes(&sandbox, &requests).await) {
        assert!(outcome["invalid"].is_string(), "{header:?}: {outcome}");
    }
    let many: Vec<(String, &str)> = (0..101).map(|at| (format!("x-{at}"), "a")).collect();
    assert!(is_refused(&outcome(&sandbox, json!({ "url": server.url("/"), "headers": many })).await));
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_failures_show_no_query_and_no_path() {
    let server = HttpServer::start(ok).await;
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let sandbox = granted(&[&server.url("/open"), &format!("http://{unused}")]).await;
    let (secret, tail) = ("sk-Zq7Xw3Vb9Nm2", "private-path?token=sk-Zq7Xw3Vb9Nm2");
    let mut requests = vec![
        get(&format!("https://other.example/{tail}")),
        get(&server.url(&format!("/{tail}"))),
        get(&format!("http://{unused}/{tail}")),
        get(&format!("http://user:{secret}@127.0.0.1/{tail}")),
        get(&format!("https://other.example/{tail} x")),
    ];
    requests.push(json!({ "url": server.url("/open"), "headers": [["x-key", format!("{secret}\n")]] }));
    for outcome in outcomes(&sandbox, &requests).await {
        let text = outcome.to_string();
        assert!(!text.contains(secret) && !text.contains("private-path"), "{text}");
        assert!(outcome["status"].is_null(), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn denial_names_the_rule_that_is_missing() {
    let sandbox = granted(&["https://a.example/v1", "http://127.0.0.1:1"]).await;
    let other = outcome(&sandbox, json!({ "method": "POST", "url": "https://b.example:8443/x?y" })).await;
    let denied = other["denied"].as_str().unwrap();
    assert!(denied.contains("plugin `fetcher` may not send `POST` to `https://b.example:8443`"), "{denied}");
    assert!(denied.contains("[plugins.fetcher.grants] http = [\"POST https://b.example:8443\"]"), "{denied}");
    let path = outcome(&sandbox, get("https://a.example/v2")).await;
    assert!(path["denied"].as_str().unwrap().contains("beyond `https://a.example/v1/*`"), "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_that_is_not_granted_is_not_looked_up_and_nothing_is_sent() {
    let server = HttpServer::start(ok).await;
    let sandbox = granted(&[&server.url("")]).await;
    for name in ["github", "", "../../auth.toml", "\u{1b}[31m"] {
        let outcome = outcome(&sandbox, json!({ "url": server.url("/"), "credential": name })).await;
        let denied = outcome["denied"].as_str().unwrap();
        assert!(denied.contains("may not use the secret") && !denied.contains('\u{1b}'), "{denied}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_response_ends_at_its_limit() {
    let server = HttpServer::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
    })
    .await;
    let sandbox = granted(&[&server.url("")]).await;
    let outcome = outcome(&sandbox, json!({ "url": server.url("/"), "max_body": 4_000_000_000_u32 })).await;
    assert_eq!(outcome["too-large"], json!(16 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_count_towards_the_memory_of_the_plugin() {
    let server = HttpServer::start(|_| answer(200, &[], vec![b'x'; 12 << 20])).await;
    let engine = EngineLimits { plugin_memory_bytes: 8 << 20, ..EngineLimits::default() };
    let limits = PartialLimits { memory_bytes: Some(8 << 20), ..PartialLimits::default() };
    let sandbox = builder(&[&server.url("")]).engine(engine).limits("fetcher", limits).build().await;
    let request = json!({ "url": server.url("/"), "max_body": 16 << 20 });
    let error = sandbox.error("fetch", json!({ "requests": [request] })).await;
    assert!(error.contains("plugin-memory-bytes"), "{error}");
    // The plugin has all of its memory again.
    let denied = outcome(&sandbox, get("https://denied.example")).await;
    assert!(is_refused(&denied), "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_body_beyond_the_limit_is_not_sent() {
    let server = HttpServer::start(ok).await;
    let sandbox = granted(&[&server.url("")]).await;
    let most = json!({ "method": "POST", "url": server.url("/"), "body": "x".repeat(1024), "repeat": 16 << 10 });
    assert_eq!(outcome(&sandbox, most).await["status"], json!(200));
    let more = json!({ "method": "POST", "url": server.url("/"), "body": "x".repeat(1025), "repeat": 16 << 10 });
    assert!(outcome(&sandbox, more).await["invalid"].as_str().unwrap().contains("exceeds 16777216 bytes"));
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_server_is_given_up_at_the_timeout_and_at_the_deadline() {
    let (server, _) = silent().await;
    let sandbox = granted(&[&server.url("")]).await;
    let outcome = outcome(&sandbox, json!({ "url": server.url("/"), "timeout_ms": 50 })).await;
    assert!(outcome["timed-out"].is_string() && outcome["sent"] == json!(true), "{outcome}");
    let limits = PartialLimits { deadline_ms: Some(300), ..PartialLimits::default() };
    let sandbox = builder(&[&server.url("")]).limits("fetcher", limits).build().await;
    let request = json!({ "url": server.url("/"), "timeout_ms": u32::MAX });
    let ended =
        tokio::time::timeout(Duration::from_secs(20), sandbox.call("fetch", json!({ "requests": vec![request; 3] })));
    let text = format!("{:?}", ended.await.expect("the call ignores its deadline"));
    assert!(text.contains("Deadline") || text.contains("timed-out"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_ends_a_request_that_waits() {
    let (server, arrived) = silent().await;
    let sandbox = granted(&[&server.url("")]).await;
    let token = CancellationToken::new();
    let arguments = json!({ "requests": [get(&server.url("/"))] });
    let progress = Progress::default();
    let (ended, ()) = tokio::join!(sandbox.call_with("fetch", arguments, &progress, token.clone()), async {
        arrived.notified().await;
        token.cancel();
    });
    match ended.0 {
        Ok(output) => assert!(output.content[0].as_text().unwrap().contains("cancelled"), "{output:?}"),
        Err(error) => assert!(matches!(error, ToolError::Cancelled { .. }), "{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_servers_fail_their_own_requests_only() {
    let answers: &[&[u8]] = &[
        b"",
        b"\0\xff\xfe",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZZ\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/9.9 999999 \r\n\r\n",
    ];
    let servers = answers.iter().map(|said| {
        HttpServer::raw(move |mut stream| async move {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(said).await;
        })
    });
    let servers = futures_util::future::join_all(servers).await;
    let flood = HttpServer::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(b"x: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await.is_ok() {}
    })
    .await;
    let good = HttpServer::start(ok).await;
    let urls: Vec<String> = servers.iter().chain([&flood]).map(|server| server.url("/")).collect();
    let rules: Vec<&str> = urls.iter().map(String::as_str).collect();
    let sandbox = granted(&[&rules[..], &[&good.url("")]].concat()).await;
    let requests: Vec<Value> = urls.iter().map(|url| get(url)).chain([get(&good.url("/"))]).collect();
    let mut outcomes = outcomes(&sandbox, &requests).await;
    assert_eq!(outcomes.pop().unwrap()["body"], json!("reached"));
    for outcome in outcomes {
        assert!(outcome["failed"].is_string() && outcome["sent"] == json!(true), "{outcome}");
    }
}

/// A component that asks for these servers.
fn asking(servers: &Value) -> Vec<u8> {
    packed("fetcher", &manifest("fetcher", json!({ "http": servers })))
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_reaches_only_the_servers_that_the_manifest_names() {
    let (asked, other) = (HttpServer::start(ok).await, HttpServer::start(ok).await);
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("fetcher.wasm");
    std::fs::write(&file, asking(&json!([asked.url("/v1")]))).unwrap();
    let rules = [&asked.url("")[..], &other.url("")];
    let sandbox = SandboxBuilder::default().file(file).http("fetcher", &rules).watched().build().await;
    assert_eq!(outcome(&sandbox, get(&asked.url("/v1/x"))).await["body"], json!("reached"));
    for url in [asked.url("/v2"), other.url("/")] {
        assert!(is_refused(&outcome(&sandbox, get(&url)).await), "{url}");
    }
    let denied = outcome(&sandbox, get(&other.url("/"))).await;
    assert!(denied["denied"].as_str().unwrap().contains("its manifest does not ask for it"), "{denied}");
    let about = &sandbox.runtime.plugins()[0].capabilities[0];
    assert_eq!(about.asks, format!("send requests to {}/v1/*", asked.url("")));
    assert_eq!(about.granted, Some(format!(": {}/v1/*", asked.url(""))));
    assert_eq!(other.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_that_asks_for_more_servers_does_not_get_them() {
    let (old, new) = (HttpServer::start(ok).await, HttpServer::start(ok).await);
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("fetcher.wasm");
    std::fs::write(&file, asking(&json!([old.url("")]))).unwrap();
    let rules = [&old.url("")[..], &new.url("")];
    let sandbox = SandboxBuilder::default().file(file.clone()).http("fetcher", &rules).watched().build().await;
    assert_eq!(outcome(&sandbox, get(&old.url("/"))).await["body"], json!("reached"));
    for ask in [json!([old.url(""), new.url("")]), json!(true)] {
        std::fs::write(&file, asking(&ask)).unwrap();
        assert!(is_refused(&outcome(&sandbox, get(&new.url("/"))).await), "{ask}");
        assert_eq!(outcome(&sandbox, get(&old.url("/"))).await["body"], json!("reached"));
    }
    let why = sandbox.notices().into_iter().find_map(|notice| match notice.event {
        NoticeEvent::HeldBack(why) => Some(why),
        _ => None,
    });
    let why = why.unwrap();
    assert!(why.contains(&format!("send requests to {}", new.url(""))) && !why.contains(&old.url("")), "{why}");
    // A reload that asks for less gets less.
    std::fs::write(&file, asking(&json!([old.url("/v1")]))).unwrap();
    assert!(is_refused(&outcome(&sandbox, get(&old.url("/"))).await));
    assert_eq!(outcome(&sandbox, get(&old.url("/v1"))).await["body"], json!("reached"));
    assert_eq!(new.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_with_an_invalid_rule_is_rejected() {
    for ask in
        [json!(["ftp://a.example"]), json!(["https://a.example\u{202e}"]), json!("https://a.example"), json!([1])]
    {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("fetcher.wasm");
        std::fs::write(&file, asking(&ask)).unwrap();
        let sandbox = SandboxBuilder::default().file(file).watched().build().await;
        assert!(!sandbox.runtime.has_plugin("fetcher"), "{ask}");
        let problems = format!("{:?}", sandbox.runtime.problems());
        assert!(problems.contains("invalid `pinion:manifest` section"), "{problems}");
    }
}
