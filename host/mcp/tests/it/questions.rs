//! Questions of servers during a request: who pays for the time, and when they end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use pinion_mcp::{CallContext, Elicited, LoginCode, LoginPage, McpError, Person};
use pinion_protocol::FormSchema;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use url::Url;

use crate::fake::{Bench, Log, NAME, call, stdio, text, tools, until};

/// Answers after a time.
struct Slow {
    after: Duration,
    asked: AtomicUsize,
    /// Questions that were dropped without an answer.
    dropped: Arc<AtomicUsize>,
    pages: Mutex<Vec<String>>,
    agrees: bool,
}

impl Slow {
    fn new(after: Duration) -> Self {
        Self { after, asked: AtomicUsize::new(0), dropped: Arc::default(), pages: Mutex::default(), agrees: true }
    }
}

struct Dropped(Option<Arc<AtomicUsize>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(dropped) = self.0.take() {
            dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Person for Slow {
    fn elicit_form<'a>(&'a self, _: &'a str, _: &'a str, _: &'a FormSchema) -> BoxFuture<'a, Elicited> {
        async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let mut unanswered = Dropped(Some(self.dropped.clone()));
            sleep(self.after).await;
            unanswered.0 = None;
            Elicited::Accept(Some(json!({"name": "Ann"}).to_string()))
        }
        .boxed()
    }
    fn elicit_url<'a>(&'a self, _: &'a str, message: &'a str, url: &'a Url) -> BoxFuture<'a, Elicited> {
        self.pages.lock().unwrap().push(format!("{message} {url}"));
        async { if self.agrees { Elicited::Accept(None) } else { Elicited::Decline } }.boxed()
    }
    fn is_done<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, bool> {
        self.pages.lock().unwrap().push(format!("{server} done {url}"));
        async { true }.boxed()
    }
    fn consent_to_sampling<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        async { false }.boxed()
    }
    fn sample<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<String, String>> {
        async { Err(String::new()) }.boxed()
    }
    fn open_login<'a>(&'a self, _: &'a str, _: &'a LoginPage) -> BoxFuture<'a, Option<String>> {
        async { None }.boxed()
    }
    fn show_code<'a>(&'a self, _: &'a str, _: &'a LoginCode) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }
}

fn question() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let params = json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
}

/// Starts a server that asks during its first call, and then answers it after `works`.
fn asking(person: Arc<Slow>, works: Duration) -> Bench {
    Bench::with(stdio(), person, move |_, mut io| async move {
        let request = io.connect(&tools()).await.unwrap();
        io.write(&question()).await;
        let answer = io.read().await.unwrap();
        sleep(works).await;
        io.reply(&request, text(answer["result"]["content"]["name"].as_str().unwrap_or("nobody"))).await;
        while io.read().await.is_some() {}
    })
}

#[tokio::test(start_paused = true)]
async fn time_of_the_user_is_not_that_of_the_server() {
    // The limit of a call is a minute.
    let bench = asking(Arc::new(Slow::new(Duration::from_secs(600))), Duration::from_secs(50));
    let started = Instant::now();
    assert!(bench.call("echo").await.unwrap().contains("Ann"));
    assert_eq!(started.elapsed().as_secs(), 650);
    let bench = asking(Arc::new(Slow::new(Duration::from_secs(600))), Duration::from_secs(70));
    let started = Instant::now();
    assert!(matches!(bench.call("echo").await, Err(McpError::TimedOut { .. })));
    assert_eq!(started.elapsed().as_secs(), 660);
}

#[tokio::test(start_paused = true)]
async fn question_ends_with_the_request_that_it_belongs_to() {
    let person = Arc::new(Slow::new(Duration::from_secs(600)));
    let bench = asking(person.clone(), Duration::ZERO);
    let context = CallContext::within(Duration::from_secs(3600));
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(bench.servers.request(NAME, call("echo"), context), async {
        until(|| person.asked.load(Ordering::SeqCst) == 1).await;
        cancel.cancel();
    });
    assert_eq!(result, Err(McpError::Cancelled { request_sent: true }));
    until(|| person.dropped.load(Ordering::SeqCst) == 1).await;
    let answered = || bench.log().all().into_iter().find(|message| message["id"] == "q");
    until(|| answered().is_some()).await;
    assert!(answered().unwrap()["error"]["message"].as_str().unwrap().contains("while a request is open"));
}

#[tokio::test(start_paused = true)]
async fn question_outside_of_requests_reaches_nobody() {
    let person = Arc::new(Slow::new(Duration::ZERO));
    let bench = Bench::with(stdio(), person.clone(), |_, mut io| async move {
        let request = io.connect(&tools()).await.unwrap();
        io.reply(&request, text("done")).await;
        sleep(Duration::from_secs(1)).await;
        io.write(&question()).await;
        while io.read().await.is_some() {}
    });
    bench.call("echo").await.unwrap();
    until(|| bench.log().all().iter().any(|message| message["id"] == "q" && message.get("error").is_some())).await;
    assert_eq!(person.asked.load(Ordering::SeqCst), 0);
}

/// Starts a server of protocol 2025-11-25 that wants pages visited before it answers, `times` times.
fn gated(person: Arc<Slow>, times: usize, log: Log) -> Bench {
    Bench::with(stdio(), person, move |_, mut io| {
        let log = log.clone();
        async move {
            let mut refused = 0;
            while let Some(request) = io.connect(&tools()).await {
                log.add(&request);
                if refused == times {
                    io.reply(&request, text("connected")).await;
                    continue;
                }
                refused += 1;
                let page = json!({
                    "mode": "url", "elicitationId": "e2", "url": "https://mcp.example/connect?e=e2",
                    "message": "Authorization is required.",
                });
                let error = json!({"code": -32042, "message": "more is needed", "data": {"elicitations": [page]}});
                io.write(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn request_is_repeated_after_the_page_that_it_needs_was_visited() {
    let (person, log) = (Arc::new(Slow::new(Duration::ZERO)), Log::default());
    let bench = gated(person.clone(), 1, log.clone());
    assert!(bench.call("echo").await.unwrap().contains("connected"));
    assert_eq!(log.count("tools/call"), 2);
    let page = "https://mcp.example/connect?e=e2";
    let shown = [format!("Authorization is required. {page}"), format!("fake done {page}")];
    assert_eq!(*person.pages.lock().unwrap(), shown);
}

#[tokio::test(start_paused = true)]
async fn page_that_the_user_declines_ends_the_request() {
    let person = Slow { agrees: false, ..Slow::new(Duration::ZERO) };
    let log = Log::default();
    let error = gated(Arc::new(person), 1, log.clone()).call("echo").await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server `fake` wants the user to visit a page, which the user declined");
    assert_eq!(log.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn endless_pages_are_given_up() {
    let log = Log::default();
    let bench = gated(Arc::new(Slow::new(Duration::ZERO)), usize::MAX, log.clone());
    let error = bench.call("echo").await.unwrap_err();
    assert!(matches!(error, McpError::Server { code: -32042, .. }), "{error:?}");
    assert_eq!(log.count("tools/call"), 9);
}
