//! Plugins send requests to the servers that they were granted.

use pinion_agent::tool::Ledger;
use pinion_plugin_runtime::{HostAction, PartialLimits};
use pinion_tests::{HttpServer, Progress, Sandbox, SandboxBuilder, answer};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

/// A sandbox whose plugin `fetcher` is granted these rules.
async fn granted(rules: &[&str]) -> Sandbox {
    SandboxBuilder::default().guest("fetcher").http("fetcher", rules).build().await
}

/// Sends one request and returns its outcome.
async fn outcome(sandbox: &Sandbox, request: Value) -> Value {
    outcome_and_ledger(sandbox, request).await.0
}

async fn outcome_and_ledger(sandbox: &Sandbox, request: Value) -> (Value, Ledger) {
    let arguments = json!({ "requests": [request] });
    let (result, ledger) = sandbox.call_with("fetch", arguments, &Progress::default(), CancellationToken::new()).await;
    let text = result.unwrap_or_else(|error| panic!("{error}")).content[0].as_text().unwrap().to_owned();
    let outcomes: Vec<Value> = serde_json::from_str(&text).unwrap();
    (outcomes.into_iter().next().unwrap(), ledger)
}

fn echo() -> impl Fn(&pinion_tests::Received) -> pinion_tests::Answer + Send + Sync + 'static {
    |request| answer(200, &[("x-answer", "yes")], request.body().clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_request_is_answered() {
    let server = HttpServer::start(echo()).await;
    let sandbox = granted(&[&server.url("")]).await;
    let request = json!({
        "method": "POST",
        "url": server.url("/items?page=2"),
        "headers": [["x-asked", "yes"], ["accept", "text/plain"]],
        "body": "hello",
    });
    let outcome = outcome(&sandbox, request).await;
    assert_eq!((&outcome["status"], &outcome["body"]), (&json!(200), &json!("hello")));
    assert!(outcome["headers"].as_array().unwrap().contains(&json!(["x-answer", "yes"])));
    assert_eq!(server.lines(), ["POST /items?page=2"]);
    let received = &server.requests()[0];
    let value = |name: &str| received.headers()[name].to_str().unwrap().to_owned();
    assert_eq!((value("x-asked"), value("accept")), ("yes".to_owned(), "text/plain".to_owned()));
    assert!(value("user-agent").starts_with("pinion/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_status_is_an_answer() {
    let server = HttpServer::start(|request| answer(request.uri().path()[1..].parse().unwrap(), &[], "")).await;
    let sandbox = granted(&[&server.url("")]).await;
    for status in [204, 304, 404, 500, 599] {
        let outcome = outcome(&sandbox, json!({ "url": server.url(&format!("/{status}")) })).await;
        assert_eq!(outcome["status"], json!(status));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_counts_requests_bytes_and_hosts() {
    let server = HttpServer::start(|request| match request.uri().path() {
        "/from" => answer(302, &[("location", "/to")], ""),
        _ => answer(200, &[], vec![b'x'; 10_000]),
    })
    .await;
    let sandbox = granted(&[&server.url("")]).await;
    let (_, ledger) = outcome_and_ledger(&sandbox, json!({ "url": server.url("/from") })).await;
    assert_eq!((ledger.requests, ledger.hosts.iter().map(String::as_str).collect()), (2, vec!["127.0.0.1"]));
    assert!((100..2_000).contains(&ledger.bytes_sent) && (10_000..12_000).contains(&ledger.bytes_received));
    assert!(ledger.to_string().contains(" · 2 requests to 127.0.0.1 · "), "{ledger}");
    let (_, ledger) = outcome_and_ledger(&sandbox, json!({ "url": "https://denied.example" })).await;
    assert_eq!((ledger.requests, ledger.hosts.len(), ledger.bytes_sent), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_up_to_the_limit_of_the_request() {
    let server = HttpServer::start(|request| match request.uri().path()[1..].parse::<u32>().unwrap() {
        0 => answer(200, &[], "end"),
        left => answer(307, &[("location", &format!("/{}", left - 1))], ""),
    })
    .await;
    let sandbox = granted(&[&server.url("")]).await;
    let followed = outcome(&sandbox, json!({ "url": server.url("/10") })).await;
    assert_eq!((&followed["body"], &followed["url"]), (&json!("end"), &json!(server.url("/0"))));
    for most in [json!(null), json!(11), json!(4_000_000_000_u32)] {
        let failed = outcome(&sandbox, json!({ "url": server.url("/11"), "max_redirects": most })).await;
        assert!(failed["failed"].as_str().unwrap().contains("more than 10 times"), "{failed}");
        assert_eq!(failed["sent"], json!(true));
    }
    let failed = outcome(&sandbox, json!({ "url": server.url("/2"), "max_redirects": 1 })).await;
    assert!(failed["failed"].as_str().unwrap().contains("more than 1 times"), "{failed}");
    let returned = outcome(&sandbox, json!({ "url": server.url("/2"), "max_redirects": 0 })).await;
    assert_eq!(returned["status"], json!(307));
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_says_whether_the_request_was_sent() {
    let closing = HttpServer::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let sandbox = granted(&[&closing.url(""), &format!("http://{unused}")]).await;
    let refused = outcome(&sandbox, json!({ "url": format!("http://{unused}/") })).await;
    assert!(refused["failed"].is_string() && refused["sent"] == json!(false), "{refused}");
    let broken = outcome(&sandbox, json!({ "url": closing.url("/") })).await;
    assert!(broken["failed"].is_string() && broken["sent"] == json!(true), "{broken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn body_is_limited_to_what_the_request_accepts() {
    let server =
        HttpServer::start(|request| answer(200, &[], vec![b'x'; request.uri().path()[1..].parse::<usize>().unwrap()]))
            .await;
    let sandbox = granted(&[&server.url("")]).await;
    let mib = 1 << 20;
    for (size, most, expected) in [
        (4 * mib, None, json!(null)),
        (4 * mib + 1, None, json!(4 * mib)),
        (16 * mib, Some(u32::MAX), json!(null)),
        (16 * mib + 1, Some(u32::MAX), json!(16 * mib)),
        (11, Some(10), json!(10)),
        (0, Some(0), json!(null)),
    ] {
        let outcome = outcome(&sandbox, json!({ "url": server.url(&format!("/{size}")), "max_body": most })).await;
        assert_eq!(outcome["too-large"], expected, "{size} {most:?}");
        assert_eq!(outcome["size"].as_u64(), expected.is_null().then_some(size as u64), "{size} {most:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_requests_of_a_call_is_limited() {
    let server = HttpServer::start(echo()).await;
    let limits = PartialLimits { requests: Some(2), ..PartialLimits::default() };
    let builder = SandboxBuilder::default().guest("fetcher").http("fetcher", &[&server.url("")]);
    let sandbox = builder.limits("fetcher", limits).build().await;
    let requests = vec![json!({ "url": server.url("/") }); 3];
    let error = sandbox.error("fetch", json!({ "requests": requests })).await;
    assert!(error.contains("sent more than 2 requests") && error.contains("raise `requests`"), "{error}");
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_send_requests() {
    let server = HttpServer::start(echo()).await;
    let sandbox = granted(&[&server.url("")]).await;
    let ran = sandbox.runtime.run_command("fetch", &server.url("/command"), "s", None, CancellationToken::new()).await;
    assert!(matches!(&ran.unwrap()[..], [HostAction::Print(text)] if text.contains("200")));
    assert_eq!(server.lines(), ["GET /command"]);
}
