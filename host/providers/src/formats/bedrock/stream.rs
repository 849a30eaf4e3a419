//! The reply decoder.

use crate::decode::event_stream::{Frame, FrameReader};
use crate::decode::json::{self, parse};
use crate::decode::{
    self, MAX_PARTS, MAX_SIGNATURE, Parts, began_again, broke_off, settled, too_large_signature, too_many_parts,
};
use crate::formats::stop_reason::{Announced, announce, blocked, failed, unlisted};
use crate::transport::classify_object;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Decodes one streamed reply.
#[derive(Debug)]
pub struct BedrockDecoder {
    frames: FrameReader,
    reply: BedrockReply,
}

impl BedrockDecoder {
    /// A decoder for one reply. Tool calls without an ID receive one that begins with `id_seed`.
    pub fn new(id_seed: impl Into<String>) -> Self {
        Self {
            frames: FrameReader::default(),
            reply: BedrockReply {
                parts: Parts::new(id_seed.into()),
                redacted: BTreeMap::new(),
                calls: BTreeMap::new(),
                of_server: Vec::new(),
                has_started: false,
                stop: None,
            },
        }
    }
}

impl decode::Decoder for BedrockDecoder {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Self { frames, reply } = self;
        let fed = frames.feed(bytes, |frame| reply.frame(&frame, events));
        settled(reply.parts.ended(), fed)
    }

    fn finish(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.reply.parts.ended() {
            return Ok(());
        }
        match self.reply.stop.take() {
            // The reply is complete except for its token counts.
            Some(Ok(reason)) if !self.frames.is_in_message() => self.reply.end(reason, events),
            Some(Err(error)) => Err(error),
            _ => Err(broke_off()),
        }
    }
}

/// The state of one reply.
#[derive(Debug)]
struct BedrockReply {
    /// Keyed by the vendor's block index.
    parts: Parts<u64>,
    /// Redacted thinking of open blocks, whose pieces are encoded one by one.
    redacted: BTreeMap<u64, Vec<u8>>,
    /// The IDs of the open calls.
    calls: BTreeMap<u64, String>,
    /// Calls marked as the server's own, in order. Those without a result in the reply are calls of the final tool of a
    /// structured answer, and ours.
    of_server: Vec<ServerCall>,
    has_started: bool,
    stop: Announced,
}

/// A call that the server may have run itself.
#[derive(Debug)]
struct ServerCall {
    at: u64,
    id: String,
    name: String,
    arguments: String,
    is_open: bool,
}

impl BedrockReply {
    fn frame(&mut self, frame: &Frame<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() {
            return Ok(());
        }
        match frame.header(":message-type") {
            "exception" => return Err(exception(frame.header(":exception-type"), frame.payload)),
            "error" => {
                let (code, message) = (frame.header(":error-code"), frame.header(":error-message"));
                return Err(classify_object(&json!({ "code": code, "message": message })));
            }
            _ => {}
        }
        let kind = frame.header(":event-type");
        if !KNOWN_EVENTS.contains(&kind) {
            return Ok(());
        }
        let event: BedrockEvent<'_> = parse(frame.payload)?;
        let at = event.content_block_index.unwrap_or_default();
        match kind {
            "messageStart" if std::mem::replace(&mut self.has_started, true) => return Err(began_again()),
            "messageStart" => self.parts.start(None, events),
            "contentBlockStart" => self.block_start(at, event.start.unwrap_or_default(), events)?,
            "contentBlockDelta" => self.delta(at, event.delta.unwrap_or_default(), events)?,
            "contentBlockStop" => self.block_stop(at, events)?,
            "messageStop" => announce(&mut self.stop, stop_reason(&event.stop_reason)),
            _ => self.metadata(event.usage, events)?,
        }
        Ok(())
    }

    fn block_start(&mut self, at: u64, start: Start<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(result) = start.tool_result {
            self.of_server.retain(|call| call.id != *result.tool_use_id);
        }
        let Some(tool) = start.tool_use else { return Ok(()) };
        let (id, name) = (tool.tool_use_id.into_owned(), tool.name.into_owned());
        if !matches!(&*tool.kind, "" | "tool_use") {
            if self.of_server.len() == MAX_PARTS {
                return Err(too_many_parts());
            }
            self.parts.end_part(&at, events);
            self.of_server.push(ServerCall { at, id, name, arguments: String::new(), is_open: true });
            return Ok(());
        }
        if self.parts.is_open(&at) && self.calls.get(&at).is_some_and(|known| id.is_empty() || *known == id) {
            return Ok(());
        }
        // A block may lack its end.
        self.parts.end_part(&at, events);
        self.parts.begin(at, PartKind::ToolCall { id: id.clone(), name }, events)?;
        self.calls.insert(at, id);
        Ok(())
    }

    /// Adds a delta. Only tool calls announce their start, so other parts begin with their first delta.
    fn delta(&mut self, at: u64, delta: BedrockDelta<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if !delta.text.is_empty() {
            self.begin(at, PartKind::Text, events)?;
            self.parts.add(&at, &delta.text, events);
        }
        if let Some(tool) = delta.tool_use {
            match self.of_server.iter_mut().rfind(|call| call.at == at && call.is_open) {
                Some(call) if call.arguments.len() + tool.input.len() > MAX_SIGNATURE => {
                    return Err(too_large_signature());
                }
                Some(call) => call.arguments.push_str(&tool.input),
                None => self.parts.add(&at, &tool.input, events),
            }
        }
        let Some(reasoning) = delta.reasoning_content else { return Ok(()) };
        if !reasoning.redacted_content.is_empty() {
            self.begin(at, PartKind::RedactedThinking, events)?;
            return self.redact(at, &reasoning.redacted_content);
        }
        self.begin(at, PartKind::Thinking, events)?;
        self.parts.add(&at, &reasoning.text, events);
        self.parts.sign(&at, &reasoning.signature)
    }

    fn redact(&mut self, at: u64, piece: &str) -> Result<(), ProviderError> {
        let Ok(piece) = STANDARD.decode(piece) else { return self.parts.sign(&at, piece) };
        let bytes = self.redacted.entry(at).or_default();
        bytes.extend(piece);
        if bytes.len() > MAX_SIGNATURE { Err(too_large_signature()) } else { Ok(()) }
    }

    fn block_stop(&mut self, at: u64, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(bytes) = self.redacted.remove(&at) {
            self.parts.sign(&at, &STANDARD.encode(bytes))?;
        }
        self.of_server.iter_mut().filter(|call| call.at == at).for_each(|call| call.is_open = false);
        self.calls.remove(&at);
        self.parts.end_part(&at, events);
        Ok(())
    }

    fn end(&mut self, reason: StopReason, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        while let Some(at) = self.redacted.keys().next().copied() {
            self.block_stop(at, events)?;
        }
        for call in std::mem::take(&mut self.of_server).into_iter().filter(|_| reason == StopReason::ToolUse) {
            self.parts.end_part(&call.at, events);
            self.parts.begin(call.at, PartKind::ToolCall { id: call.id, name: call.name }, events)?;
            self.parts.add(&call.at, &call.arguments, events);
            self.parts.end_part(&call.at, events);
        }
        self.parts.end(reason, events);
        Ok(())
    }

    fn begin(&mut self, at: u64, kind: PartKind, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.parts.is_open(&at) {
            true => Ok(()),
            false => self.parts.begin(at, kind, events),
        }
    }

    /// Handles the last event of a reply.
    fn metadata(&mut self, usage: Option<BedrockUsage>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(usage) = usage {
            self.parts.usage(usage.into(), events);
        }
        match self.stop.take() {
            Some(stop) => self.end(stop?, events),
            None => Ok(()),
        }
    }
}

const KNOWN_EVENTS: &[&str] =
    &["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"];

fn stop_reason(reason: &str) -> Result<StopReason, ProviderError> {
    match reason {
        "end_turn" | "stop_sequence" => Ok(StopReason::Stop),
        "max_tokens" | "model_context_window_exceeded" => Ok(StopReason::Length),
        "tool_use" => Ok(StopReason::ToolUse),
        "guardrail_intervened" => Err(blocked("a guardrail of the account cut off the reply")),
        "content_filtered" => Err(blocked("the vendor's content filter cut off the reply")),
        "refusal" => Err(blocked("the model refused to answer")),
        "malformed_model_output" | "malformed_tool_use" => {
            Err(failed(&format!("the model's output was malformed ({reason})")))
        }
        reason => unlisted(reason),
    }
}

fn exception(kind: &str, payload: &[u8]) -> ProviderError {
    let message = serde_json::from_slice::<Value>(payload).ok();
    let message = message.as_ref().and_then(|body| body.get("message").or(body.get("Message"))?.as_str());
    classify_object(&json!({ "code": kind, "message": message.unwrap_or(kind) }))
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BedrockEvent<'a> {
    #[serde(deserialize_with = "json::count")]
    content_block_index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::object")]
    start: Option<Start<'a>>,
    #[serde(borrow, deserialize_with = "json::object")]
    delta: Option<BedrockDelta<'a>>,
    #[serde(borrow, deserialize_with = "json::text")]
    stop_reason: Cow<'a, str>,
    #[serde(deserialize_with = "json::object")]
    usage: Option<BedrockUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow, deserialize_with = "json::object")]
    tool_use: Option<ToolStart<'a>>,
    #[serde(borrow, deserialize_with = "json::object")]
    tool_result: Option<ResultStart<'a>>,
}

/// The start of the result of a tool that the server ran.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResultStart<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    tool_use_id: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ToolStart<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    name: Cow<'a, str>,
    /// `server_tool_use` for a tool of the vendor; absent for ours.
    #[serde(borrow, rename = "type", deserialize_with = "json::text")]
    kind: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BedrockDelta<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    text: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    tool_use: Option<ToolDelta<'a>>,
    #[serde(borrow, deserialize_with = "json::object")]
    reasoning_content: Option<ReasoningDelta<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolDelta<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    input: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReasoningDelta<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    text: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    signature: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    redacted_content: Cow<'a, str>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BedrockUsage {
    #[serde(deserialize_with = "json::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_write_input_tokens: Option<u64>,
}

impl From<BedrockUsage> for Usage {
    /// The vendor's counts are disjoint.
    fn from(wire: BedrockUsage) -> Self {
        Self {
            input: wire.input_tokens.unwrap_or_default(),
            output: wire.output_tokens.unwrap_or_default(),
            cache_read: wire.cache_read_input_tokens.unwrap_or_default(),
            cache_write: wire.cache_write_input_tokens.unwrap_or_default(),
        }
    }
}
