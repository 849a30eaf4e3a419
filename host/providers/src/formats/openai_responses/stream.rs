//! The reply decoder.

use super::encrypted::EncryptedItem;
use super::items::{Items, Kind, Name};
use crate::decode::json::{self, parse};
use crate::decode::{Parts, ReplyState, began_again};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// The state of one reply.
#[derive(Debug)]
pub struct Reply {
    parts: Parts<Key>,
    items: Items,
    /// The vendor's ID of the reply.
    id: String,
    /// The last readable reasoning item, and the index of the text within it.
    thinking: Option<(usize, u64)>,
}

/// An item, or a part of a message's content.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    Text(usize, u64),
    Thinking(usize),
    Call(usize),
}

impl ReplyState for Reply {
    fn new(id_seed: String) -> Self {
        Self { parts: Parts::new(id_seed), items: Items::default(), id: String::new(), thinking: None }
    }

    fn has_ended(&self) -> bool {
        self.parts.ended()
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.parts.ended() || data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        let event: Event<'_> = parse(data)?;
        let name = Name { at: event.output_index, id: &event.item_id, call_id: "" };
        let part = event.content_index.unwrap_or_default();
        match &*event.kind {
            "error" => return Err(failure(event.error.as_ref(), &event.code, &event.message)),
            "response.created" | "response.in_progress" | "response.queued" => {
                self.begin(&event.response.unwrap_or_default(), events)?;
            }
            "response.output_item.added" => {
                self.item_added(event.output_index, &event.item.unwrap_or_default(), events)?;
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                let item = self.items.get_or_begin(Kind::Message, name)?;
                self.items.grow(item, event.delta.len());
                self.write(Key::Text(item, part), &event.delta, events)?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let item = self.items.get_or_begin(Kind::Reasoning, name)?;
                self.items.grow(item, event.delta.len());
                self.think(item, event.summary_index.unwrap_or(part), &event.delta, events)?;
            }
            "response.function_call_arguments.delta" => {
                let item = self.items.get_or_begin(Kind::Call, name)?;
                self.parts.add(&Key::Call(item), &event.delta, events);
            }
            "response.output_item.done" => {
                self.item_done(event.output_index, event.item.unwrap_or_default(), events)?
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.end(&event.kind, event.response.unwrap_or_default(), events)?;
            }
            // Redundant ends, the vendor's own tools, and future events.
            _ => {}
        }
        Ok(())
    }
}

impl Reply {
    fn begin(&mut self, response: &Response<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match &*response.id {
            "" => {}
            id if self.id.is_empty() => id.clone_into(&mut self.id),
            id if self.id != id => return Err(began_again()),
            _ => {}
        }
        self.parts.start(Some(&response.model), events);
        Ok(())
    }

    fn item_added(
        &mut self,
        at: Option<u64>,
        item: &OutputItem<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Some(kind) = item.kind() else { return Ok(()) };
        let key = self.items.get_or_begin(kind, item.name(at))?;
        if kind == Kind::Call {
            self.begin_call(Key::Call(key), item, events)?;
        }
        Ok(())
    }

    fn begin_call(
        &mut self,
        key: Key,
        item: &OutputItem<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.parts.has_begun(&key) {
            return Ok(());
        }
        let id = if item.call_id.is_empty() { &item.id } else { &item.call_id };
        let kind = PartKind::ToolCall { id: id.clone().into_owned(), name: item.name.clone().into_owned() };
        self.parts.begin(key, kind, events)
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
    fn think(
        &mut self,
        item: usize,
        text_at: u64,
        text: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let key = Key::Thinking(item);
        if !self.parts.is_open(&key) {
            self.parts.begin(key, PartKind::Thinking, events)?;
        }
        if self.thinking.is_some_and(|(known, last)| known == item && last != text_at) {
            self.parts.add(&key, "\n\n", events);
        }
        self.thinking = Some((item, text_at));
        self.parts.add(&key, text, events);
        Ok(())
    }

    /// Handles a complete item. Servers that do not stream its content include all of it here; of others, nothing is
    /// written a second time.
    fn item_done(
        &mut self,
        at: Option<u64>,
        item: OutputItem<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Some(kind) = item.kind() else { return Ok(()) };
        let key = self.items.end(kind, item.name(at), item.size())?;
        match kind {
            Kind::Reasoning => self.end_thinking(key, item, events),
            Kind::Message => {
                let is_new = !self.items.has_streamed(key);
                for (part, content) in item.content.iter().enumerate().filter(|_| is_new) {
                    self.items.grow(key, content.size());
                    self.write(Key::Text(key, part as u64), &content.text, events)?;
                    self.write(Key::Text(key, part as u64), &content.refusal, events)?;
                }
                self.parts.end_parts(|part| matches!(part, Key::Text(item, _) if *item == key), events);
                Ok(())
            }
            Kind::Call => {
                let key = Key::Call(key);
                self.begin_call(key, &item, events)?;
                self.parts.set_initial(&key, item.arguments.into_owned());
                self.parts.end_part(&key, events);
                Ok(())
            }
        }
    }

    /// Ends a reasoning item and stores its encrypted form as a signature.
    fn end_thinking(
        &mut self,
        item_key: usize,
        item: OutputItem<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let key = Key::Thinking(item_key);
        if !self.parts.has_begun(&key) {
            for (text_at, text) in item.summary.iter().chain(&item.content).enumerate() {
                self.think(item_key, text_at as u64, &text.text, events)?;
            }
        }
        if !item.encrypted_content.is_empty() {
            if !self.parts.has_begun(&key) {
                self.parts.begin(key, PartKind::RedactedThinking, events)?;
            }
            let encrypted = EncryptedItem { id: item.id, encrypted_content: item.encrypted_content };
            let signature = serde_json::to_string(&encrypted)
                .map_err(|error| ProviderError::Malformed { message: error.to_string() })?;
            self.parts.sign(&key, &signature)?;
        }
        self.parts.end_part(&key, events);
        Ok(())
    }

    fn end(&mut self, kind: &str, response: Response<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.parts.start(Some(&response.model), events);
        if self.parts.is_empty() {
            // Some servers stream nothing but the end.
            for (at, item) in response.output.into_iter().enumerate() {
                self.item_done(Some(at as u64), item, events)?;
            }
        }
        if let Some(usage) = response.usage {
            self.parts.usage(usage.into(), events);
        }
        let status = match &*response.status {
            "" => kind.trim_start_matches("response."),
            status => status,
        };
        let why = response.incomplete_details.unwrap_or_default().reason;
        let stop_reason = match (status, &*why) {
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow, rename = "type", deserialize_with = "json::text")]
    kind: Cow<'a, str>,
    #[serde(deserialize_with = "json::count")]
    output_index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::text")]
    item_id: Cow<'a, str>,
    #[serde(deserialize_with = "json::count")]
    content_index: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    summary_index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::text")]
    delta: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    item: Option<OutputItem<'a>>,
    #[serde(borrow, deserialize_with = "json::object")]
    response: Option<Response<'a>>,
    error: Option<Value>,
    #[serde(borrow, deserialize_with = "json::text")]
    code: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    message: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputItem<'a> {
    #[serde(borrow, rename = "type", deserialize_with = "json::text")]
    kind: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    call_id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    name: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    arguments: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    encrypted_content: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::objects")]
    summary: Vec<TextPart<'a>>,
    #[serde(borrow, deserialize_with = "json::objects")]
    content: Vec<TextPart<'a>>,
}

impl OutputItem<'_> {
    /// `None` for the vendor's own tools and future items.
    fn kind(&self) -> Option<Kind> {
        match &*self.kind {
            "message" => Some(Kind::Message),
            "reasoning" => Some(Kind::Reasoning),
            "function_call" => Some(Kind::Call),
            _ => None,
        }
    }

    fn name(&self, at: Option<u64>) -> Name<'_> {
        Name { at, id: &self.id, call_id: &self.call_id }
    }

    /// The size of its text in bytes.
    fn size(&self) -> usize {
        self.summary.iter().chain(&self.content).map(TextPart::size).sum()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TextPart<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    text: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    refusal: Cow<'a, str>,
}

impl TextPart<'_> {
    fn size(&self) -> usize {
        self.text.len() + self.refusal.len()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    model: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    status: Cow<'a, str>,
    #[serde(deserialize_with = "json::object")]
    usage: Option<WireUsage>,
    #[serde(borrow, deserialize_with = "json::object")]
    incomplete_details: Option<IncompleteDetails<'a>>,
    error: Option<Value>,
    #[serde(borrow, deserialize_with = "json::objects")]
    output: Vec<OutputItem<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IncompleteDetails<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    reason: Cow<'a, str>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    #[serde(deserialize_with = "json::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::object")]
    input_tokens_details: Option<InputDetails>,
    #[serde(deserialize_with = "json::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    total_tokens: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    #[serde(deserialize_with = "json::count")]
    cached_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
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
