//! The reply decoder.

use super::encrypted::EncryptedItem;
use crate::decode::json::{self, parse};
use crate::decode::{Parts, ReplyState};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// The state of one reply.
#[derive(Debug)]
pub struct Reply {
    parts: Parts<Key>,
    /// The index of the last readable reasoning item, and of the text within it.
    thinking: Option<(u64, u64)>,
}

/// An item, or a part of a message's content.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    Text(u64, u64),
    Thinking(u64),
    Call(u64),
}

impl ReplyState for Reply {
    fn new(id_seed: String) -> Self {
        Self { parts: Parts::new(id_seed), thinking: None }
    }

    fn has_ended(&self) -> bool {
        self.parts.ended()
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() || data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        let event: Event<'_> = parse(data)?;
        let at = event.output_index.unwrap_or_default();
        let part = event.content_index.unwrap_or_default();
        match &*event.kind {
            "error" => return Err(failure(event.error.as_ref(), &event.code, &event.message)),
            "response.created" | "response.in_progress" | "response.queued" => {
                let model = event.response.as_ref().and_then(|response| response.model.as_deref());
                self.parts.start(model, events);
            }
            "response.output_item.added" => self.item_added(at, event.item.unwrap_or_default(), events)?,
            "response.output_text.delta" | "response.refusal.delta" => {
                self.write(Key::Text(at, part), &event.delta, events)?;
            }
            "response.output_text.done" | "response.refusal.done" => self.parts.end_part(&Key::Text(at, part), events),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.think(at, event.summary_index.unwrap_or(part), &event.delta, events)?;
            }
            "response.function_call_arguments.delta" => self.parts.add(&Key::Call(at), &event.delta, events),
            "response.output_item.done" => self.item_done(at, event.item.unwrap_or_default(), events)?,
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.end(event.response.unwrap_or_default(), events)?;
            }
            // Redundant ends, the vendor's own tools, and future events.
            _ => {}
        }
        Ok(())
    }
}

impl Reply {
    fn item_added(
        &mut self,
        at: u64,
        item: OutputItem<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if item.kind == "function_call" && !self.parts.is_open(&Key::Call(at)) {
            let id = if item.call_id.is_empty() { item.id } else { item.call_id };
            let kind = PartKind::ToolCall { id: id.into_owned(), name: item.name.into_owned() };
            self.parts.begin(Key::Call(at), kind, events)?;
        }
        Ok(())
    }

    fn write(&mut self, key: Key, text: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        if !self.parts.is_open(&key) {
            self.parts.begin(key, PartKind::Text, events)?;
        }
        self.parts.add(&key, text, events);
        Ok(())
    }

    /// Appends readable thinking. An item may have several texts, which a blank line separates.
    fn think(&mut self, at: u64, text_at: u64, text: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let key = Key::Thinking(at);
        if !self.parts.is_open(&key) {
            self.parts.begin(key, PartKind::Thinking, events)?;
        }
        if self.thinking.is_some_and(|(item, last)| item == at && last != text_at) {
            self.parts.add(&key, "\n\n", events);
        }
        self.thinking = Some((at, text_at));
        self.parts.add(&key, text, events);
        Ok(())
    }

    /// Handles a complete item. Servers that do not stream its content include all of it here.
    fn item_done(&mut self, at: u64, item: OutputItem<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match &*item.kind {
            "reasoning" => self.end_thinking(at, item, events),
            "message" => {
                for (part, content) in item.content.iter().enumerate() {
                    let key = Key::Text(at, part as u64);
                    if self.parts.has_begun(&key) {
                        self.parts.end_part(&key, events);
                    } else {
                        self.write(key, &content.text, events)?;
                        self.write(key, &content.refusal, events)?;
                        self.parts.end_part(&key, events);
                    }
                }
                Ok(())
            }
            "function_call" => {
                let key = Key::Call(at);
                let arguments = item.arguments.clone().into_owned();
                if !self.parts.has_begun(&key) {
                    self.item_added(at, item, events)?;
                }
                self.parts.set_initial(&key, arguments);
                self.parts.end_part(&key, events);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends a reasoning item and stores its encrypted form as a signature.
    fn end_thinking(
        &mut self,
        at: u64,
        item: OutputItem<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let key = Key::Thinking(at);
        if !self.parts.has_begun(&key) {
            for (text_at, text) in item.summary.iter().chain(&item.content).enumerate() {
                self.think(at, text_at as u64, &text.text, events)?;
            }
        }
        let encrypted = EncryptedItem { id: item.id, encrypted_content: item.encrypted_content.unwrap_or_default() };
        if !encrypted.encrypted_content.is_empty() {
            if !self.parts.has_begun(&key) {
                self.parts.begin(key, PartKind::RedactedThinking, events)?;
            }
            let signature = serde_json::to_string(&encrypted)
                .map_err(|error| ProviderError::Malformed { message: error.to_string() })?;
            self.parts.sign(&key, &signature)?;
        }
        self.parts.end_part(&key, events);
        Ok(())
    }

    fn end(&mut self, response: Response<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.parts.start(response.model.as_deref(), events);
        if let Some(usage) = response.usage {
            self.parts.usage(usage.into(), events);
        }
        let why = response.incomplete_details.and_then(|details| details.reason).unwrap_or_default();
        let stop_reason = match (&*response.status, &*why) {
            ("failed", _) => return Err(failure(response.error.as_ref(), "", "")),
            ("cancelled", _) => return Err(api("the vendor cancelled the reply")),
            ("incomplete", "content_filter") => return Err(api("the vendor's content filter cut off the reply")),
            ("incomplete", _) => StopReason::Length,
            _ => StopReason::Stop,
        };
        self.parts.end(stop_reason, events);
        Ok(())
    }
}

/// Classifies an error event. Some servers nest the error in an object, some put it beside the event's type.
fn failure(error: Option<&Value>, code: &str, message: &str) -> ProviderError {
    match error.filter(|error| !error.is_null()) {
        Some(error) => classify_object(error),
        None => classify_object(&serde_json::json!({ "code": code, "message": message })),
    }
}

fn api(message: &str) -> ProviderError {
    ProviderError::Api { status: None, message: message.to_owned() }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    output_index: Option<u64>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    #[serde(borrow, default, deserialize_with = "json::text")]
    delta: Cow<'a, str>,
    #[serde(borrow)]
    item: Option<OutputItem<'a>>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    error: Option<Value>,
    #[serde(borrow, default, deserialize_with = "json::text")]
    code: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "json::text")]
    message: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputItem<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    call_id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    name: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    arguments: Cow<'a, str>,
    #[serde(borrow)]
    encrypted_content: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "json::or_default")]
    summary: Vec<TextPart<'a>>,
    #[serde(borrow, deserialize_with = "json::or_default")]
    content: Vec<TextPart<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TextPart<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    text: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    refusal: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "json::text")]
    status: Cow<'a, str>,
    usage: Option<WireUsage>,
    #[serde(borrow)]
    incomplete_details: Option<IncompleteDetails<'a>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct IncompleteDetails<'a> {
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Deserialize)]
struct WireUsage {
    input_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    /// The input tokens include the cached ones.
    fn from(wire: WireUsage) -> Self {
        let input = wire.input_tokens.unwrap_or_default();
        let details = wire.input_tokens_details.unwrap_or_default();
        let cache_read = details.cached_tokens.unwrap_or_default().min(input);
        let cache_write = details.cache_write_tokens.unwrap_or_default().min(input - cache_read);
        let beyond_input = wire.total_tokens.unwrap_or_default().saturating_sub(input);
        Self {
            input: input - cache_read - cache_write,
            output: wire.output_tokens.unwrap_or_default().max(beyond_input),
            cache_read,
            cache_write,
        }
    }
}
