//! Thinking as it came, stored between the reply that contained it and the requests that return it.

use crate::formats::conversation::has_text;
use pinion_protocol::{AssistantMessage, Content, ProviderError, Thinking};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// One element of `reasoning_details`: readable, summarized or encrypted thinking with its signature.
pub(super) type Detail = Map<String, Value>;

/// A field whose name depends on the vendor.
pub(super) type Field = (Cow<'static, str>, Value);

/// The limit on the size of all details, in bytes.
const MAX_SIZE: usize = 16 << 20;
/// The limit on the number of details, each of which is compared with those before it.
const MAX_DETAILS: usize = 1024;
/// The fields that servers use for the readable text. A stored session may name any other, such as `role`.
const TEXT_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The form of a reply's thinking, stored as the signature of its part.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Reasoning {
    /// The field of the readable text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<Cow<'static, str>>,
    #[serde(default, rename = "reasoning_details", skip_serializing_if = "Vec::is_empty")]
    pub(super) details: Vec<Detail>,
    #[serde(skip)]
    size: usize,
}

impl Reasoning {
    pub(super) fn of_field(field: &'static str) -> Self {
        Self { field: Some(Cow::Borrowed(field)), ..Self::default() }
    }

    /// Reads the form from a signature; the default where none is stored, as in older sessions.
    pub(super) fn read(thinking: &Thinking) -> Self {
        let signature = thinking.signature.as_deref().unwrap_or_default();
        let stored: Self = serde_json::from_str(signature).unwrap_or_default();
        Self { field: stored.field.filter(|field| TEXT_FIELDS.contains(&&**field)), ..stored }
    }

    pub(super) fn to_signature(&self) -> Result<String, ProviderError> {
        serde_json::to_string(self).map_err(|error| ProviderError::Malformed { message: error.to_string() })
    }

    /// Adds a streamed detail, which may continue an earlier one.
    pub(super) fn add(&mut self, detail: Detail) -> Result<(), ProviderError> {
        self.size += size_of_fields(&detail);
        if self.size > MAX_SIZE {
            return Err(ProviderError::Malformed { message: "the reasoning details are too large".to_owned() });
        }
        let last = self.details.len().saturating_sub(1);
        let continued = (0..self.details.len()).rfind(|at| continues(&detail, &self.details[*at], *at == last));
        match continued {
            Some(at) => merge(&mut self.details[at], detail),
            None if self.details.len() < MAX_DETAILS => self.details.push(detail),
            None => {
                let message = format!("the reply has more than {MAX_DETAILS} reasoning details");
                return Err(ProviderError::Malformed { message });
            }
        }
        Ok(())
    }
}

/// Returns the approximate size of an object in memory, in bytes.
fn size_of_fields(fields: &Detail) -> usize {
    16 + fields.iter().map(|(name, value)| name.len() + size_of_value(value)).sum::<usize>()
}

fn size_of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => 16 + values.iter().map(size_of_value).sum::<usize>(),
        Value::Object(fields) => size_of_fields(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
    }
}

/// Returns a field, unless it is missing or null.
fn of<'a>(detail: &'a Detail, field: &str) -> Option<&'a Value> {
    detail.get(field).filter(|value| !value.is_null())
}

/// Returns whether `detail` continues `known`: they share index, type and ID. Without an index, readable text continues
/// the text directly before it.
fn continues(detail: &Detail, known: &Detail, is_last: bool) -> bool {
    let same_id = match (of(detail, "id"), of(known, "id")) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let kind = of(detail, "type");
    let same_place = match (of(detail, "index"), of(known, "index")) {
        (Some(a), Some(b)) => a == b,
        (None, None) => is_last && kind.is_none_or(|kind| kind != "reasoning.encrypted"),
        _ => false,
    };
    same_place && same_id && kind == of(known, "type")
}

/// Appends texts and takes over what is new.
fn merge(known: &mut Detail, detail: Detail) {
    for (name, value) in detail {
        let is_empty = value.is_null() || value.as_str() == Some("");
        match (known.get_mut(&name), &value) {
            (Some(Value::String(text)), Value::String(more)) if matches!(&*name, "text" | "summary") => {
                text.push_str(more);
            }
            // Encrypted data may come complete a second time.
            (Some(Value::String(data)), Value::String(more)) if name == "data" && data != more => data.push_str(more),
            (Some(_), _) if is_empty => {}
            _ => {
                known.insert(name, value);
            }
        }
    }
}

/// Returns the readable text of a detail, for servers that send it nowhere else.
pub(super) fn readable(detail: &Detail) -> &str {
    ["text", "summary"].iter().find_map(|field| detail.get(*field)?.as_str()).unwrap_or_default()
}

/// Returns the fields with a reply's thinking, under the names under which they came.
pub(super) fn as_it_came(reply: &AssistantMessage, usual_field: &'static str) -> Vec<Field> {
    let parts = reply.content.iter().filter_map(|part| match part {
        Content::Thinking(thinking) => Some(Reasoning::read(thinking)),
        _ => None,
    });
    let parts: Vec<Reasoning> = parts.collect();
    let field = parts.iter().find_map(|part| part.field.clone()).unwrap_or(Cow::Borrowed(usual_field));
    let details: Vec<Value> = parts.into_iter().flat_map(|part| part.details).map(Value::Object).collect();
    let text = thought(reply).map(|thought| (field, Value::String(thought)));
    let details = (!details.is_empty()).then(|| (Cow::Borrowed("reasoning_details"), Value::Array(details)));
    text.into_iter().chain(details).collect()
}

/// Returns the readable thinking of a reply.
pub(super) fn thought(reply: &AssistantMessage) -> Option<String> {
    let thoughts = reply.content.iter().filter_map(|part| match part {
        Content::Thinking(thinking) => Some(thinking.text.as_str()),
        _ => None,
    });
    let text: String = thoughts.collect();
    has_text(&text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(details: &[Value]) -> Value {
        let mut reasoning = Reasoning::default();
        for detail in details {
            reasoning.add(detail.as_object().unwrap().clone()).unwrap();
        }
        json!(reasoning.details)
    }

    #[test]
    fn details_with_the_same_index_are_merged() {
        let text = |text: &str| json!({ "type": "reasoning.text", "text": text, "format": "f", "index": 0 });
        let signed = json!({ "type": "reasoning.text", "signature": "SIG", "format": "f", "index": 0 });
        let start = json!({ "type": "reasoning.text", "text": "", "signature": "", "format": "f", "index": 0 });
        let encrypted = json!({ "type": "reasoning.encrypted", "data": "E", "id": "rs", "format": "f", "index": 1 });
        let all = merged(&[start, text("ha"), encrypted.clone(), text("ha"), signed]);
        let complete =
            json!({ "type": "reasoning.text", "text": "haha", "signature": "SIG", "format": "f", "index": 0 });
        assert_eq!(all, json!([complete, encrypted]));
    }

    #[test]
    fn different_types_and_ids_with_the_same_index_are_kept_apart() {
        let encrypted = |id: &str| json!({ "type": "reasoning.encrypted", "data": "E", "id": id, "index": 0 });
        let summary = json!({ "type": "reasoning.summary", "summary": "S", "index": 0 });
        let all = [summary, encrypted("a"), encrypted("b")];
        assert_eq!(merged(&all), json!(all));
        assert_eq!(merged(&[encrypted("a"), encrypted("a")]), json!([encrypted("a")]));
    }

    #[test]
    fn details_without_an_index_continue_only_the_text_before_them() {
        let text = |text: &str| json!({ "type": "reasoning.text", "text": text });
        let encrypted = json!({ "type": "reasoning.encrypted", "data": "E" });
        let all = merged(&[text("a"), text("b"), encrypted.clone(), encrypted.clone(), text("c")]);
        assert_eq!(all, json!([text("ab"), encrypted, encrypted, text("c")]));
    }

    #[test]
    fn endless_details_are_an_error() {
        let mut reasoning = Reasoning::default();
        let detail = json!({ "type": "reasoning.text", "text": "x".repeat(1 << 20), "index": 0 });
        let detail = detail.as_object().unwrap();
        assert!((0..17).any(|_| reasoning.add(detail.clone()).is_err()));
    }

    #[test]
    fn endless_empty_or_nested_details_are_an_error() {
        let number_until_error = |detail: Value| {
            let (mut reasoning, detail) = (Reasoning::default(), detail.as_object().unwrap().clone());
            (0..100_000).position(|_| reasoning.add(detail.clone()).is_err())
        };
        assert_eq!(number_until_error(json!({ "type": "reasoning.encrypted" })), Some(MAX_DETAILS));
        let nested = json!({ "index": 0, "more": [[{ "deep": "x".repeat(1 << 20) }]] });
        assert_eq!(number_until_error(nested), Some(15));
    }

    #[test]
    fn stored_field_cannot_be_another_part_of_the_message() {
        let read = |field: &str| {
            let signature = Some(json!({ "field": field }).to_string());
            Reasoning::read(&Thinking { signature, ..Thinking::default() }).field
        };
        assert_eq!(read("reasoning").as_deref(), Some("reasoning"));
        assert_eq!((read("role"), read("content")), (None, None));
    }
}
