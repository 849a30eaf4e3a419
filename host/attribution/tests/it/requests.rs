//! Requests and messages for tests.

use jiff::Timestamp;
use pinion_protocol::message::ToolResultMessage;
use pinion_protocol::{
    AssistantMessage, Authority, Content, Cost, Execution, Message, Request, RequestOptions, StopReason, ToolCall,
    ToolChoice, ToolDefinition, ToolSource, Usage, UserMessage,
};
use serde_json::json;
use std::sync::Arc;

/// The system prompt of the first request, as the application writes it.
pub(crate) const SYSTEM: &str = "You are Pinion.\n\n# Surroundings\n\nDirectory: /src\nDate: 2026-01-02\nSystem: linux x86_64\n\n\
                                 # ~/.config/pinion/AGENTS.md\n\nBe brief.\n\n<project_context>\n\nFiles of the project:\n\n\
                                 <project_instructions path=\"AGENTS.md\">\n> Run the tests.\n</project_instructions>\n\n\
                                 <project_instructions path=\"docs/AGENTS.md\">\n> Write docs.\n</project_instructions>\n\n\
                                 </project_context>\n\nAppended: be kind.\n\n\n# Tools\n\n- `read`: Read before you \
                                 edit.\n- `bash`: Be careful.\n\nThe plugin `skills` says about its tools:\n\n> - pdf: \
                                 reads PDF\n\nThe plugin `notes` says about its tools:\n\n> Note decisions.\n";

pub(crate) fn tool(name: &str, plugin: &str, description: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        label: name.into(),
        description: description.into(),
        input_schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
        guidelines: Vec::new(),
        authority: Authority::READ_ONLY,
        execution: Execution::default(),
        source: ToolSource { plugin: plugin.into(), ..ToolSource::default() },
    }
}

pub(crate) fn user(text: &str) -> Arc<Message> {
    let timestamp = Timestamp::UNIX_EPOCH;
    Arc::new(Message::User(UserMessage { content: vec![Content::text(text)], label: None, timestamp }))
}

pub(crate) fn reply(content: Vec<Content>, usage: Usage, cost: Option<Cost>) -> Arc<Message> {
    let stop_reason = StopReason::Stop;
    Arc::new(Message::Assistant(AssistantMessage {
        content,
        stop_reason,
        provider: "vendor".into(),
        model: "large".into(),
        requested_model: None,
        usage,
        cost,
        error: None,
        timestamp: Timestamp::UNIX_EPOCH,
    }))
}

pub(crate) fn text_reply(text: &str) -> Arc<Message> {
    reply(vec![Content::text(text)], Usage::default(), None)
}

pub(crate) fn call(id: &str, tool: &str, path: &str) -> Content {
    Content::ToolCall(ToolCall::new(id, tool, json!({ "path": path })))
}

pub(crate) fn result(id: &str, tool: &str, text: &str) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        call_id: id.into(),
        tool_name: tool.into(),
        content: vec![Content::text(text)],
        details: None,
        is_error: false,
        child_run_id: None,
        timestamp: Timestamp::UNIX_EPOCH,
    }))
}

/// A conversation of two turns with a call each.
pub(crate) fn request() -> Request {
    let tools = [
        tool("read", "fs", "Reads a file."),
        tool("edit", "fs", "Edits a file."),
        tool("bash", "shell", "Runs a command."),
        tool("issues__list", "mcp", "Lists issues."),
        tool("issues__close", "mcp", "Closes an issue."),
        tool("skill", "skills", "Returns a skill."),
    ];
    Request {
        model: "large".into(),
        system: SYSTEM.into(),
        messages: vec![
            user("fix the bug"),
            reply(vec![call("1", "read", "src/a.rs")], Usage::default(), None),
            result("1", "read", &"fn main() {}\n".repeat(50)),
            text_reply("It is fixed."),
            user("and now the tests at 10:15:00"),
            reply(vec![call("2", "bash", "tests/b.rs")], Usage::default(), None),
            result("2", "bash", &"ok\n".repeat(50)),
        ],
        tools: tools.map(Arc::new).into(),
        tool_choice: ToolChoice::Auto,
        options: RequestOptions { session_id: Some("s".into()), ..RequestOptions::default() },
    }
}

/// Continues a conversation as its next request does.
pub(crate) fn continued(mut request: Request) -> Request {
    request.messages.extend([text_reply("Done."), user("thanks")]);
    request
}
