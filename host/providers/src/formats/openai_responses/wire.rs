//! The JSON of the events.

use super::items::{ItemKind, ItemName};
use crate::decode::json::{self, Arguments};
use pinion_protocol::Usage;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesEvent<'a> {
    #[serde(borrow, rename = "type", deserialize_with = "json::text")]
    pub(super) kind: Cow<'a, str>,
    /// `response` for a reply that was not streamed.
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) object: Cow<'a, str>,
    #[serde(deserialize_with = "json::count")]
    pub(super) output_index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) item_id: Cow<'a, str>,
    #[serde(deserialize_with = "json::count")]
    pub(super) content_index: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    pub(super) summary_index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) delta: Cow<'a, str>,
    /// The complete text that an event repeats, like the two fields after it.
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) text: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) refusal: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) arguments: Arguments<'a>,
    #[serde(borrow, deserialize_with = "json::object")]
    pub(super) part: Option<TextPart<'a>>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "json::object")]
    pub(super) response: Option<Response<'a>>,
    #[serde(deserialize_with = "json::error")]
    pub(super) error: Option<Value>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) code: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) message: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputItem<'a> {
    #[serde(borrow, rename = "type", deserialize_with = "json::text")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) call_id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) arguments: Arguments<'a>,
    /// Purpose of a message: `commentary` or `final_answer`.
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) phase: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::objects")]
    pub(super) summary: Vec<TextPart<'a>>,
    #[serde(borrow, deserialize_with = "json::objects")]
    pub(super) content: Vec<TextPart<'a>>,
}

impl<'a> OutputItem<'a> {
    /// Reads an item; any other value counts as an unknown one.
    pub(super) fn read(raw: &'a RawValue) -> Self {
        let object = Some(raw.get()).filter(|raw| raw.starts_with('{'));
        object.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
    }

    /// `None` for the vendor's own tools and future items.
    pub(super) fn kind(&self) -> Option<ItemKind> {
        match &*self.kind {
            "message" => Some(ItemKind::Message),
            "reasoning" => Some(ItemKind::Reasoning),
            "function_call" => Some(ItemKind::Call),
            _ => None,
        }
    }

    pub(super) fn name(&self, at: Option<u64>) -> ItemName<'_> {
        ItemName { at, id: &self.id, call_id: &self.call_id }
    }

    /// The size of its text in bytes.
    pub(super) fn size(&self) -> usize {
        let is_message = self.kind == "message";
        let content = self.content.iter().filter(|part| !(is_message && part.is_thought()));
        self.summary.iter().chain(content).map(TextPart::size).sum::<usize>() + self.arguments.0.len()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TextPart<'a> {
    #[serde(borrow, rename = "type", deserialize_with = "json::text")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) text: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) refusal: Cow<'a, str>,
}

impl<'a> TextPart<'a> {
    fn size(&self) -> usize {
        self.text.len() + self.refusal.len()
    }

    /// Returns whether it is thinking, which some servers put among the parts of an answer.
    pub(super) fn is_thought(&self) -> bool {
        matches!(&*self.kind, "reasoning_text" | "summary_text" | "reasoning" | "thinking")
    }

    /// The text, or the text of a refusal.
    pub(super) fn into_text(self) -> Cow<'a, str> {
        if self.text.is_empty() { self.refusal } else { self.text }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) model: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) status: Cow<'a, str>,
    #[serde(deserialize_with = "json::object")]
    pub(super) usage: Option<ResponsesUsage>,
    #[serde(borrow, deserialize_with = "json::object")]
    pub(super) incomplete_details: Option<IncompleteDetails<'a>>,
    #[serde(deserialize_with = "json::error")]
    pub(super) error: Option<Value>,
    #[serde(borrow, deserialize_with = "raw_list")]
    pub(super) output: Vec<&'a RawValue>,
}

impl Response<'_> {
    /// Returns whether the status ends a reply.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.status, "completed" | "incomplete" | "failed" | "cancelled")
    }
}

fn raw_list<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'a RawValue>, D::Error> {
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) reason: Cow<'a, str>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesUsage {
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

impl From<ResponsesUsage> for Usage {
    /// The input tokens include the cached ones.
    fn from(wire: ResponsesUsage) -> Self {
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
