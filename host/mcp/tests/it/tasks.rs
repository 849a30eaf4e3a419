//! Tasks: requests whose result is fetched later.

use std::sync::Arc;
use std::time::Duration;

use pinion_mcp::{CallContext, McpError, NoPerson, Request, Servers};
use serde_json::{Value, json};

use crate::fake::{Bench, Io, Log, NAME, call, ports, stdio, text, tools, until};

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
        "mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
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

async fn ask(servers: &Servers, request: Request) -> Result<String, McpError> {
    servers.request(NAME, request, CallContext::within(Duration::from_secs(300))).await
}

#[tokio::test(start_paused = true)]
async fn task_that_outlives_its_call_is_fetched_later() {
    let mut states = vec![json!({"status": "working"}); 150];
    states.push(done());
    let (bench, log) = bench(states);
    let mut changed = bench.servers.changed();
    let error = bench.call_within("echo", Duration::from_secs(300)).await.unwrap_err();
    assert!(matches!(error, McpError::TimedOut { request_sent: true, .. }), "{error:?}");
    assert!(error.to_string().ends_with("its result can be fetched later"), "{error}");
    assert!(changed.has_changed().unwrap());
    let task = bench.servers.list()[0].tasks[0].clone();
    assert_eq!((task.id.as_str(), task.tool.as_str(), log.count("tasks/cancel")), ("t1", "echo", 0));
    // A later process knows it, too.
    let next = Servers::new(vec![stdio()], ports(bench.fakes.clone(), bench.cache.path(), Arc::new(NoPerson)));
    assert_eq!(next.list()[0].tasks, [task]);
    changed.mark_unchanged();
    let follow = Request::FollowTask { id: "t1".into() };
    assert!(ask(&bench.servers, follow.clone()).await.unwrap().contains("done"));
    assert!(bench.servers.list()[0].tasks.is_empty() && changed.has_changed().unwrap());
    let error = ask(&bench.servers, follow).await.unwrap_err().to_string();
    assert_eq!(error, "MCP server `fake` has no task `t1` that waits to be fetched");
    assert_eq!(log.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn task_of_an_earlier_call_is_cancelled_on_request() {
    let (bench, log) = bench(vec![]);
    assert!(bench.call_within("echo", Duration::from_secs(30)).await.is_err());
    ask(&bench.servers, Request::CancelTask { id: "t1".into() }).await.unwrap();
    assert_eq!((log.count("tasks/cancel"), bench.servers.list()[0].tasks.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn task_is_followed_over_the_next_connection() {
    let log = Log::default();
    let noted = log.clone();
    let bench = Bench::with(stdio(), Arc::new(NoPerson), move |number, io| {
        let log = noted.clone();
        async move {
            match number {
                // It ends while it works on the task.
                0 => drop(tokio::time::timeout(Duration::from_secs(3), tasking(io, vec![], log)).await),
                _ => tasking(io, vec![done()], log).await,
            }
        }
    });
    assert!(bench.call("echo").await.unwrap().contains("done"));
    assert_eq!((log.count("tools/call"), bench.launches()), (1, 2));
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

/// A server of protocol 2025-11-25 whose tool must be called as a task, which is at `states` when it is looked at. Its refusal is
/// an error or a result.
async fn requiring(mut io: Io, states: Vec<Value>, ending: Value, refuses_by_result: bool) {
    let mut states = states.into_iter();
    while let Some(message) = io.connect(&tools()).await {
        let state = |status: &str| {
            json!({
                "taskId": "t1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 60000, "pollInterval": 2000,
            })
        };
        match message["method"].as_str() {
            Some("tools/call") if message["params"]["task"].is_object() => {
                io.reply(&message, json!({"task": state("working")})).await;
            }
            Some("tools/call") => {
                let refused = "Tool echo requires task augmentation (taskSupport: 'required')";
                match refuses_by_result {
                    true => {
                        let mut result = text(&format!("MCP error -32601: {refused}"));
                        result["isError"] = json!(true);
                        io.reply(&message, result).await;
                    }
                    false => io.refuse(&message, -32601, refused).await,
                }
            }
            Some("tasks/get") => {
                let next = states.next();
                let next = next.as_ref().and_then(Value::as_str).unwrap_or("working");
                io.reply(&message, state(next)).await;
            }
            Some("tasks/result") => io.reply(&message, ending.clone()).await,
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tool_that_requires_a_task_is_called_as_one() {
    for (last, by_result) in [("completed", false), ("completed", true), ("failed", false), ("input_required", true)] {
        let states = vec![json!("working"), json!(last)];
        let bench = Bench::new(move |_, io| requiring(io, states.clone(), json!({"content": "done"}), by_result));
        let result: Value = serde_json::from_str(&bench.call("echo").await.unwrap()).unwrap();
        assert_eq!(result, json!({"content": [{"type": "text", "text": "done"}]}));
        let log = bench.log();
        let counts = ["tools/call", "tasks/get", "tasks/result"].map(|method| log.count(method));
        assert_eq!(counts, [2, 2, 1], "{last}");
        let mut calls = log.all().into_iter().filter(|message| message["method"] == "tools/call");
        assert_eq!(calls.next_back().unwrap()["params"]["name"], "echo");
        assert!(bench.servers.list()[0].tasks.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn early_task_that_outlives_its_call_is_fetched_later() {
    let bench =
        Bench::new(|_, io| requiring(io, vec![json!("working"), json!("completed")], json!({"content": []}), false));
    let late = bench.call_within("echo", Duration::from_secs(3)).await;
    assert!(matches!(late, Err(McpError::TimedOut { .. })), "{late:?}");
    let id = bench.servers.list()[0].tasks[0].id.clone();
    let fetched = Request::FollowTask { id };
    let within = CallContext::within(Duration::from_secs(60));
    assert_eq!(bench.servers.request(NAME, fetched, within).await.unwrap(), "{\"content\":[]}");
    assert!(bench.servers.list()[0].tasks.is_empty());
}
