//! Tasks: requests whose result is fetched later.

use std::sync::Arc;
use std::time::Duration;

use pinion_mcp::{CallContext, McpError, NoPerson};
use serde_json::{Value, json};

use crate::fake::{Bench, Io, Log, NAME, call, stdio, tools, until};

/// A server of protocol 2026-07-28 that makes each call a task, which is at `states` when it is looked at.
async fn tasking(mut io: Io, states: Vec<Value>, log: Log) {
    let mut states = states.into_iter();
    while let Some(message) = io.read().await {
        log.add(&message);
        let task = |state: Value| {
            let mut task = json!({
                "resultType": "complete", "taskId": "t1", "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 2000,
            });
            state.as_object().unwrap().iter().for_each(|(name, value)| task[name] = value.clone());
            task
        };
        let result = match message["method"].as_str() {
            Some("server/discover") => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
                "ttlMs": 0, "cacheScope": "private",
            }),
            Some("tools/list") => {
                json!({"resultType": "complete", "tools": tools(), "ttlMs": 0, "cacheScope": "private"})
            }
            Some("tools/call") => task(json!({"resultType": "task", "status": "working"})),
            Some("tasks/get") => task(states.next().unwrap_or(json!({"status": "working"}))),
            _ => json!({"resultType": "complete"}),
        };
        io.reply(&message, result).await;
    }
}

fn bench(states: Vec<Value>) -> (Bench, Log) {
    let log = Log::default();
    let noted = log.clone();
    let bench = Bench::with(stdio(), Arc::new(NoPerson), move |_, io| tasking(io, states.clone(), noted.clone()));
    (bench, log)
}

fn done() -> Value {
    json!({"status": "completed", "result": {"content": [{"type": "text", "text": "done"}]}})
}

#[tokio::test(start_paused = true)]
async fn result_of_a_task_is_fetched_when_it_is_there() {
    let (bench, log) = bench(vec![json!({"status": "working"}), json!({"status": "working"}), done()]);
    let started = tokio::time::Instant::now();
    assert!(bench.call("echo").await.unwrap().contains("done"));
    assert_eq!((log.count("tasks/get"), log.count("tasks/cancel")), (3, 0));
    assert_eq!(started.elapsed().as_secs(), 6);
}

#[tokio::test(start_paused = true)]
async fn questions_of_a_task_are_answered_once() {
    let question = json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}},
    }});
    let asking = json!({"status": "input_required", "inputRequests": {"q": question}});
    let (bench, log) = bench(vec![asking.clone(), asking, done()]);
    assert!(bench.call("echo").await.is_ok());
    let updates: Vec<_> = log.all().into_iter().filter(|message| message["method"] == "tasks/update").collect();
    assert_eq!(updates.len(), 1);
    assert_eq!(updates[0]["params"]["inputResponses"]["q"]["action"], "decline");
}

#[tokio::test(start_paused = true)]
async fn failed_task_is_an_error_of_the_server() {
    let (bench, _) = bench(vec![json!({"status": "failed", "error": {"code": -32000, "message": "no\u{1b}pe"}})]);
    let Err(McpError::Server { code, message, .. }) = bench.call("echo").await else { panic!() };
    assert_eq!((code, message.as_str()), (-32000, "no␛pe"));
}

#[tokio::test(start_paused = true)]
async fn endless_task_ends_with_the_deadline_and_is_cancelled() {
    let (bench, log) = bench(vec![]);
    let result = bench.call_within("echo", Duration::from_secs(300)).await;
    assert!(matches!(result, Err(McpError::TimedOut { request_sent: true, .. })));
    until(|| log.count("tasks/cancel") == 1).await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_cancels_its_task() {
    let (bench, log) = bench(vec![]);
    let context = CallContext::within(Duration::from_secs(300));
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(bench.servers.request(NAME, call("echo"), context), async {
        until(|| log.count("tasks/get") == 2).await;
        cancel.cancel();
    });
    assert_eq!(result, Err(McpError::Cancelled { request_sent: true }));
    until(|| log.count("tasks/cancel") == 1).await;
}
