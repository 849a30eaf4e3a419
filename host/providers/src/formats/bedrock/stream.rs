//! The reply decoder.

use crate::decode::event_stream::{Frame, FrameReader};
use crate::decode::json::{self, parse};
use crate::decode::{self, MAX_SIGNATURE, Parts, began_again, broke_off, settled, too_large_signature};
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
pub struct Decoder {
    frames: FrameReader,
    reply: Reply,
}

impl Decoder {
    /// A decoder for one reply. Tool calls without an ID receive one that begins with `id_seed`.
    pub fn new(id_seed: impl Into<String>) -> Self {
        Self {
            frames: FrameReader::default(),
            reply: Reply {
                parts: Parts::new(id_seed.into()),
                redacted: BTreeMap::new(),
                has_started: false,
                stop: None,
            },
        }
    }
}

impl decode::Decoder for Decoder {
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
struct Reply {
    /// Keyed by the vendor's block index.
    parts: Parts<u64>,
    /// Redacted thinking of open blocks, whose pieces are encoded one by one.
    redacted: BTreeMap<u64, Vec<u8>>,
    has_started: bool,
    stop: Announced,
}

impl Reply {
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
        let event: Event<'_> = parse(frame.payload)?;
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
        match start.tool_use {
            // The vendor runs its own tools itself.
            Some(tool) if !tool.kind.is_empty() => Ok(()),
            Some(tool) if !self.parts.is_open(&at) => {
                let kind = PartKind::ToolCall { id: tool.tool_use_id.into_owned(), name: tool.name.into_owned() };
                self.parts.begin(at, kind, events)
            }
            _ => Ok(()),
        }
    }

    /// Adds a delta. Only tool calls announce their start, so other parts begin with their first delta.
    fn delta(&mut self, at: u64, delta: Delta<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if !delta.text.is_empty() {
            self.begin(at, PartKind::Text, events)?;
            self.parts.add(&at, &delta.text, events);
        }
        if let Some(tool) = delta.tool_use {
            self.parts.add(&at, &tool.input, events);
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
        self.parts.end_part(&at, events);
        Ok(())
    }

    fn end(&mut self, reason: StopReason, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        while let Some(at) = self.redacted.keys().next().copied() {
            self.block_stop(at, events)?;
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
    fn metadata(&mut self, usage: Option<WireUsage>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
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
struct Event<'a> {
    #[serde(deserialize_with = "json::count")]
    content_block_index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::object")]
    start: Option<Start<'a>>,
    #[serde(borrow, deserialize_with = "json::object")]
    delta: Option<Delta<'a>>,
    #[serde(borrow, deserialize_with = "json::text")]
    stop_reason: Cow<'a, str>,
    #[serde(deserialize_with = "json::object")]
    usage: Option<WireUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow, deserialize_with = "json::object")]
    tool_use: Option<ToolStart<'a>>,
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
struct Delta<'a> {
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
struct WireUsage {
    #[serde(deserialize_with = "json::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_write_input_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    /// The vendor's counts are disjoint.
    fn from(wire: WireUsage) -> Self {
        Self {
            input: wire.input_tokens.unwrap_or_default(),
            output: wire.output_tokens.unwrap_or_default(),
            cache_read: wire.cache_read_input_tokens.unwrap_or_default(),
            cache_write: wire.cache_write_input_tokens.unwrap_or_default(),
        }
    }
}
