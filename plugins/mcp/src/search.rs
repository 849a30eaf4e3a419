//! Tools that find, call and start what is not listed.

use crate::catalog::{self, CALL, CALL_DESTRUCTIVE, CONNECT, Listed, RESOURCES, SEARCH, TASKS};
use crate::offer::trouble;
use crate::{call_server, connect};
use listing::clean;
use listing::schema::Fitted;
use listing::search::{Described, found};
use pinion_plugin_sdk::mcp;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json;

/// Bytes of all tools that a search shows, and of the description of one.
const MAX_SHOWN: usize = 32 * 1024;
const MAX_DESCRIPTION: usize = 1_500;
/// Tools that a search shows unless it says otherwise, and at most.
const DEFAULT_LIMIT: usize = 5;
const MAX_LIMIT: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Words for what the tool should do, or a part of its name.
    query: String,
    /// Search only in this server.
    server: Option<String>,
    /// The most tools to return (default: 5).
    #[schemars(range(min = 1, max = 20))]
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallArguments {
    /// The server, as the search names it.
    server: String,
    /// The tool, as the search names it.
    tool: String,
    /// Arguments that match the schema of the tool.
    #[serde(default)]
    arguments: serde_json::Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConnectArguments {
    /// The server to connect to.
    server: String,
}

/// The tool that finds tools.
pub(crate) fn search_tool() -> Tool {
    Tool::new(SEARCH, "Finds tools of MCP servers by words; returns their descriptions and input schemas.", search)
        .label("search MCP tools")
        .executes()
        .network()
}

/// The tool that calls a tool that is not listed.
pub(crate) fn call_tool() -> Tool {
    let about = format!("Calls a tool of an MCP server that `{SEARCH}` found.");
    caller(Tool::new(CALL, about, |arguments, _: &Call| call(arguments, false))).label("call an MCP tool")
}

/// The same for tools that may destroy something: a call has the effects of its tool.
pub(crate) fn destructive_call_tool() -> Tool {
    let about = format!("Calls a tool that may destroy something, where `{SEARCH}` says so.");
    let tool = Tool::new(CALL_DESTRUCTIVE, about, |arguments, _: &Call| call(arguments, true));
    caller(tool).label("call a destructive MCP tool").destructive()
}

fn caller(tool: Tool) -> Tool {
    tool.executes().network().approved_by(&["server", "tool"])
}

/// The tool that starts a server.
pub(crate) fn connect_tool() -> Tool {
    let about = "Connects to an MCP server that was not used yet. Its tools are there with the next message.";
    Tool::new(CONNECT, about, |arguments: ConnectArguments, _: &Call| connect(&arguments.server))
        .label("connect to an MCP server")
        .executes()
        .network()
        .approved_by(&["server"])
}

fn search(arguments: Search, _call: &Call) -> Result<String> {
    let servers = mcp::servers();
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let tools = catalog::tools(&servers)
        .filter(|listed| arguments.server.as_ref().is_none_or(|server| *server == listed.server.name));
    let found = found(&arguments.query, tools, described);
    let mut text = String::new();
    for listed in found.iter().take(limit) {
        let shown = shown(listed);
        if text.len() + shown.len() > MAX_SHOWN && !text.is_empty() {
            text.push_str("[more tools match; narrow the search]\n");
            break;
        }
        text.push_str(clean::head(&shown, MAX_SHOWN));
    }
    if found.is_empty() {
        text.push_str("No tool matches.\n");
    }
    let unknown: Vec<String> = catalog::usable(&servers)
        .filter(|server| !server.is_known)
        .map(|server| clean::line(&server.name, 64))
        .take(50)
        .collect();
    if !unknown.is_empty() {
        text.push_str(&format!("Servers that were not used yet, whose tools are unknown: {}\n", unknown.join(", ")));
    }
    servers.iter().filter_map(trouble).take(20).for_each(|trouble| text.push_str(&format!("Note: {trouble}\n")));
    Ok(text)
}

fn described<'a>(listed: &'a Listed<'_>) -> Described<'a> {
    let about = &listed.about;
    Described {
        name: &listed.tool.name,
        label: &about.label,
        description: &about.description,
        schema: &about.input.schema,
    }
}

/// Describes a tool to the model.
fn shown(listed: &Listed<'_>) -> String {
    let about = &listed.about;
    let name = json!({ "server": listed.server.name, "tool": listed.tool.name });
    let description = clean::quoted(&about.description, MAX_DESCRIPTION);
    let caller = if about.is_destructive { format!("call it with `{CALL_DESTRUCTIVE}`\n") } else { String::new() };
    let name = clean::line(&name.to_string(), 2_048);
    format!("{name}\n{description}{caller}schema of `arguments`: {}\n\n", about.input.schema)
}

fn call(arguments: CallArguments, may_destroy: bool) -> Result<Output> {
    let servers = mcp::servers();
    let Some(server) = servers.iter().find(|server| server.name == arguments.server) else {
        return Err(Error::NotFound(format!(
            "no MCP server `{}`; find one with `{SEARCH}`",
            clean::line(&arguments.server, 80)
        )));
    };
    let tool = server.tools.iter().find(|tool| tool.name == arguments.tool);
    let Some(tool) = tool.filter(|tool| tool.enabled) else {
        let name = clean::line(&arguments.tool, 80);
        return Err(Error::NotFound(match server.is_known {
            true => format!("the server has no tool `{name}`, or it is switched off; find one with `{SEARCH}`"),
            false => {
                format!("the tools of this server are unknown; connect to it first, with `{CONNECT}` or its own tool")
            }
        }));
    };
    let about =
        catalog::about(server, tool).ok_or_else(|| Error::failed("the definition of the tool cannot be read"))?;
    if about.is_destructive && !may_destroy {
        let name = clean::line(&tool.name, 80);
        return Err(Error::invalid_input(format!("`{name}` may destroy something; call it with `{CALL_DESTRUCTIVE}`")));
    }
    let input = Fitted::arguments(&about.input.renamed, Value::Object(arguments.arguments));
    call_server(&server.name, &tool.name, &input.to_string())
}

/// Names of tools that have an implementation of their own.
pub(crate) fn own(name: &str) -> Option<Tool> {
    match name {
        SEARCH => Some(search_tool()),
        CALL => Some(call_tool()),
        CALL_DESTRUCTIVE => Some(destructive_call_tool()),
        CONNECT => Some(connect_tool()),
        RESOURCES => Some(crate::resources::tool()),
        TASKS => Some(crate::tasks::tool(&[])),
        _ => None,
    }
}
