//! Messages of the session benches: user, call, result and reply in turn.

use jiff::Timestamp;
use pinion_protocol::{
    AssistantMessage, Content, Message, StopReason, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use std::sync::Arc;

/// Returns the message of this number, with about `size` bytes of text.
pub(crate) fn message(number: usize, size: usize) -> Arc<Message> {
    let timestamp = Timestamp::UNIX_EPOCH;
    // Newlines are escaped, as in real results.
    let text = Content::text("fn main() { println!(\"hello\"); }\n".repeat(size / 33 + 1));
    let id = format!("call-{}", number / 4);
    Arc::new(match number % 4 {
        0 => Message::User(UserMessage { content: vec![text], label: None, timestamp }),
        2 => Message::ToolResult(ToolResultMessage {
            call_id: id,
            tool_name: "read".into(),
            content: vec![text],
            details: None,
            is_error: false,
            child_run_id: None,
            timestamp,
        }),
        kind => Message::Assistant(AssistantMessage {
            content: match kind {
                1 => vec![text, Content::ToolCall(ToolCall::new(id, "read", serde_json::json!({ "path": "a.txt" })))],
                _ => vec![text],
            },
            stop_reason: StopReason::Stop,
            provider: "replay".into(),
            model: "scripted".into(),
            requested_model: None,
            usage: Usage::default(),
            cost: None,
            error: None,
            timestamp,
        }),
    })
}
