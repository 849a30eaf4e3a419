//! Calls of tools, and their results.

use super::*;
use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::{HostAction, McpPrompt, McpTask};
use pinion_tests::Progress;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_servers_are_listed_and_called() {
    let servers =
        Servers::echoing(vec![server("weather", vec![tool("forecast")]), server("git.hub", vec![tool("a.b")])]);
    let sandbox = bridge(&servers).await;
    assert_eq!(names(&sandbox), ["weather__forecast", "git_hub__a_b"]);
    let offered = sandbox.tool("weather__forecast");
    assert_eq!(
        (offered.description.as_str(), offered.label.as_str()),
        ("[MCP server `weather`] Does forecast.", "weather: forecast")
    );
    assert!(offered.authority.executes && offered.authority.network && !offered.authority.writes);
    let progress = Progress::default();
    let call = sandbox.call_with("git_hub__a_b", json!({ "city": "Oslo" }), &progress, CancellationToken::new());
    let (output, ledger) = call.await;
    assert_eq!(text_of(&output.unwrap()), "a.b {\"city\":\"Oslo\"}");
    assert_eq!(ledger.counts.get("MCP request"), Some(&1), "{ledger:?}");
    assert_eq!(progress.first().await, pinion_tests::Seen::Line("asked git.hub".to_owned()));
    let (server, request) = servers.received().remove(0);
    assert!(server == "git.hub" && matches!(request, McpRequest::CallTool { name, .. } if name == "a.b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_run_concurrently() {
    let answer = Box::new(|_: &McpRequest| Ok(text("done")));
    let servers = Arc::new(Servers::with_gate(vec![server("a", vec![tool("one")])], answer, Some(Semaphore::new(0))));
    let sandbox = bridge(&servers).await;
    let calls =
        async { tokio::join!(sandbox.text("a__one", json!({})), sandbox.text("a__one", json!({ "city": "x" }))) };
    let both_wait = async {
        servers.waiting.subscribe().wait_for(|count| *count == 2).await.unwrap();
        servers.gate.as_ref().unwrap().add_permits(2);
    };
    assert_eq!(tokio::join!(calls, both_wait).0, ("done".to_owned(), "done".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_call_cancels_the_request() {
    let answer = Box::new(|_: &McpRequest| Ok(text("done")));
    let servers = Arc::new(Servers::with_gate(vec![server("a", vec![tool("one")])], answer, Some(Semaphore::new(0))));
    let sandbox = bridge(&servers).await;
    let token = CancellationToken::new();
    let progress = Progress::default();
    let call = sandbox.call_with("a__one", json!({}), &progress, token.clone());
    let cancel = async {
        servers.waiting.subscribe().wait_for(|count| *count == 1).await.unwrap();
        token.cancel();
    };
    let ((result, _), ()) = tokio::join!(call, cancel);
    assert!(matches!(result, Err(ToolError::Cancelled { .. })), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_what_the_user_can_do() {
    let servers =
        Servers::new(vec![server("a", vec![tool("one")])], |_| Err(McpFailure::LoginRequired { server: "a".into() }));
    let sandbox = bridge(&servers).await;
    let error = sandbox.error("a__one", json!({})).await;
    assert!(error.contains("requires a login") && error.contains("`pinion mcp login a`"), "{error}");
    let said = McpFailure::Server { server: "a".into(), code: -32000, message: "no such city".into(), data: None };
    let refusing = Servers::new(vec![server("a", vec![tool("one")])], move |_| Err(said.clone()));
    let error = bridge(&refusing).await.error("a__one", json!({})).await;
    assert_eq!(error, "`a__one`: MCP server `a`: the server returned the error -32000: no such city");
    let late = McpFailure::TimedOut { message: "MCP server `a` did not answer in time".into(), request_sent: true };
    let slow = Servers::new(vec![server("a", vec![tool("one")])], move |_| Err(late.clone()));
    let error = bridge(&slow).await.error("a__one", json!({})).await;
    assert_eq!(error.matches("MCP server").count(), 1, "{error}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = Servers::new(vec![server("a", vec![tool("one")])], move |_| Ok(deep.clone()));
    let error = bridge(&deep).await.error("a__one", json!({})).await;
    assert!(error.contains("MCP server `a`: the result of the server cannot be read"), "{error}");
    let failed = json!({ "content": [{ "type": "text", "text": "no such city" }], "isError": true }).to_string();
    let failing = Servers::new(vec![server("a", vec![tool("one")])], move |_| Ok(failed.clone()));
    let output = bridge(&failing).await.call("a__one", json!({})).await.unwrap();
    assert!(output.is_error && text_of(&output) == "no such city");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_result_is_kept_in_a_file() {
    let rows: Vec<Value> = (0..20_000).map(|n| json!({ "row": n })).collect();
    let long = json!({ "structuredContent": { "rows": rows } });
    let result = long.to_string();
    let servers = Servers::new(vec![server("a", vec![tool("rows")])], move |_| Ok(result.clone()));
    let sandbox = bridge(&servers).await;
    let shown = sandbox.text("a__rows", json!({})).await;
    let path = shown.split("All of it is in `").nth(1).unwrap().split('`').next().unwrap();
    assert!(shown.len() < 50_000 && std::path::Path::new(path).starts_with(sandbox.outside().join("spill")), "{path}");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(kept, long["structuredContent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn result_that_exceeds_the_contract_is_kept_in_a_file() {
    let line = "0123456789abcde\n".repeat((5 << 20) / 16);
    let (long, kept) = (text(&line), line.clone());
    let servers = Servers::new(vec![server("a", vec![tool("one")])], move |_| Ok(long.clone()));
    let sandbox = bridge(&servers).await;
    let shown = sandbox.text("a__one", json!({})).await;
    let path = shown.split("All of it is in `").nth(1).unwrap().split('`').next().unwrap();
    assert!(shown.starts_with("[the result has 5242880 bytes") && shown.len() < 500, "{shown}");
    assert!(std::fs::read_to_string(path).unwrap() == kept);
    // A list has no use as a file.
    let lists = McpServer { has_resources: true, ..server("b", Vec::new()) };
    let long = json!({ "resources": [{ "uri": "x".repeat(5 << 20), "name": "B" }] }).to_string();
    let servers = Servers::new(vec![lists], move |_| Ok(long.clone()));
    let list = json!({ "server": "b", "action": "list" });
    let error = bridge(&servers).await.error("mcp_resources", list).await;
    assert!(error.contains("MCP server `b`: the result of the server exceeds 4194304 bytes"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_names_of_arguments_reach_the_server_as_they_are() {
    let schema =
        json!({ "type": "object", "properties": { "größe in m": { "type": "integer" } }, "required": ["größe in m"] });
    let servers = Servers::echoing(vec![server("a", vec![tool_with("measure", schema)])]);
    let sandbox = bridge(&servers).await;
    let schema = &sandbox.tool("a__measure").input_schema;
    assert_eq!(schema["required"], json!(["gr__e_in_m"]));
    let said = sandbox.text("a__measure", json!({ "gr__e_in_m": 3 })).await;
    assert_eq!(said, "measure {\"größe in m\":3}");
}

/// A slow machine may take longer for the first list, never for a call.
#[tokio::test(flavor = "multi_thread")]
async fn thousand_calls_leave_nothing_behind() {
    let servers = Servers::echoing(vec![server("a", vec![tool("one")])]);
    let sandbox = bridge(&servers).await;
    let calls = (0..1_000).map(|_| sandbox.text("a__one", json!({})));
    let all = futures_util::future::join_all(calls);
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), all).await.unwrap().len(), 1_000);
    assert_eq!(servers.received().len(), 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_are_listed_and_read() {
    let with = McpServer { has_resources: true, ..server("files", Vec::new()) };
    let servers = Servers::new(vec![with], |request| match request {
        McpRequest::ListResources { cursor: None } => {
            Ok(json!({ "resources": [{ "uri": "a://b", "name": "B" }], "nextCursor": "2" }).to_string())
        }
        McpRequest::ReadResource { uri } => Ok(json!({ "contents": [{ "uri": uri, "text": "content" }] }).to_string()),
        other => panic!("{other:?}"),
    });
    let sandbox = bridge(&servers).await;
    assert_eq!(names(&sandbox), ["mcp_resources"]);
    let list = sandbox.text("mcp_resources", json!({ "server": "files", "action": "list" })).await;
    assert_eq!(list, "a://b: B\n[there are more: continue with the cursor \"2\"]\n");
    let read = json!({ "server": "files", "action": "read", "uri": "a://b" });
    assert_eq!(sandbox.text("mcp_resources", read).await, "[resource a://b]\ncontent");
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_of_templates_are_completed() {
    let with = McpServer { has_resources: true, ..server("files", Vec::new()) };
    let servers = Servers::new(vec![with], |request| match request {
        McpRequest::Complete { reference, argument } => {
            let echoed = json!([format!("{reference} {argument}"), "two\nlines"]);
            Ok(json!({ "completion": { "values": echoed } }).to_string())
        }
        other => panic!("{other:?}"),
    });
    let sandbox = bridge(&servers).await;
    let ask = |more: Value| {
        let mut input = json!({ "server": "files", "action": "complete", "uri": "a://{owner}/{name}" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let found = sandbox.text("mcp_resources", ask(json!({ "variable": "owner" }))).await;
    let reference = r#"{"type":"ref/resource","uri":"a://{owner}/{name}"}"#;
    let more = "[there are more: continue with a longer beginning]\n";
    assert_eq!(found, format!("{reference} {}\n{more}", r#"{"name":"owner","value":""}"#));
    let others = json!({ "variable": "name", "value": "ma", "others": { "owner": "x" } });
    let found = sandbox.text("mcp_resources", ask(others)).await;
    assert!(found.contains(r#""context":{"arguments":{"owner":"x"}}"#) && found.contains(r#""value":"ma""#), "{found}");
    let error = sandbox.error("mcp_resources", ask(json!({}))).await;
    assert!(error.ends_with("`complete` requires the template as `uri`, and `variable`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_earlier_calls_are_fetched_and_cancelled() {
    let task = McpTask { id: "t\n1".into(), tool: "build".into(), created: 0 };
    let with = McpServer { tasks: vec![task], ..server("ci", Vec::new()) };
    let servers = Servers::new(vec![with], |request| match request {
        McpRequest::FollowTask { id } => Ok(text(&format!("result of {id:?}"))),
        McpRequest::CancelTask { .. } => Ok("{}".to_owned()),
        other => panic!("{other:?}"),
    });
    let sandbox = bridge(&servers).await;
    assert_eq!(names(&sandbox), ["mcp_tasks"]);
    let offered = sandbox.tool("mcp_tasks");
    assert!(offered.description.ends_with("\n- \"t\\n1\" of `build` at `ci`"), "{}", offered.description);
    assert!(offered.authority.executes && offered.authority.network);
    let ask = |action: &str| json!({ "server": "ci", "action": action, "task": "t\n1" });
    assert_eq!(sandbox.text("mcp_tasks", ask("get")).await, "result of \"t\\n1\"");
    assert_eq!(sandbox.text("mcp_tasks", ask("cancel")).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_commands() {
    let prompt =
        |name: &str, definition: Value| McpPrompt { name: name.into(), definition: definition.to_string().into() };
    let review = json!({ "name": "review", "description": "Reviews\u{1b}[2J.", "arguments": [{ "name": "file", "required": true }] });
    let servers = McpServer { prompts: vec![prompt("review", review)], ..server("docs", Vec::new()) };
    let servers = Servers::new(vec![servers], |request| match request {
        McpRequest::GetPrompt { arguments, .. } => {
            let message =
                json!({ "role": "user", "content": { "type": "text", "text": format!("Review {arguments}") } });
            Ok(json!({ "messages": [message] }).to_string())
        }
        other => panic!("{other:?}"),
    });
    let sandbox = bridge(&servers).await;
    let commands = sandbox.runtime.commands();
    let shown: Vec<_> =
        commands.iter().map(|command| (command.name.as_str(), command.argument_hint.as_deref())).collect();
    assert_eq!(shown, [("mcp_prompts", None), ("docs__review", Some("<file>"))]);
    assert_eq!(commands[1].description, "[MCP server docs] Reviews�[2J.");
    let run = |name: &'static str, typed: &'static str| {
        sandbox.runtime.run_command(name, typed, "s", None, CancellationToken::new())
    };
    let actions = run("docs__review", "a.rs").await.unwrap();
    let expected = "[The user chose the prompt `review` of the MCP server `docs`, which wrote the following.]\n\nReview {\"file\":\"a.rs\"}";
    assert_eq!(actions, [HostAction::Submit(expected.to_owned())]);
    assert!(run("docs__review", "").await.unwrap_err().to_string().contains("`file` is missing"));
    let [HostAction::Print(list)] = &run("mcp_prompts", "").await.unwrap()[..] else { panic!() };
    assert!(list.contains("`/docs__review <file>`"), "{list}");
}

/// Most of a call's cost beyond the server is computation in the bridge.
#[tokio::test(flavor = "multi_thread")]
async fn call_with_a_kilobyte_takes_few_instructions() {
    let servers = Servers::echoing(vec![server("a", vec![tool("one")])]);
    let sandbox = bridge(&servers).await;
    let fuel = async |bytes: usize| {
        let call = sandbox.invocation("a__one", json!({ "city": "x".repeat(bytes) }), CancellationToken::new());
        sandbox.runtime.call(call, &Progress::default()).await.ledger.unwrap().fuel
    };
    fuel(0).await;
    let (short, long) = (fuel(1_000).await, fuel(2_000).await);
    assert!(short < 32_000, "{short} instructions for 1 KB");
    assert!(long - short < 14_000, "{} instructions for another kilobyte", long - short);
}
