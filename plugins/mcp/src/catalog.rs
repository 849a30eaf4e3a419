//! Tools and prompts of the servers, under the names that the model and the user see.

use listing::clean;
use listing::names::Names;
use listing::schema::{self, Fitted};
use pinion_plugin_sdk::mcp::{Server, ServerState, ServerTool};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json;

/// Names of tools that do not belong to one server.
pub(crate) const SEARCH: &str = "mcp_search";
pub(crate) const CALL: &str = "mcp_call";
pub(crate) const CALL_DESTRUCTIVE: &str = "mcp_call_destructive";
pub(crate) const CONNECT: &str = "mcp_connect";
pub(crate) const RESOURCES: &str = "mcp_resources";
pub(crate) const TASKS: &str = "mcp_tasks";
/// The command that lists prompts.
pub(crate) const PROMPTS: &str = "mcp_prompts";

/// Bytes of a description of a tool.
const MAX_DESCRIPTION: usize = 4 * 1024;
/// Bytes of the name of a server or tool that is offered at all.
const MAX_NAME: usize = 512;
/// Bytes of a definition that is read.
const MAX_DEFINITION: usize = 1 << 20;
/// Prompts that are offered.
const MAX_PROMPTS: usize = 500;

/// A tool of a server.
pub(crate) struct Listed<'a> {
    pub(crate) server: &'a Server,
    pub(crate) tool: &'a ServerTool,
    pub(crate) about: About,
}

/// The description of a tool, made safe.
pub(crate) struct About {
    /// For people.
    pub(crate) label: String,
    /// For the model.
    pub(crate) description: String,
    pub(crate) input: Fitted,
    /// True if the server says that the tool may destroy something. Its other hints are not used: they could only ask for
    /// less care.
    pub(crate) is_destructive: bool,
}

/// The part of a definition that is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    title: Option<Value>,
    description: Option<Value>,
    input_schema: Option<Value>,
    annotations: Option<Value>,
}

/// Returns the servers that the user did not switch off.
pub(crate) fn usable(servers: &[Server]) -> impl Iterator<Item = &Server> {
    servers.iter().filter(|server| server.state != ServerState::Disabled && is_offered(&server.name))
}

/// Returns the tools of all servers that are switched on. Those whose definition cannot be read are left out.
pub(crate) fn tools(servers: &[Server]) -> impl Iterator<Item = Listed<'_>> {
    usable(servers).flat_map(|server| {
        let tools = server.tools.iter().filter(|tool| tool.enabled && is_offered(&tool.name));
        tools.filter_map(|tool| Some(Listed { server, tool, about: about(server, tool)? }))
    })
}

fn is_offered(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME
}

/// Reads the definition of a tool. None if it cannot be read.
pub(crate) fn about(server: &Server, tool: &ServerTool) -> Option<About> {
    if tool.definition.len() > MAX_DEFINITION {
        return None;
    }
    let definition: Definition = serde_json::from_str(&tool.definition).ok()?;
    let of_annotations = |name: &str| definition.annotations.as_ref().and_then(|hints| hints.get(name));
    let title = definition.title.as_ref().and_then(Value::as_str);
    let title = title.or_else(|| of_annotations("title")?.as_str()).unwrap_or(&tool.name);
    let input = schema::fitted(definition.input_schema.as_ref().unwrap_or(&Value::Null));
    let said = definition.description.as_ref().and_then(Value::as_str).unwrap_or_default();
    let mut description =
        format!("[MCP server `{}`] {}", clean::line(&server.name, 64), clean::text(said.trim(), MAX_DESCRIPTION));
    if let Some(note) = &input.note {
        description.push_str("\n\n");
        description.push_str(note);
    }
    let label: String = clean::line(&format!("{}: {title}", server.name), 160).chars().take(80).collect();
    let is_destructive = of_annotations("destructiveHint").and_then(Value::as_bool) == Some(true);
    Some(About { label, description, input, is_destructive })
}

/// The names that the tools of servers must not take.
pub(crate) fn tool_names() -> Names {
    let mut names = Names::default();
    for name in [SEARCH, CALL, CALL_DESTRUCTIVE, CONNECT, RESOURCES, TASKS] {
        names.reserve(name);
    }
    names
}

/// A prompt of a server, under the name of its command.
pub(crate) struct Prompt<'a> {
    pub(crate) command: String,
    pub(crate) server: &'a Server,
    pub(crate) name: &'a str,
    pub(crate) description: String,
    pub(crate) arguments: Vec<Argument>,
}

/// An argument of a prompt.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct Argument {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) required: bool,
}

/// Returns the prompts of all servers.
pub(crate) fn prompts(servers: &[Server]) -> Vec<Prompt<'_>> {
    #[derive(Deserialize)]
    struct Definition {
        title: Option<Value>,
        description: Option<Value>,
        #[serde(default)]
        arguments: Vec<Argument>,
    }
    let mut names = Names::default();
    names.reserve(PROMPTS);
    let all = usable(servers).flat_map(|server| server.prompts.iter().map(move |prompt| (server, prompt)));
    let read = all.filter(|(_, prompt)| is_offered(&prompt.name)).filter_map(|(server, prompt)| {
        let Definition { title, description, arguments } = serde_json::from_str(&prompt.definition).ok()?;
        let text = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
        let said = text(&description).or_else(|| text(&title)).unwrap_or_default();
        let description = clean::line(&format!("[MCP server {}] {said}", server.name), 400);
        Some((server, prompt.name.as_str(), description, arguments))
    });
    read.take(MAX_PROMPTS)
        .map(|(server, name, description, arguments)| {
            let command = names.add(&server.name, name);
            Prompt { command, server, name, description, arguments }
        })
        .collect()
}
