//! Requests for tests.

use jiff::Timestamp;
use pinion_protocol::{
    AssistantMessage, Authority, Content, Execution, Message, Request, RequestOptions, StopReason, ToolCall,
    ToolChoice, ToolDefinition, ToolResultMessage, ToolSource, Usage,
};
use serde_json::json;
use std::sync::Arc;

/// Returns a request with one message of the user.
pub(crate) fn request(text: &str) -> Request {
    Request {
        model: "tiny".to_owned(),
        system: "Be brief.".into(),
        messages: vec![Arc::new(Message::user(text))],
        tools: vec![Arc::new(read_tool())],
        tool_choice: ToolChoice::Auto,
        options: RequestOptions::default(),
    }
}

/// Returns a tool with one required argument.
pub(crate) fn read_tool() -> ToolDefinition {
    ToolDefinition {
        name: "read".to_owned(),
        label: "Read".to_owned(),
        description: "Reads a file".to_owned(),
        input_schema: json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] }),
        guidelines: Vec::new(),
        authority: Authority::default(),
        execution: Execution::Parallel,
        source: ToolSource::default(),
    }
}

/// Returns a request after a call and its result.
pub(crate) fn tool_conversation() -> Request {
    let call = ToolCall::new("c1", "read", json!({ "path": "a" }));
    let reply = AssistantMessage {
        content: vec![Content::text("Look."), Content::ToolCall(call)],
        stop_reason: StopReason::ToolUse,
        provider: "local".to_owned(),
        model: "tiny".to_owned(),
        requested_model: None,
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: Timestamp::UNIX_EPOCH,
    };
    let result = ToolResultMessage {
        call_id: "c1".to_owned(),
        tool_name: "read".to_owned(),
        content: vec![Content::text("hello")],
        details: None,
        is_error: false,
        child_run_id: None,
        timestamp: Timestamp::UNIX_EPOCH,
    };
    let mut request = request("read a");
    request.messages.extend([
        Arc::new(Message::Assistant(reply)),
        Arc::new(Message::ToolResult(result)),
        Arc::new(Message::user("and now?")),
    ]);
    request
}
