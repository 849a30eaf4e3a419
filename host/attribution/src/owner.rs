//! Owners of segments.

use pinion_protocol::{Message, ToolCall, ToolDefinition};
use std::fmt;
use std::sync::Arc;

/// The plugin that offers the tools of MCP servers, and the text that ends the server in their names.
const BRIDGE: &str = "mcp";
const SERVER_END: &str = "__";
/// The plugin that lists skills in the system prompt and hands out their text.
const SKILLS: &str = "skills";
/// Arguments that name the file of a call.
const FILE_ARGUMENTS: [&str; 3] = ["path", "file", "file_path"];

/// The part of the program or of the conversation that a segment of a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SegmentOwner {
    /// The model, `PROVIDER/MODEL`. Caches are separate for each.
    Model(String),
    /// The definition of a tool.
    Tool {
        /// Name of the tool.
        name: String,
        /// Name of the MCP server that offers it, or of the plugin; empty for tools of the application.
        source: String,
        /// Whether the source is an MCP server.
        is_server: bool,
    },
    /// All tools of an MCP server.
    Server(String),
    /// The beginning of the system prompt.
    SystemPrompt,
    /// The directory and the system in the system prompt.
    Surroundings,
    /// The date in the system prompt.
    Date,
    /// A context file in the system prompt.
    ContextFile(String),
    /// Text that the user's files or options append to the system prompt.
    AppendedPrompt,
    /// Sentences about a tool in the system prompt.
    Guidelines(String),
    /// Instructions of a plugin in the system prompt.
    Instructions(String),
    /// The list of skills in the system prompt.
    Skills,
    /// A setting of the request, such as the thinking level.
    Setting(&'static str),
    /// The summary of a compaction.
    Summary,
    /// A message of the user, counted from 1.
    UserMessage(usize),
    /// A reply of the model, counted from 1.
    Reply(usize),
    /// The result of a call.
    CallResult {
        /// Name of the tool.
        tool: String,
        /// The file that the call named.
        file: Option<String>,
    },
    /// The vendor, which dropped a prefix that did not change.
    Vendor,
}

impl SegmentOwner {
    /// Returns the owner of a tool's definition.
    pub(crate) fn of_tool(tool: &ToolDefinition) -> Self {
        let (source, is_server) = match (&*tool.source.plugin, tool.name.split_once(SERVER_END)) {
            (BRIDGE, Some((server, _))) => (server.to_owned(), true),
            (plugin, _) => (plugin.to_owned(), false),
        };
        Self::Tool { name: tool.name.clone(), source, is_server }
    }

    /// Returns the owner of a plugin's instructions.
    pub(crate) fn of_instructions(plugin: &str) -> Self {
        if plugin == SKILLS { Self::Skills } else { Self::Instructions(plugin.to_owned()) }
    }

    /// Returns the owner of a result. `calls` are the calls of the reply before it.
    pub(crate) fn of_result<'a>(tool: &str, call_id: &str, mut calls: impl Iterator<Item = &'a ToolCall>) -> Self {
        let file = calls.find(|call| call.id == call_id).and_then(file_of);
        Self::CallResult { tool: tool.to_owned(), file }
    }
}

/// Returns the file that a call names.
pub(crate) fn file_of(call: &ToolCall) -> Option<String> {
    let named = FILE_ARGUMENTS.iter().find_map(|name| call.arguments.get(*name)?.as_str());
    named.filter(|path| !path.is_empty()).map(str::to_owned)
}

/// Returns the MCP server in the name of a tool, if there is one.
pub(crate) fn server_of(tool: &str) -> Option<&str> {
    tool.split_once(SERVER_END).map(|(server, _)| server).filter(|server| !server.is_empty())
}

/// Returns the calls of the last reply in `messages`.
pub(crate) fn last_calls(messages: &[Arc<Message>]) -> impl Iterator<Item = &ToolCall> {
    let reply = messages.iter().rev().find_map(|message| match &**message {
        Message::Assistant(reply) => Some(reply),
        _ => None,
    });
    reply.into_iter().flat_map(|reply| reply.tool_calls())
}

impl fmt::Display for SegmentOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(model) => write!(f, "the model `{model}`"),
            Self::Tool { name, source, .. } if source.is_empty() => write!(f, "the tool `{name}`"),
            Self::Tool { name, source, is_server: true } => write!(f, "the tool `{name}` of the MCP server `{source}`"),
            Self::Tool { name, source, is_server: false } => write!(f, "the tool `{name}` of the plugin `{source}`"),
            Self::Server(server) => write!(f, "the MCP server `{server}`"),
            Self::SystemPrompt => f.write_str("the system prompt"),
            Self::Surroundings => f.write_str("the surroundings in the system prompt"),
            Self::Date => f.write_str("the date in the system prompt"),
            Self::ContextFile(name) => write!(f, "the context file `{name}`"),
            Self::AppendedPrompt => f.write_str("the text appended to the system prompt"),
            Self::Guidelines(tool) => write!(f, "the guidelines of the tool `{tool}`"),
            Self::Instructions(plugin) => write!(f, "the instructions of the plugin `{plugin}`"),
            Self::Skills => f.write_str("the list of skills"),
            Self::Setting(name) => write!(f, "the setting `{name}`"),
            Self::Summary => f.write_str("the summary of a compaction"),
            Self::UserMessage(number) => write!(f, "your message {number}"),
            Self::Reply(number) => write!(f, "reply {number}"),
            Self::CallResult { tool, file: Some(file) } => write!(f, "the result of `{tool}` on `{file}`"),
            Self::CallResult { tool, file: None } => write!(f, "the result of `{tool}`"),
            Self::Vendor => f.write_str("the vendor's cache"),
        }
    }
}
