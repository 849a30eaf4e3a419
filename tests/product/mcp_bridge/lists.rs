//! Lists of tools and prompts, and their changes.

use super::*;
use pinion_tests::{Progress, until};
use tokio_util::sync::CancellationToken;

/// The tools that are listed instead of many.
const SEARCH_MODE: [&str; 3] = ["mcp_search", "mcp_call", "mcp_call_destructive"];

#[tokio::test(flavor = "multi_thread")]
async fn change_of_the_servers_changes_the_tools_and_keeps_equal_ones() {
    let servers = Servers::echoing(vec![server("a", vec![tool("one"), tool("two")])]);
    let sandbox = bridge(&servers).await;
    let before = sandbox.runtime.definitions();
    servers.replace(vec![server("a", vec![tool("two"), tool("three")])]);
    until("the tools have changed", || names(&sandbox) == ["a__two", "a__three"]).await;
    assert!(Arc::ptr_eq(&before[1], &sandbox.runtime.definitions()[0]));
    let gone = sandbox.invocation("a__two", json!({}), CancellationToken::new());
    servers.replace(Vec::new());
    until("the tools are gone", || names(&sandbox).is_empty()).await;
    let error = sandbox.runtime.call(gone, &Progress::default()).await.result.unwrap_err();
    assert_eq!(error.for_model(), "the plugin `mcp` no longer offers `a__two`");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_list_leaves_every_definition_as_it_is() {
    let servers = Servers::echoing(vec![server("a", vec![tool("one")])]);
    let sandbox = bridge(&servers).await;
    let before = sandbox.runtime.definitions();
    let other = McpServer { state: McpState::Idle, ..server("a", vec![tool("one")]) };
    servers.replace(vec![other, server("b", vec![tool("new")])]);
    until("the tools have changed", || names(&sandbox).len() == 2).await;
    assert!(Arc::ptr_eq(&before[0], &sandbox.runtime.definitions()[0]), "a restart of the server is no change");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_a_catalogue_offers_to_connect() {
    let unknown = McpServer { is_known: false, state: McpState::Idle, ..server("new", Vec::new()) };
    let servers = Servers::echoing(vec![unknown]);
    let sandbox = bridge(&servers).await;
    assert_eq!(names(&sandbox), ["new__connect"]);
    assert!(sandbox.text("new__connect", json!({})).await.starts_with("connected to `new`"));
    assert_eq!(servers.received(), [("new".to_owned(), McpRequest::Connect)]);
    servers.replace(vec![server("new", vec![tool("one")])]);
    until("its tools are there", || names(&sandbox) == ["new__one"]).await;
    let many = |n: usize| McpServer { is_known: false, ..server(&format!("s{n}"), Vec::new()) };
    servers.replace((0..50).map(many).collect());
    until("one tool connects to any of them", || names(&sandbox) == ["mcp_connect"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_not_granted_do_not_exist() {
    let servers = Servers::echoing(vec![server("open", vec![tool("one")]), server("closed", vec![tool("two")])]);
    let builder = SandboxBuilder::default().file(builtin("mcp")).mcp("mcp", servers.clone());
    let only = |grants: &mut pinion_plugin_runtime::Grants| {
        grants.mcp.as_mut().unwrap().servers = Some(["open".to_owned()].into());
    };
    let cache = tempfile::TempDir::new().unwrap();
    let sandbox = builder.grant("mcp", only).cache(cache.path()).build().await;
    sandbox.runtime.offers_settled().await;
    assert_eq!(names(&sandbox), ["open__one"]);
    let none = SandboxBuilder::default().file(builtin("mcp")).mcp("other", servers).cache(cache.path()).build().await;
    none.runtime.offers_settled().await;
    assert_eq!(names(&none), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_is_switched_off_offers_nothing() {
    let off = McpServer { state: McpState::Disabled, has_resources: true, ..server("off", vec![tool("one")]) };
    let hidden = McpTool { enabled: false, ..tool("hidden") };
    let servers = Servers::echoing(vec![off, server("on", vec![hidden, tool("shown")])]);
    let sandbox = bridge(&servers).await;
    assert_eq!(names(&sandbox), ["on__shown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tools_are_found_by_a_search() {
    let mut tools: Vec<McpTool> = (0..1_999).map(|n| tool(&format!("thing{n}"))).collect();
    tools.push(tool("get_forecast"));
    let servers = Servers::echoing(vec![server("big", tools)]);
    let sandbox = bridge(&servers).await;
    assert_eq!(names(&sandbox), SEARCH_MODE);
    let found = sandbox.text("mcp_search", json!({ "query": "weather forecast", "limit": 1 })).await;
    assert!(
        found.starts_with("{\"server\":\"big\",\"tool\":\"get_forecast\"}\n> [MCP server `big`] Does get_forecast.\n"),
        "{found}"
    );
    assert!(found.contains(r#""city":{"type":"string"}"#), "{found}");
    let call = json!({ "server": "big", "tool": "get_forecast", "arguments": { "city": "Oslo" } });
    assert_eq!(sandbox.text("mcp_call", call).await, "get_forecast {\"city\":\"Oslo\"}");
    let error = sandbox.error("mcp_call", json!({ "server": "big", "tool": "none" })).await;
    assert!(error.contains("no tool `none`"), "{error}");
    let before = sandbox.tool("mcp_call");
    let reach: Vec<&str> = before.source.approved_by.iter().map(|name| &**name).collect();
    assert_eq!(reach, ["server", "tool"], "an approval for the session covers one tool of one server");
    servers.replace(vec![server("big", (0..2_000).map(|n| tool(&format!("thing{n}"))).collect())]);
    until("approvals of all calls are void", || sandbox.tool("mcp_call").source.definition != before.source.definition)
        .await;
    assert_eq!(sandbox.tool("mcp_call").description, before.description, "the prompt is the same");
    let few = configured(&servers, json!({ "search-above": 2_500, "search-above-bytes": 1_000_000 })).await;
    assert_eq!(names(&few), SEARCH_MODE, "more than the host takes");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_found_tool_has_the_effects_of_a_listed_one() {
    let hinted = |name: &str, hint: bool| {
        let hints = json!({ "destructiveHint": hint });
        let about = format!("Drops a {name}.");
        defined(name, json!({ "name": name, "description": about, "inputSchema": {}, "annotations": hints }))
    };
    let servers = Servers::echoing(vec![server("db", vec![hinted("table", true), hinted("hint", false)])]);
    let listed = bridge(&servers).await;
    let found = configured(&servers, json!({ "search-above": 1 })).await;
    assert_eq!(names(&found), SEARCH_MODE);
    let effects = |sandbox: &Sandbox, name: &str| sandbox.tool(name).authority;
    assert_eq!(effects(&found, "mcp_call_destructive"), effects(&listed, "db__table"));
    assert!(effects(&listed, "db__table").destructive);
    assert_eq!(effects(&found, "mcp_call"), effects(&listed, "db__hint"));
    let said = found.text("mcp_search", json!({ "query": "drops" })).await;
    let table = "{\"server\":\"db\",\"tool\":\"table\"}\n> [MCP server `db`] Drops a table.\n";
    assert!(said.contains(&format!("{table}call it with `mcp_call_destructive`\n")), "{said}");
    assert_eq!(said.matches("mcp_call_destructive").count(), 1, "{said}");
    let call = |tool: &str| json!({ "server": "db", "tool": tool, "arguments": {} });
    let error = found.error("mcp_call", call("table")).await;
    assert!(error.ends_with("`table` may destroy something; call it with `mcp_call_destructive`"), "{error}");
    assert_eq!(servers.received(), [], "no call reached the server");
    assert_eq!(found.text("mcp_call_destructive", call("table")).await, "table {}");
    assert_eq!(found.text("mcp_call_destructive", call("hint")).await, "hint {}");
    assert_eq!(found.text("mcp_call", call("hint")).await, "hint {}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bridge_starts_from_its_last_offer_while_the_servers_offer_the_same() {
    let cache = tempfile::TempDir::new().unwrap();
    let start = async |servers: &Arc<Servers>| {
        let builder = SandboxBuilder::default().file(builtin("mcp")).mcp("mcp", servers.clone());
        let sandbox = builder.cache(cache.path()).build().await;
        sandbox.runtime.offers_settled().await;
        sandbox
    };
    let of =
        |name: &str, state: McpState| Servers::echoing(vec![McpServer { state, ..server(name, vec![tool("one")]) }]);
    assert_eq!(names(&start(&of("a", McpState::Ready)).await), ["a__one"]);
    let same = of("a", McpState::Idle);
    let sandbox = start(&same).await;
    assert_eq!(names(&sandbox), ["a__one"]);
    assert_eq!(same.listed.load(Ordering::Relaxed), 1, "the code of the bridge asked for the servers, too");
    assert_eq!(sandbox.text("a__one", json!({ "city": "Oslo" })).await, "one {\"city\":\"Oslo\"}");
    assert!(same.listed.load(Ordering::Relaxed) > 1, "a call needs a confirmed offer");
    same.replace(vec![server("a", vec![tool("two")])]);
    until("the bridge follows the servers", || names(&sandbox) == ["a__two"]).await;
    assert_eq!(names(&start(&of("b", McpState::Idle)).await), ["b__one"]);
    assert_eq!(names(&start(&of("b", McpState::Disabled)).await), Vec::<String>::new());
}
