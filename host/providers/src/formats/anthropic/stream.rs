//! The reply decoder.

use crate::decode::json::{self, Arguments, parse};
use crate::decode::{MAX_PARTS, Parts, ReplyState, began_again, broke_off, too_many_parts};
use crate::formats::stop_reason::{Announced, announce, blocked, unlisted};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The state of one reply.
#[derive(Debug)]
pub struct AnthropicReply {
    /// Keyed by the vendor's block index.
    parts: Parts<u64>,
    /// The kinds and IDs of the blocks that have begun.
    begun: BTreeMap<u64, (String, String)>,
    /// The blocks that are not for this client, such as the blocks of the vendor's own tools.
    skipped: BTreeSet<u64>,
    /// The vendor's ID of the message.
    id: String,
    usage: Usage,
    stop: Announced,
}

impl ReplyState for AnthropicReply {
    fn new(id_seed: String) -> Self {
        let (begun, skipped, usage) = (BTreeMap::new(), BTreeSet::new(), Usage::default());
        Self { parts: Parts::new(id_seed), begun, skipped, id: String::new(), usage, stop: None }
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() {
            return Ok(());
        }
        let event: AnthropicEvent<'_> = parse(data)?;
        // Any event may have counts; a whole message begins the reply first.
        if let Some(usage) = event.usage.filter(|_| event.kind != "message") {
            self.count(usage, events);
        }
        match &*event.kind {
            // Gateways omit the type.
            "error" | "" if event.error.is_some() || event.kind == "error" => {
                return Err(classify_object(&event.error.map_or_else(|| parse(data), Ok)?));
            }
            "message_start" => self.message_start(event.message.unwrap_or_default(), events)?,
            "content_block_start" => {
                self.block_start(event.index.unwrap_or_default(), event.content_block.unwrap_or_default(), events)?;
            }
            "content_block_delta" => {
                self.block_delta(event.index.unwrap_or_default(), &event.delta.unwrap_or_default(), events)?;
            }
            "content_block_stop" => self.parts.end_part(&event.index.unwrap_or_default(), events),
            "message_delta" => {
                if let Some(stop) = event.delta.as_ref().and_then(stop_of) {
                    announce(&mut self.stop, stop);
                }
            }
            "message_stop" => self.end(events)?,
            "message" => self.whole_message(parse(data)?, events)?,
            // `ping` and future events: the vendor's documentation asks clients to ignore unknown ones.
            _ => {}
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.parts.ended()
    }

    fn close(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.stop.is_some() { self.end(events) } else { Err(broke_off()) }
    }
}

impl AnthropicReply {
    fn message_start(&mut self, message: MessageHead<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if !self.id.is_empty() && !message.id.is_empty() && message.id != self.id {
            return Err(began_again());
        }
        self.id = message.id.into_owned();
        self.parts.start(Some(&message.model), events);
        self.count(message.usage.unwrap_or_default(), events);
        Ok(())
    }

    /// Handles a reply that was not streamed.
    fn whole_message(&mut self, message: Whole<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let stop = stop_of(&AnthropicPiece { stop_reason: message.stop_reason, ..AnthropicPiece::default() });
        let head = MessageHead { id: message.id, model: message.model, usage: message.usage };
        self.message_start(head, events)?;
        for (index, block) in message.content.into_iter().enumerate() {
            self.block_start(index as u64, block, events)?;
            self.parts.end_part(&(index as u64), events);
        }
        self.stop = stop;
        self.close(events)
    }

    fn block_start(
        &mut self,
        index: u64,
        block: AnthropicPiece<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let name = (block.kind.clone().into_owned(), block.id.clone().into_owned());
        let kind = match &*block.kind {
            "text" => PartKind::Text,
            "thinking" => PartKind::Thinking,
            "redacted_thinking" => PartKind::RedactedThinking,
            "tool_use" => PartKind::ToolCall { id: block.id.into_owned(), name: block.name.into_owned() },
            _ if self.skipped.len() == MAX_PARTS => return Err(too_many_parts()),
            _ => {
                self.skipped.insert(index);
                return Ok(());
            }
        };
        self.skipped.remove(&index);
        let is_known = self.begun.get(&index).is_none_or(|known| *known == name);
        if is_known && self.parts.is_open(&index) {
            return Ok(());
        }
        // Gateways leave out the end of a block.
        self.parts.end_part(&index, events);
        self.parts.begin(index, kind, events)?;
        self.begun.insert(index, name);
        self.parts.add(&index, &block.text, events);
        self.parts.add(&index, &block.thinking, events);
        if block.input.0 != "{}" {
            self.parts.set_initial(&index, block.input.0.into_owned());
        }
        for signature in [block.signature, block.data].iter().filter(|text| !text.is_empty()) {
            self.parts.sign(&index, signature)?;
        }
        Ok(())
    }

    fn block_delta(
        &mut self,
        index: u64,
        delta: &AnthropicPiece<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        match &*delta.kind {
            "text_delta" => {
                self.begin_unannounced(index, PartKind::Text, events)?;
                self.parts.add(&index, &delta.text, events);
            }
            "thinking_delta" => {
                self.begin_unannounced(index, PartKind::Thinking, events)?;
                self.parts.add(&index, &delta.thinking, events);
            }
            "input_json_delta" => self.parts.add(&index, &delta.partial_json.0, events),
            "signature_delta" => self.parts.sign(&index, &delta.signature)?,
            _ => {}
        }
        Ok(())
    }

    /// Begins a block whose start a gateway left out.
    fn begin_unannounced(
        &mut self,
        index: u64,
        kind: PartKind,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        match self.skipped.contains(&index) || self.parts.has_begun(&index) {
            true => Ok(()),
            false => self.parts.begin(index, kind, events),
        }
    }

    /// The counts are cumulative and disjoint; the vendor omits those that did not change.
    fn count(&mut self, usage: AnthropicUsage, events: &mut Vec<StreamEvent>) {
        let set = |count: &mut u64, value: Option<u64>| *count = value.unwrap_or(*count);
        set(&mut self.usage.input, usage.input_tokens);
        set(&mut self.usage.output, usage.output_tokens);
        set(&mut self.usage.cache_read, usage.cache_read_input_tokens);
        set(&mut self.usage.cache_write, usage.cache_creation_input_tokens);
        self.parts.usage(self.usage, events);
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let reason = self.stop.take().unwrap_or(Ok(StopReason::Stop))?;
        self.parts.end(reason, events);
        Ok(())
    }
}

/// The end that a delta of the message announces.
fn stop_of(delta: &AnthropicPiece<'_>) -> Option<Result<StopReason, ProviderError>> {
    Some(match &*delta.stop_reason {
        "" => return None,
        "end_turn" | "stop_sequence" | "pause_turn" => Ok(StopReason::Stop),
        "max_tokens" | "model_context_window_exceeded" => Ok(StopReason::Length),
        "tool_use" => Ok(StopReason::ToolUse),
        "refusal" => Err(blocked(&refusal(delta.stop_details.as_ref()))),
        reason => unlisted(reason),
    })
}

fn refusal(details: Option<&StopDetails<'_>>) -> String {
    match details.map(|details| (&*details.explanation, &*details.category)).unwrap_or_default() {
        ("", "") => "the model refused to answer".to_owned(),
        ("", category) => format!("the model refused to answer ({category})"),
        (text, _) => format!("the model refused to answer: {text}"),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicEvent<'a> {
    #[serde(borrow, rename = "type", deserialize_with = "json::text")]
    kind: Cow<'a, str>,
    #[serde(deserialize_with = "json::count")]
    index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::object")]
    message: Option<MessageHead<'a>>,
    #[serde(borrow, deserialize_with = "json::object")]
    content_block: Option<AnthropicPiece<'a>>,
    #[serde(borrow, deserialize_with = "json::object")]
    delta: Option<AnthropicPiece<'a>>,
    #[serde(deserialize_with = "json::object")]
    usage: Option<AnthropicUsage>,
    #[serde(deserialize_with = "json::error")]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageHead<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    model: Cow<'a, str>,
    #[serde(deserialize_with = "json::object")]
    usage: Option<AnthropicUsage>,
}

/// A message that was not streamed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Whole<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    model: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::objects")]
    content: Vec<AnthropicPiece<'a>>,
    #[serde(borrow, deserialize_with = "json::text")]
    stop_reason: Cow<'a, str>,
    #[serde(deserialize_with = "json::object")]
    usage: Option<AnthropicUsage>,
}

/// The start of a content block, a delta of one, or the end of the message: all share their fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicPiece<'a> {
    #[serde(borrow, rename = "type", deserialize_with = "json::text")]
    kind: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    name: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    text: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    thinking: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    signature: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    data: Cow<'a, str>,
    #[serde(borrow)]
    partial_json: Arguments<'a>,
    #[serde(borrow)]
    input: Arguments<'a>,
    #[serde(borrow, deserialize_with = "json::text")]
    stop_reason: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    stop_details: Option<StopDetails<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StopDetails<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    category: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    explanation: Cow<'a, str>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct AnthropicUsage {
    #[serde(deserialize_with = "json::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_creation_input_tokens: Option<u64>,
}
