//! Completion of arguments, which starts nothing and asks no questions while the user types.

use std::sync::Arc;
use std::time::Duration;

use pinion_mcp::{CallContext, McpError, NoPerson, Request, ServerState};
use serde_json::{Value, json};

use crate::fake::{Bench, Io, NAME, initialized, stdio, text, tools, until};

/// Connects as a server that completes arguments, and answers calls of tools and completions with `answer`; `None` for
/// silence.
async fn completing(mut io: Io, answer: impl Fn(&Value) -> Option<Value>) {
    while let Some(message) = io.read().await {
        let mut start = initialized();
        start["capabilities"]["completions"] = json!({});
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => io.reply(&message, start).await,
            "tools/call" => io.reply(&message, text("done")).await,
            "completion/complete" => {
                if let Some(result) = answer(&message) {
                    io.reply(&message, result).await;
                }
            }
            _ => drop(io.answer_start(&message, &tools()).await),
        }
    }
}

fn completion() -> Request {
    Request::Complete {
        reference: json!({"type": "ref/prompt", "name": "review"}).to_string(),
        argument: json!({"name": "file", "value": "a", "context": {"arguments": {"branch": "main"}}}).to_string(),
    }
}

async fn typed(bench: &Bench) -> Result<String, McpError> {
    let call = CallContext { only_connected: true, ..CallContext::within(Duration::from_secs(9)) };
    bench.servers.request(NAME, completion(), call).await
}

#[tokio::test(start_paused = true)]
async fn typing_asks_only_a_server_that_is_connected() {
    let bench = Bench::new(|_, io| {
        completing(io, |request| Some(json!({"completion": {"values": [request["params"]["context"].to_string()]}})))
    });
    let error = typed(&bench).await.unwrap_err();
    assert!(error.to_string().contains("MCP server `fake` is not connected") && !error.request_sent(), "{error}");
    assert_eq!((bench.launches(), bench.servers.list()[0].state), (0, ServerState::Idle));
    bench.call("echo").await.unwrap();
    let result: Value = serde_json::from_str(&typed(&bench).await.unwrap()).unwrap();
    assert_eq!(result["completion"]["values"], json!([r#"{"arguments":{"branch":"main"}}"#]));
    bench.servers.set_enabled(NAME, false).unwrap();
    assert!(typed(&bench).await.is_err() && bench.launches() == 1);
}

#[tokio::test(start_paused = true)]
async fn server_that_declares_no_completions_is_not_asked() {
    let bench = Bench::new(|_, mut io| async move {
        while let Some(request) = io.connect(&tools()).await {
            io.reply(&request, text("done")).await;
        }
    });
    bench.call("echo").await.unwrap();
    let error = typed(&bench).await.unwrap_err();
    assert!(error.to_string().contains("MCP server `fake` does not complete arguments"), "{error}");
    let limit = CallContext::within(Duration::from_secs(9));
    assert!(bench.servers.request(NAME, completion(), limit).await.is_err());
    assert_eq!(bench.log().count("completion/complete"), 0);
}

#[tokio::test(start_paused = true)]
async fn stale_completion_is_cancelled_at_the_server() {
    let bench = Bench::with(stdio(), Arc::new(NoPerson), |_, io| completing(io, |_| None));
    bench.call("echo").await.unwrap();
    tokio::select! {
        result = typed(&bench) => panic!("{result:?}"),
        () = until(|| bench.log().count("completion/complete") == 1) => {}
    }
    until(|| bench.log().count("notifications/cancelled") == 1).await;
    assert!(bench.call("echo").await.unwrap().contains("done"), "the connection is still of use");
}

/// A death is found out by the next request, which may start the server again.
#[tokio::test(start_paused = true)]
async fn typing_does_not_restart_a_server_that_died() {
    let bench = Bench::new(|_, mut io| async move {
        if let Some(call) = io.connect(&tools()).await {
            io.reply(&call, text("last words")).await;
        }
    });
    bench.call("echo").await.unwrap();
    until(|| bench.alive() == 0).await;
    assert!(typed(&bench).await.is_err() && bench.launches() == 1);
}
