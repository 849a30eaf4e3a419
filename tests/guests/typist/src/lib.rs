//! Asks a server for everything while the user types. Each completion is an attempt and its outcome.

use pinion_plugin_sdk::mcp;
use pinion_plugin_sdk::prelude::*;
use std::fmt::Debug;

struct Typist;

impl Plugin for Typist {
    fn commands() -> Vec<Command> {
        let run = |server: &str, _: &Call| {
            let result = mcp::call_tool(server, "pay", &json!({}));
            Ok(vec![Action::Print(format!("{result:?}"))])
        };
        vec![Command::new("type", "Calls a tool of a server.", run).complete(attempts)]
    }
}

fn attempts(server: &str) -> Vec<Completion> {
    let reference = json!({ "type": "ref/prompt", "name": "p" });
    let servers: Vec<String> = mcp::servers().into_iter().map(|server| server.name).collect();
    vec![
        attempt("connect", mcp::connect(server)),
        attempt("call-tool", mcp::call_tool(server, "pay", &json!({}))),
        attempt("get-prompt", mcp::get_prompt(server, "p", &json!({}))),
        attempt("list-resources", mcp::list_resources(server, None)),
        attempt("list-resource-templates", mcp::list_resource_templates(server, None)),
        attempt("read-resource", mcp::read_resource(server, "a://b")),
        attempt("keep", mcp::keep("text")),
        attempt("servers", servers),
        attempt("complete", mcp::complete(server, &reference, &json!({ "name": "a", "value": "" }))),
    ]
}

fn attempt(what: &str, outcome: impl Debug) -> Completion {
    Completion { value: format!("{what}: {outcome:?}"), description: None }
}

export!(Typist, exports = [commands], asks = { "mcp": true });
