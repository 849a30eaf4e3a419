//! The reply decoder.

use crate::decode::json::parse;
use crate::decode::{Parts, ReplyState, broke_off};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The state of one reply.
#[derive(Debug)]
pub struct Reply {
    /// Keyed by the vendor's block index.
    parts: Parts<u64>,
    usage: Usage,
    stop: Option<Stop>,
}

#[derive(Debug, PartialEq)]
enum Stop {
    Reason(StopReason),
    Refused(String),
}

impl ReplyState for Reply {
    fn new(id_seed: String) -> Self {
        Self { parts: Parts::new(id_seed), usage: Usage::default(), stop: None }
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() {
            return Ok(());
        }
        let event: Event<'_> = parse(data)?;
        if let Some(error) = event.error {
            return Err(classify_object(&error));
        }
        match &*event.kind {
            "message_start" => self.message_start(event.message.unwrap_or_default(), events),
            "content_block_start" => {
                self.block_start(event.index.unwrap_or_default(), event.content_block.unwrap_or_default(), events)?;
            }
            "content_block_delta" => {
                self.block_delta(event.index.unwrap_or_default(), &event.delta.unwrap_or_default(), events)?;
            }
            "content_block_stop" => self.parts.end_part(&event.index.unwrap_or_default(), events),
            "message_delta" => {
                self.count(event.usage.unwrap_or_default(), events);
                self.stop = event.delta.as_ref().and_then(Stop::of).or(self.stop.take());
            }
            "message_stop" => self.end(events)?,
            // `ping` and future events: the vendor's documentation asks clients to ignore unknown ones.
            _ => {}
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.parts.ended()
    }

    fn close(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.stop {
            Some(_) => self.end(events),
            None => Err(broke_off()),
        }
    }
}

impl Reply {
    fn message_start(&mut self, message: Head<'_>, events: &mut Vec<StreamEvent>) {
        self.parts.start(message.model.as_deref(), events);
        self.count(message.usage.unwrap_or_default(), events);
    }

    fn block_start(
        &mut self,
        index: u64,
        block: Piece<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let kind = match &*block.kind {
            "text" => PartKind::Text,
            "thinking" => PartKind::Thinking,
            "redacted_thinking" => PartKind::RedactedThinking,
            "tool_use" => PartKind::ToolCall { id: block.id.into_owned(), name: block.name.into_owned() },
            _ => return Ok(()),
        };
        if self.parts.is_open(&index) {
            return Ok(());
        }
        self.parts.begin(index, kind, events)?;
        self.parts.add(&index, &block.text, events);
        self.parts.add(&index, &block.thinking, events);
        if let Some(input) = block.input.map(RawValue::get).filter(|input| !matches!(*input, "{}" | "null")) {
            self.parts.set_initial(&index, input.to_owned());
        }
        for signature in [block.signature, block.data].iter().filter(|text| !text.is_empty()) {
            self.parts.sign(&index, signature)?;
        }
        Ok(())
    }

    fn block_delta(
        &mut self,
        index: u64,
        delta: &Piece<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        match &*delta.kind {
            "text_delta" => self.parts.add(&index, &delta.text, events),
            "thinking_delta" => self.parts.add(&index, &delta.thinking, events),
            "input_json_delta" => self.parts.add(&index, &delta.partial_json, events),
            "signature_delta" => self.parts.sign(&index, &delta.signature)?,
            _ => {}
        }
        Ok(())
    }

    /// The counts are cumulative and disjoint; the vendor omits those that did not change.
    fn count(&mut self, usage: WireUsage, events: &mut Vec<StreamEvent>) {
        let set = |count: &mut u64, value: Option<u64>| *count = value.unwrap_or(*count);
        set(&mut self.usage.input, usage.input_tokens);
        set(&mut self.usage.output, usage.output_tokens);
        set(&mut self.usage.cache_read, usage.cache_read_input_tokens);
        set(&mut self.usage.cache_write, usage.cache_creation_input_tokens);
        self.parts.usage(self.usage, events);
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.stop.take() {
            Some(Stop::Refused(message)) => Err(ProviderError::Api { status: None, message }),
            Some(Stop::Reason(reason)) => {
                self.parts.end(reason, events);
                Ok(())
            }
            None => {
                self.parts.end(StopReason::Stop, events);
                Ok(())
            }
        }
    }
}

impl Stop {
    fn of(delta: &Piece<'_>) -> Option<Self> {
        Some(Self::Reason(match delta.stop_reason.as_deref()? {
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "tool_use" => StopReason::ToolUse,
            "refusal" => return Some(Self::Refused(refusal(delta.stop_details.as_ref()))),
            // `end_turn`, `stop_sequence`, `pause_turn`, and future reasons.
            _ => StopReason::Stop,
        }))
    }
}

fn refusal(details: Option<&StopDetails<'_>>) -> String {
    let explanation = details.and_then(|details| details.explanation.as_deref());
    let category = details.and_then(|details| details.category.as_deref());
    match (explanation, category) {
        (Some(text), _) => format!("the model refused to answer: {text}"),
        (None, Some(category)) => format!("the model refused to answer ({category})"),
        (None, None) => "the model refused to answer".to_owned(),
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    index: Option<u64>,
    #[serde(borrow)]
    message: Option<Head<'a>>,
    #[serde(borrow)]
    content_block: Option<Piece<'a>>,
    #[serde(borrow)]
    delta: Option<Piece<'a>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    usage: Option<WireUsage>,
}

/// The start of a content block, a delta of one, or the end of the message: all share their fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(borrow)]
    thinking: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
    #[serde(borrow)]
    partial_json: Cow<'a, str>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stop_details: Option<StopDetails<'a>>,
}

#[derive(Deserialize)]
struct StopDetails<'a> {
    #[serde(borrow)]
    category: Option<Cow<'a, str>>,
    #[serde(borrow)]
    explanation: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}
