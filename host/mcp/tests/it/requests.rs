//! Requests: concurrency, cancellation, limits, progress, questions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use pinion_mcp::{CallContext, Elicited, LoginCode, LoginPage, McpError, NoPerson, Person, Request};
use pinion_protocol::FormSchema;
use serde_json::{Value, json};
use url::Url;

use crate::fake::{Bench, Io, Log, NAME, call, stdio, text, tool, tools, until};

/// Notes all messages and answers no message after connecting.
fn deaf(log: Log) -> impl Fn(usize, Io) -> BoxFuture<'static, ()> + Send + Sync {
    move |_, mut io| {
        let log = log.clone();
        async move {
            while let Some(message) = io.connect(&tools()).await {
                log.add(&message);
            }
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn answers_may_come_in_any_order() {
    let bench = Bench::new(|_, mut io| async move {
        let mut waiting = Vec::new();
        while let Some(request) = io.connect(&tools()).await {
            waiting.push(request);
            if waiting.len() == 20 {
                for request in waiting.drain(..).rev() {
                    let reply = text(&request["params"]["arguments"]["n"].to_string());
                    io.reply(&request, reply).await;
                }
            }
        }
    });
    let calls = (0..20).map(|n| {
        let request = Request::CallTool { name: "echo".into(), arguments: format!("{{\"n\":\"call {n}\"}}") };
        bench.servers.request(NAME, request, CallContext::within(Duration::from_secs(9)))
    });
    for (n, result) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        assert!(result.unwrap().contains(&format!("call {n}\\\"")));
    }
}

#[tokio::test(start_paused = true)]
async fn death_in_mid_call_says_that_the_request_was_sent() {
    let bench = Bench::new(|number, mut io| async move {
        while let Some(request) = io.connect(&tools()).await {
            if number == 0 {
                return io.complain("panicked at main.rs").await;
            }
            io.reply(&request, text("alive")).await;
        }
    });
    let error = bench.call("echo").await.unwrap_err();
    assert!(error.request_sent());
    let text = error.to_string();
    assert!(text.starts_with("MCP server `fake` ") && text.contains("before it answered"), "{text}");
    assert!(bench.call("echo").await.unwrap().contains("alive"));
}

#[tokio::test(start_paused = true)]
async fn cancellation_reaches_the_server() {
    let log = Log::default();
    let bench = Bench::new(deaf(log.clone()));
    let call = CallContext::within(Duration::from_secs(3600));
    let cancel = call.cancel.clone();
    let request = bench.servers.request(NAME, crate::fake::call("echo"), call);
    let (result, ()) = tokio::join!(request, async {
        until(|| log.count("tools/call") == 1).await;
        cancel.cancel();
    });
    assert_eq!(result, Err(McpError::Cancelled { request_sent: true }));
    until(|| log.count("notifications/cancelled") == 1).await;
    let messages = log.all();
    assert_eq!(messages[1]["params"]["requestId"], messages[0]["id"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_request_is_cancelled_at_the_server() {
    let log = Log::default();
    let bench = Bench::new(deaf(log.clone()));
    tokio::select! {
        _ = bench.call("echo") => unreachable!(),
        () = until(|| log.count("tools/call") == 1) => {}
    }
    until(|| log.count("notifications/cancelled") == 1).await;
}

#[tokio::test(start_paused = true)]
async fn silence_ends_with_the_call_limit_and_a_cancellation() {
    let log = Log::default();
    let bench = Bench::new(deaf(log.clone()));
    let started = tokio::time::Instant::now();
    let error = bench.call("echo").await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server `fake` did not answer `tools/call` in time");
    assert!(error.request_sent());
    assert_eq!(started.elapsed().as_secs(), 60);
    until(|| log.count("notifications/cancelled") == 1).await;
}

#[tokio::test(start_paused = true)]
async fn server_that_stops_reading_does_not_block_the_caller() {
    let bench = Bench::new(|_, mut io| async move {
        let _ = io.connect(&tools()).await;
        std::future::pending::<()>().await;
    });
    let big = Request::CallTool { name: "echo".into(), arguments: json!({"x": "y".repeat(1 << 20)}).to_string() };
    for _ in 0..3 {
        let result = bench.servers.request(NAME, big.clone(), CallContext::within(Duration::from_secs(5))).await;
        assert!(matches!(result, Err(McpError::TimedOut { .. })));
    }
    tokio::time::timeout(Duration::from_secs(20), bench.servers.shutdown()).await.unwrap();
    assert_eq!(bench.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn progress_is_passed_on_and_extends_the_call_limit() {
    let bench = Bench::new(|_, mut io| async move {
        while let Some(request) = io.connect(&tools()).await {
            let token = request["params"]["_meta"]["progressToken"].clone();
            for step in 1..=3 {
                tokio::time::sleep(Duration::from_secs(40)).await;
                let params = json!({"progressToken": token, "progress": step, "total": 4, "message": "st\u{1b}ep\n2"});
                io.write(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})).await;
            }
            io.reply(&request, text("done")).await;
        }
    });
    let steps = Arc::new(Mutex::new(Vec::new()));
    let noted = steps.clone();
    let mut context = CallContext::within(Duration::from_secs(600));
    context.on_progress = Some(Arc::new(move |step| noted.lock().unwrap().push(step)));
    bench.servers.request(NAME, call("echo"), context).await.unwrap();
    let steps = steps.lock().unwrap();
    assert_eq!(steps.iter().map(|step| step.fraction).collect::<Vec<_>>(), [Some(0.25), Some(0.5), Some(0.75)]);
    assert_eq!(steps[0].message.as_deref(), Some("st␛ep ⏎ 2"));
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_server_are_typed_and_cleaned() {
    let bench = Bench::new(|_, mut io| async move {
        while let Some(request) = io.connect(&tools()).await {
            io.refuse(&request, -32602, "bad\u{1b}[2J \u{202e}argument").await;
        }
    });
    let Err(McpError::Server { server, code, message, .. }) = bench.call("echo").await else { panic!() };
    assert_eq!((server.as_str(), code), (NAME, -32602));
    assert!(message.contains("argument") && !message.contains(['\u{1b}', '\u{202e}']));
}

#[tokio::test(start_paused = true)]
async fn changed_list_is_fetched_and_announced_once_per_change() {
    let bench = Bench::new(|_, mut io| async move {
        let mut calls = 0;
        let mut offered = json!([tool("echo")]);
        while let Some(request) = io.connect(&offered).await {
            io.reply(&request, text("ok")).await;
            calls += 1;
            if calls == 2 {
                offered = json!([tool("echo"), tool("extra")]);
            }
            io.notify("notifications/tools/list_changed").await;
        }
    });
    bench.call("echo").await.unwrap();
    let mut changed = bench.servers.changed();
    tokio::time::sleep(Duration::from_secs(5)).await;
    // The list was fetched again, and is the same.
    assert!(!changed.has_changed().unwrap());
    bench.call("echo").await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), changed.changed()).await.unwrap().unwrap();
    let names: Vec<_> = bench.servers.list().remove(0).tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["echo", "extra"]);
}

#[tokio::test(start_paused = true)]
async fn current_protocol_announces_changes_to_a_subscription() {
    let bench = Bench::new(|_, mut io| async move {
        let mut offered = json!([tool("echo")]);
        let mut subscription = Value::Null;
        while let Some(message) = io.read().await {
            match message["method"].as_str() {
                Some("server/discover") => {
                    let result = json!({
                        "resultType": "complete", "supportedVersions": ["2026-07-28"],
                        "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 0, "cacheScope": "private",
                    });
                    io.reply(&message, result).await;
                }
                Some("tools/list") => {
                    let page = json!({"resultType": "complete", "tools": offered, "ttlMs": 0, "cacheScope": "private"});
                    io.reply(&message, page).await;
                }
                Some("subscriptions/listen") => {
                    subscription = message["id"].clone();
                    let params = json!({
                        "_meta": {"io.modelcontextprotocol/subscriptionId": subscription},
                        "notifications": {"toolsListChanged": true},
                    });
                    let method = "notifications/subscriptions/acknowledged";
                    io.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
                }
                Some("tools/call") => {
                    io.reply(&message, json!({"resultType": "complete", "content": []})).await;
                    offered = json!([tool("echo"), tool("extra")]);
                    let params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": subscription}});
                    let method = "notifications/tools/list_changed";
                    io.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
                }
                _ => {}
            }
        }
    });
    bench.call("echo").await.unwrap();
    until(|| bench.servers.list()[0].tools.len() == 2).await;
}

/// Accepts everything and notes the questions.
#[derive(Default)]
struct Friend(Mutex<Vec<String>>);

impl Friend {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

impl Person for Friend {
    fn can_sample(&self) -> bool {
        true
    }
    fn elicit_form<'a>(&'a self, server: &'a str, message: &'a str, _: &'a FormSchema) -> BoxFuture<'a, Elicited> {
        self.note(&format!("{server} asks: {message}"));
        async { Elicited::Accept(Some("{\"name\":\"Ann\"}".into())) }.boxed()
    }
    fn elicit_url<'a>(&'a self, _: &'a str, _: &'a str, url: &'a Url) -> BoxFuture<'a, Elicited> {
        self.note(url.as_str());
        async { Elicited::Accept(None) }.boxed()
    }
    fn is_done<'a>(&'a self, server: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        self.note(&format!("{server} waits"));
        async { true }.boxed()
    }
    fn consent_to_sampling<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        self.note("sampling");
        async { false }.boxed()
    }
    fn sample<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<String, String>> {
        self.note("sampled without consent");
        async { Err(String::new()) }.boxed()
    }
    fn open_login<'a>(&'a self, _: &'a str, _: &'a LoginPage) -> BoxFuture<'a, Option<String>> {
        async { None }.boxed()
    }
    fn show_code<'a>(&'a self, _: &'a str, _: &'a LoginCode) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }
}

fn form() -> Value {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "age": {"type": "integer", "default": 7},
    }});
    json!({"mode": "form", "message": "Who?", "requestedSchema": schema})
}

#[tokio::test(start_paused = true)]
async fn questions_of_older_servers_reach_the_user() {
    let log = Log::default();
    let noted = log.clone();
    let friend = Arc::new(Friend::default());
    let bench = Bench::with(stdio(), friend.clone(), move |_, mut io| {
        let log = noted.clone();
        async move {
            let request = io.connect(&tools()).await.unwrap();
            let questions = [
                ("elicitation/create", form()),
                ("roots/list", json!({})),
                ("sampling/createMessage", json!({"messages": [], "maxTokens": 10})),
            ];
            for (n, (method, params)) in questions.into_iter().enumerate() {
                let id = format!("question {n}");
                io.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
                log.add(&io.read().await.unwrap());
            }
            io.reply(&request, text("done")).await;
            let _ = io.read().await;
        }
    });
    bench.call("echo").await.unwrap();
    let answers = log.all();
    assert_eq!(answers[0]["result"], json!({"action": "accept", "content": {"name": "Ann", "age": 7}}));
    assert_eq!(answers[1]["result"]["roots"][0]["uri"], "file:///work/project");
    assert!(answers[2]["error"]["message"].as_str().unwrap().contains("rejected"));
    assert_eq!(*friend.0.lock().unwrap(), ["fake asks: Who?", "sampling"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_user_questions_are_neither_offered_nor_answered() {
    let log = Log::default();
    let noted = log.clone();
    let bench = Bench::with(stdio(), Arc::new(NoPerson), move |_, mut io| {
        let log = noted.clone();
        async move {
            while let Some(message) = io.read().await {
                log.add(&message);
                if io.answer_start(&message, &tools()).await {
                    continue;
                }
                io.write(&json!({"jsonrpc": "2.0", "id": 99, "method": "elicitation/create", "params": form()})).await;
                log.add(&io.read().await.unwrap());
                io.reply(&message, text("done")).await;
            }
        }
    });
    bench.call("echo").await.unwrap();
    let initialize = log.all().into_iter().find(|message| message["method"] == "initialize").unwrap();
    let capabilities = &initialize["params"]["capabilities"];
    assert_eq!((&capabilities["elicitation"], &capabilities["sampling"]), (&Value::Null, &Value::Null));
    assert_eq!(capabilities["roots"], json!({}));
    assert_eq!(log.all().pop().unwrap()["result"]["action"], "decline");
}

/// Asks for input in every round, up to `rounds`.
async fn inquisitive(mut io: Io, rounds: usize, log: Log) {
    let mut asked = 0;
    while let Some(message) = io.read().await {
        let result = match message["method"].as_str() {
            Some("server/discover") => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
            }),
            Some("tools/list") => {
                json!({"resultType": "complete", "tools": tools(), "ttlMs": 0, "cacheScope": "private"})
            }
            Some("tools/call") if asked < rounds => {
                log.add(&message);
                asked += 1;
                let question = json!({"method": "elicitation/create", "params": form()});
                json!({
                    "resultType": "input_required", "inputRequests": {"q": question},
                    "requestState": format!("state {asked}"),
                })
            }
            _ => {
                log.add(&message);
                json!({"resultType": "complete", "content": []})
            }
        };
        io.reply(&message, result).await;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_for_input_are_answered_with_their_state() {
    let log = Log::default();
    let noted = log.clone();
    let bench = Bench::with(stdio(), Arc::new(Friend::default()), move |_, io| inquisitive(io, 2, noted.clone()));
    bench.call("echo").await.unwrap();
    let calls = log.all();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[2]["params"]["requestState"], "state 2");
    assert_eq!(calls[2]["params"]["inputResponses"]["q"]["content"]["name"], "Ann");
}

#[tokio::test(start_paused = true)]
async fn endless_requests_for_input_are_given_up() {
    let log = Log::default();
    let noted = log.clone();
    let bench =
        Bench::with(stdio(), Arc::new(Friend::default()), move |_, io| inquisitive(io, usize::MAX, noted.clone()));
    let error = bench.call("echo").await.unwrap_err();
    assert!(error.to_string().contains("MCP server `fake` asked for input 8 times"), "{error}");
    assert_eq!(log.count("tools/call"), 9);
}

#[tokio::test(start_paused = true)]
async fn request_that_may_ask_nobody_fails_when_input_is_wanted() {
    let log = Log::default();
    let noted = log.clone();
    let friend = Arc::new(Friend::default());
    let bench = Bench::with(stdio(), friend.clone(), move |_, io| inquisitive(io, 1, noted.clone()));
    bench.servers.request(NAME, Request::Connect, CallContext::within(Duration::from_secs(9))).await.unwrap();
    let call = CallContext { only_connected: true, ..CallContext::within(Duration::from_secs(9)) };
    let error = bench.servers.request(NAME, crate::fake::call("echo"), call).await.unwrap_err();
    assert!(error.to_string().contains("asked for input, and nobody may be asked"), "{error}");
    assert_eq!(log.count("tools/call"), 1);
}
