//! Completion of the arguments of prompts, while the user types.

use super::*;
use pinion_plugin_runtime::{HostAction, McpPrompt};
use pinion_tests::until;
use tokio_util::sync::CancellationToken;

fn with_prompt(name: &str, arguments: &[&str]) -> McpServer {
    let arguments: Vec<Value> = arguments.iter().map(|name| json!({ "name": name, "required": true })).collect();
    let definition = json!({ "name": "review", "arguments": arguments }).to_string().into();
    McpServer { prompts: vec![McpPrompt { name: "review".into(), definition }], ..server(name, Vec::new()) }
}

/// A server that offers these values for every argument.
fn offering(values: &Value) -> impl Fn(&McpRequest) -> Result<String, McpFailure> + Send + Sync + 'static {
    let result = json!({ "completion": { "values": values } }).to_string();
    move |_| Ok(result.clone())
}

async fn values(sandbox: &Sandbox, command: &str, typed: &str) -> Vec<String> {
    sandbox.completed(command, typed).await.into_iter().map(|completion| completion.value).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn server_completes_the_arguments_of_its_prompts() {
    let servers = Servers::new(vec![with_prompt("docs", &["branch", "file"])], offering(&json!(["a.rs", "b c.rs"])));
    let sandbox = bridge(&servers).await;
    let found = sandbox.completed("docs__review", "main a").await;
    let shown: Vec<_> = found.iter().map(|found| (found.value.as_str(), found.description.as_deref())).collect();
    let about = Some("[MCP server docs] file");
    assert_eq!(shown, [("main a.rs", about), ("main \"b c.rs\"", about)]);
    let Some((server, McpRequest::Complete { reference, argument })) = servers.received().pop() else { panic!() };
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(server, "docs");
    assert_eq!(parsed(&reference), json!({ "type": "ref/prompt", "name": "review" }));
    let context = json!({ "arguments": { "branch": "main" } });
    assert_eq!(parsed(&argument), json!({ "name": "file", "value": "a", "context": context }));
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_asks_no_server_that_is_not_connected() {
    let servers = Servers::new(vec![with_prompt("docs", &["file"])], offering(&json!(["a.rs"])));
    let sandbox = bridge(&servers).await;
    assert_eq!(values(&sandbox, "docs__review", "").await, ["a.rs"]);
    let before = servers.received().len();
    assert_eq!(servers.while_typing.load(Ordering::Relaxed), before, "the port learns that the user types");
    for state in [McpState::Idle, McpState::Starting, McpState::Failed, McpState::LoginRequired] {
        servers.replace(vec![McpServer { state, ..with_prompt("docs", &["file"]) }]);
        assert_eq!(sandbox.runtime.complete("docs__review", "").await, []);
    }
    assert_eq!(servers.received().len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_servers_that_cannot_be_shown_are_left_out() {
    let hostile = json!(["a\u{1b}[2Jb", "line\nline", "\u{202e}evil", "x".repeat(5_000), 7, null, "fine"]);
    let servers = Servers::new(vec![with_prompt("docs", &["file"])], offering(&hostile));
    let sandbox = bridge(&servers).await;
    assert_eq!(values(&sandbox, "docs__review", "").await, ["fine"]);
    let many: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
    let servers = Servers::new(vec![with_prompt("docs", &["file"])], offering(&json!(many)));
    assert_eq!(values(&bridge(&servers).await, "docs__review", "").await.len(), 100);
}

/// The one request is given up after the time that a completion has; the other server is asked meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn silent_server_shows_nothing_and_is_not_waited_for() {
    let list = vec![with_prompt("quiet", &["file"]), with_prompt("quick", &["file"])];
    let servers = Servers {
        silent: Some("quiet".into()),
        ..Servers::with_gate(list, Box::new(offering(&json!(["a.rs"]))), None)
    };
    let servers = Arc::new(servers);
    let sandbox = bridge(&servers).await;
    let quiet = async {
        while !servers.received().iter().any(|(server, _)| server == "quiet") {
            assert_eq!(sandbox.runtime.complete("quiet__review", "").await, []);
        }
    };
    let ((), quick) = tokio::join!(quiet, values(&sandbox, "quick__review", ""));
    assert_eq!(quick, ["a.rs"]);
    until("the request has ended", || servers.abandoned.load(Ordering::Relaxed) == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_a_completion_are_not_shown() {
    let failing = |request: &McpRequest| match request {
        McpRequest::Complete { argument, .. } if argument.contains("\"good\"") => {
            Ok(json!({ "completion": { "values": ["good.rs"] } }).to_string())
        }
        _ => Err(McpFailure::Server { server: "a".into(), code: -32602, message: "no\u{1b}[2J".into(), data: None }),
    };
    let servers = Servers::new(vec![with_prompt("docs", &["file"])], failing);
    let sandbox = bridge(&servers).await;
    assert_eq!(values(&sandbox, "docs__review", "good").await, ["good.rs"]);
    assert_eq!(sandbox.completed("docs__review", "bad").await, []);
    let odd = Servers::new(vec![with_prompt("docs", &["file"])], |_| Ok("[{\"completion\":".repeat(9)));
    assert_eq!(bridge(&odd).await.completed("docs__review", "").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_can_do_nothing_but_complete_while_the_user_types() {
    let servers = Servers::new(vec![server("a", Vec::new()), server("b", Vec::new())], |_| Ok("{}".to_owned()));
    let builder = SandboxBuilder::default().guest("typist").mcp("typist", servers.clone());
    let only = |grants: &mut pinion_plugin_runtime::Grants| {
        grants.mcp.as_mut().unwrap().servers = Some(["a".to_owned()].into());
    };
    let sandbox = builder.grant("typist", only).build().await;
    let attempts = values(&sandbox, "type", "a").await;
    let (refused, allowed) = attempts.split_at(7);
    for attempt in refused {
        assert!(attempt.contains("only calls of tools and commands may"), "{attempt}");
    }
    assert_eq!(allowed, ["servers: [\"a\"]", "complete: Ok(Object {})"]);
    let other = values(&sandbox, "type", "b").await.pop().unwrap();
    assert!(
        other.contains("complete: Err(McpError::Denied(") && other.contains("may not use this MCP server"),
        "{other}"
    );
    let received = servers.received();
    assert!(received.iter().all(|(server, request)| server == "a" && matches!(request, McpRequest::Complete { .. })));
    assert_eq!(servers.while_typing.load(Ordering::Relaxed), received.len());
    let entered = sandbox.runtime.run_command("type", "a", "s", None, CancellationToken::new()).await.unwrap();
    assert_eq!(entered, [HostAction::Print("Ok(Object {})".to_owned())], "a command may call tools");
    assert_eq!(servers.while_typing.load(Ordering::Relaxed), received.len());
    let denied = SandboxBuilder::default().guest("typist").build().await;
    let attempts = values(&denied, "type", "a").await;
    assert!(attempts[7] == "servers: []" && attempts[8].contains("may not use MCP servers"), "{attempts:?}");
}
