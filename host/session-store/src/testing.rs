//! Messages, and session files made of them, for the tests of this crate.

use crate::session::Session;
use jiff::Timestamp;
use pinion_protocol::{
    AssistantMessage, Content, Message, SessionStore, StopReason, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The time of every message.
pub(crate) fn time() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

/// A prompt of the user.
pub(crate) fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User(UserMessage { content: vec![Content::text(text)], label: None, timestamp: time() }))
}

/// A reply with these parts.
pub(crate) fn assistant(content: Vec<Content>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        stop_reason: StopReason::ToolUse,
        provider: "replay".into(),
        model: "scripted".into(),
        requested_model: None,
        usage: Usage { input: 10, output: 5, cache_read: 0, cache_write: 0 },
        cost: None,
        error: None,
        timestamp: time(),
    })
}

/// A reply that calls the tool `read` under these ids.
pub(crate) fn calls(ids: &[&str]) -> Arc<Message> {
    let call = |id: &&str| Content::ToolCall(ToolCall::new(*id, "read", json!({ "path": "a.txt" })));
    Arc::new(assistant(ids.iter().map(call).collect()))
}

/// A result of the tool `read`.
pub(crate) fn result(id: &str) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        call_id: id.into(),
        tool_name: "read".into(),
        content: vec![Content::text("line one\nline two")],
        details: Some(json!({ "lines": 2 })),
        is_error: false,
        child_run_id: None,
        timestamp: time(),
    }))
}

/// A complete conversation.
pub(crate) fn conversation() -> Vec<Arc<Message>> {
    vec![user("read it"), calls(&["1"]), result("1"), Arc::new(assistant(vec![Content::text("done")])), user("thanks")]
}

/// The workspace of every test session.
pub(crate) fn workspace() -> &'static Path {
    Path::new("/home/me/project")
}

/// Writes a session of these messages.
pub(crate) fn write_session(directory: &Path, messages: &[Arc<Message>]) -> PathBuf {
    let path = directory.join("20260102T030405Z_00000000-0000-4000-8000-000000000000.jsonl");
    let session = Session::begin(&path, workspace());
    for message in messages {
        session.append(message).unwrap();
    }
    path
}

/// The prompts of a branch.
pub(crate) fn prompts_of(branch: crate::transcript::Branch<'_>) -> Vec<String> {
    let text = |entry: crate::format::SessionEntry| match entry.payload {
        crate::format::Payload::Message(Message::User(message)) => {
            message.content.first().and_then(Content::as_text).map(str::to_owned)
        }
        _ => None,
    };
    branch.filter_map(|entry| text(entry.unwrap())).collect()
}
