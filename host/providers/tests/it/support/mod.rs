//! Conversations, decoding, a notation for events, and a server.

pub(crate) mod formats;
pub(crate) mod requests;
pub(crate) mod rules;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod vendors;

use jiff::Timestamp;
use pinion_protocol::{
    AssistantMessage, Authority, Content, Execution, Image, Message, PartKind, ProviderError, Request, RequestOptions,
    StopReason, StreamEvent, Thinking, ToolCall, ToolChoice, ToolDefinition, ToolResultMessage, Usage, UserMessage,
};
use pinion_providers::Decoder;
use serde_json::{Value, json};
use std::sync::Arc;

/// Builds a request with nothing but messages.
pub(crate) fn request(model: &str, messages: Vec<Message>) -> Request {
    Request {
        model: model.to_owned(),
        system: "".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        options: RequestOptions::default(),
    }
}

pub(crate) fn user(content: Vec<Content>) -> Message {
    Message::User(UserMessage { content, label: None, timestamp: Timestamp::UNIX_EPOCH })
}

pub(crate) fn text(text: &str) -> Message {
    user(vec![Content::text(text)])
}

pub(crate) fn reply(provider: &str, model: &str, content: Vec<Content>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        stop_reason: StopReason::Stop,
        provider: provider.to_owned(),
        model: model.to_owned(),
        requested_model: None,
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: Timestamp::UNIX_EPOCH,
    })
}

pub(crate) fn thinking(text: &str, signature: Option<&str>) -> Content {
    Content::Thinking(Thinking { text: text.to_owned(), signature: signature.map(str::to_owned), redacted: false })
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> Content {
    Content::ToolCall(ToolCall::new(id, name, arguments))
}

pub(crate) fn result(call_id: &str, content: Vec<Content>) -> Message {
    Message::ToolResult(ToolResultMessage {
        call_id: call_id.to_owned(),
        tool_name: "read".to_owned(),
        content,
        details: Some(json!({ "never": "sent" })),
        is_error: false,
        child_run_id: None,
        timestamp: Timestamp::UNIX_EPOCH,
    })
}

pub(crate) fn failed(call_id: &str, content: Vec<Content>) -> Message {
    match result(call_id, content) {
        Message::ToolResult(result) => Message::ToolResult(ToolResultMessage { is_error: true, ..result }),
        other => other,
    }
}

pub(crate) fn png() -> Content {
    Content::Image(Image { media_type: "image/png".to_owned(), data: b"png".to_vec() })
}

pub(crate) fn tool(name: &str) -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        name: name.to_owned(),
        label: String::new(),
        description: format!("Does {name}."),
        input_schema: json!({ "type": "object" }),
        guidelines: Vec::new(),
        authority: Authority::READ_ONLY,
        execution: Execution::Parallel,
        source: Default::default(),
    })
}

/// Feeds packets until an error or the end, and finishes. Returns the events and the error.
pub(crate) fn decode(decoder: &mut dyn Decoder, packets: &[&[u8]]) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let mut events = Vec::new();
    let fed = packets.iter().try_for_each(|packet| decoder.feed(packet, &mut events));
    let error = fed.and_then(|()| decoder.finish(&mut events)).err();
    (events, error)
}

/// Formats one line per event, short enough to compare entire replies.
pub(crate) fn notation(events: &[StreamEvent]) -> Vec<String> {
    let line = |event: &StreamEvent| match event {
        StreamEvent::Start { model } => format!("start {}", model.as_deref().unwrap_or("-")),
        StreamEvent::PartStart { index, part } => match part {
            PartKind::Text => format!("{index} text"),
            PartKind::Thinking => format!("{index} thinking"),
            PartKind::RedactedThinking => format!("{index} redacted"),
            PartKind::ToolCall { id, name } => format!("{index} call {name} {id}"),
        },
        StreamEvent::Delta { index, delta } => format!("{index} +{delta}"),
        StreamEvent::PartEnd { index, signature: None } => format!("{index} end"),
        StreamEvent::PartEnd { index, signature: Some(signature) } => format!("{index} end {signature}"),
        StreamEvent::Usage(u) => format!("usage {} {} {} {}", u.input, u.output, u.cache_read, u.cache_write),
        StreamEvent::End { stop_reason } => format!("stop {stop_reason:?}"),
    };
    events.iter().map(line).collect()
}

/// Checks the invariants of every event stream, for any server.
pub(crate) fn assert_well_formed(events: &[StreamEvent], error: Option<&ProviderError>) {
    let mut open = Vec::new();
    let mut count = 0;
    for (at, event) in events.iter().enumerate() {
        match event {
            StreamEvent::Start { .. } => assert_eq!(at, 0),
            StreamEvent::PartStart { index, .. } => {
                assert_eq!(*index, count);
                count += 1;
                open.push(*index);
            }
            StreamEvent::Delta { index, delta } => assert!(open.contains(index) && !delta.is_empty()),
            StreamEvent::PartEnd { index, .. } => {
                assert!(open.contains(index));
                open.retain(|other| other != index);
            }
            StreamEvent::Usage(_) => assert!(at > 0),
            StreamEvent::End { .. } => assert!(open.is_empty() && at + 1 == events.len()),
        }
    }
    let ended = matches!(events.last(), Some(StreamEvent::End { .. }));
    assert!(ended != error.is_some(), "a reply either ends or fails: {error:?}");
}

/// Cuts `bytes` at every position into two packets, and into packets of one byte.
pub(crate) fn every_split(bytes: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let pairs = (0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]);
    pairs.chain([bytes.chunks(1).collect()])
}
