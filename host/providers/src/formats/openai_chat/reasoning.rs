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

/// The limit on the size of all that is stored, in bytes.
const MAX_SIZE: usize = 16 << 20;
/// The limit on the number of details; each is compared with those before it.
const MAX_DETAILS: usize = 1024;
/// The fields that servers use for the readable text. A stored session may name any other, such as `role`.
const TEXT_FIELDS: [&str; 4] = ["reasoning_content", "reasoning", "reasoning_text", "thinking"];

/// The form of a reply's thinking, stored as the signature of its part.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ReasoningForm {
    /// The field of the readable text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<Cow<'static, str>>,
    /// The part of the message's content, where the thinking was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<Detail>,
    #[serde(rename = "reasoning_details", skip_serializing_if = "Vec::is_empty")]
    pub(super) details: Vec<Detail>,
    #[serde(rename = "thinking_blocks", skip_serializing_if = "Vec::is_empty")]
    pub(super) blocks: Vec<Detail>,
    /// Further fields of the message that only the server understands.
    #[serde(skip_serializing_if = "Map::is_empty")]
    others: Detail,
    #[serde(skip)]
    size: usize,
}

impl ReasoningForm {
    pub(super) fn of_field(field: &'static str) -> Self {
        Self { field: Some(Cow::Borrowed(field)), ..Self::default() }
    }

    /// Reads the form from a signature; the default where none is stored.
    pub(super) fn read(thinking: &Thinking) -> Self {
        let signature = thinking.signature.as_deref().unwrap_or_default();
        let stored: Self = serde_json::from_str(signature).unwrap_or_default();
        let others = stored.others.into_iter().filter(|(name, _)| is_opaque(name)).collect();
        Self { field: stored.field.filter(|field| TEXT_FIELDS.contains(&&**field)), others, ..stored }
    }

    pub(super) fn to_signature(&self) -> Result<String, ProviderError> {
        serde_json::to_string(self).map_err(|error| ProviderError::Malformed { message: error.to_string() })
    }

    /// Returns whether there is more to return than readable text.
    pub(super) fn has_more_than_text(&self) -> bool {
        !self.details.is_empty() || !self.blocks.is_empty() || !self.others.is_empty()
    }

    /// Counts the stored bytes.
    pub(super) fn grow(&mut self, fields: &Detail) -> Result<(), ProviderError> {
        if !fields.is_empty() {
            self.size += size_of_fields(fields);
        }
        match self.size > MAX_SIZE {
            true => Err(ProviderError::Malformed { message: "the reasoning details are too large".to_owned() }),
            false => Ok(()),
        }
    }

    /// Adds a streamed element of `reasoning_details`, which may continue an earlier one.
    pub(super) fn add_detail(&mut self, detail: Detail) -> Result<(), ProviderError> {
        self.grow(&detail)?;
        add(&mut self.details, detail)
    }

    /// Adds a streamed element of `thinking_blocks`, which may continue an earlier one.
    pub(super) fn add_block(&mut self, block: Detail) -> Result<(), ProviderError> {
        self.grow(&block)?;
        add(&mut self.blocks, block)
    }

    /// Adds the fields of the message that the server wants back, and skips others.
    pub(super) fn add_others(&mut self, mut fields: Detail) -> Result<(), ProviderError> {
        fields.retain(|name, value| is_opaque(name) && !value.is_null());
        self.grow(&fields)?;
        take_over(&mut self.others, fields);
        Ok(())
    }

    /// Adds a streamed part of the content, which continues the one before it.
    pub(super) fn add_part(&mut self, part: Detail) -> Result<(), ProviderError> {
        self.grow(&part)?;
        match &mut self.part {
            Some(known) => merge_part(known, part),
            None => self.part = Some(part),
        }
        Ok(())
    }
}

/// Returns whether a field of a message means nothing except to the server, which expects it back.
fn is_opaque(name: &str) -> bool {
    let has = |part| name.contains(part);
    has("signature")
        || has("opaque")
        || has("encrypted")
        || matches!(name, "extra_content" | "provider_specific_fields")
}

/// Takes over fields that have a value, and the fields of the objects among them.
pub(super) fn take_over(known: &mut Detail, fields: Detail) {
    for (name, value) in fields {
        match (known.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::Object(known)), Value::Object(more)) => take_over(known, more),
            (Some(Value::Object(_)), _) => {}
            (_, value) => {
                known.insert(name, value);
            }
        }
    }
}

fn add(list: &mut Vec<Detail>, detail: Detail) -> Result<(), ProviderError> {
    let last = list.len().saturating_sub(1);
    let continued = (0..list.len()).rfind(|at| continues(&detail, &list[*at], *at == last));
    match continued {
        Some(at) => merge(&mut list[at], detail),
        None if list.len() < MAX_DETAILS => list.push(detail),
        None => {
            let message = format!("the reply has more than {MAX_DETAILS} reasoning details");
            return Err(ProviderError::Malformed { message });
        }
    }
    Ok(())
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
fn find_field<'a>(detail: &'a Detail, field: &str) -> Option<&'a Value> {
    detail.get(field).filter(|value| !value.is_null())
}

/// Returns whether `detail` continues `known`: they share index, type and ID. Without an index, readable text continues
/// the text directly before it, up to its signature.
fn continues(detail: &Detail, known: &Detail, is_last: bool) -> bool {
    let same_id = match (find_field(detail, "id"), find_field(known, "id")) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let kind = find_field(detail, "type");
    let same_place = match (find_field(detail, "index"), find_field(known, "index")) {
        (Some(a), Some(b)) => a == b,
        (None, None) => {
            let is_readable = kind
                .and_then(Value::as_str)
                .is_none_or(|kind| !kind.contains("encrypted") && !kind.contains("redacted"));
            let is_signed = find_field(known, "signature").is_some_and(|signature| signature != "");
            is_last && is_readable && !is_signed
        }
        _ => false,
    };
    same_place && same_id && kind == find_field(known, "type")
}

/// Appends texts and takes over new fields.
fn merge(known: &mut Detail, detail: Detail) {
    for (name, value) in detail {
        let is_empty = value.is_null() || value.as_str() == Some("");
        match (known.get_mut(&name), &value) {
            (Some(Value::String(text)), Value::String(more)) if matches!(&*name, "text" | "summary" | "thinking") => {
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

/// Appends the texts of a part, and those in the lists within it.
fn merge_part(known: &mut Detail, part: Detail) {
    for (name, value) in part {
        match (known.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => more.into_iter().for_each(|item| append(list, item)),
            (Some(Value::String(text)), Value::String(more)) if name != "type" => {
                // A signature may come complete a second time.
                if !name.contains("signature") || *text != more {
                    text.push_str(&more);
                }
            }
            (Some(Value::String(_) | Value::Array(_) | Value::Object(_)), _) | (Some(_), Value::Null) => {}
            (_, value) => {
                known.insert(name, value);
            }
        }
    }
}

/// Appends an element, or the text of one that has the same type as the last one.
fn append(list: &mut Vec<Value>, item: Value) {
    match (list.last_mut(), item) {
        (Some(Value::Object(last)), Value::Object(item)) if last.get("type") == item.get("type") => {
            merge_part(last, item);
        }
        (_, item) => list.push(item),
    }
}

/// Returns the readable text of a detail, for servers that send it nowhere else.
pub(super) fn readable(detail: &Detail) -> &str {
    ["text", "summary", "thinking"].iter().find_map(|field| detail.get(*field)?.as_str()).unwrap_or_default()
}

/// Returns the fields with a reply's thinking as they came. `field` is the name for readable text that came without one.
pub(super) fn as_it_came(reply: &AssistantMessage, field: &'static str) -> Vec<Field> {
    let thoughts: Vec<(&Thinking, ReasoningForm)> =
        thoughts(reply).map(|part| (part, ReasoningForm::read(part))).collect();
    let in_fields = || thoughts.iter().filter(|(_, form)| form.part.is_none());
    let field = in_fields().find_map(|(_, form)| form.field.clone()).unwrap_or(Cow::Borrowed(field));
    let text: String = in_fields().map(|(part, _)| part.text.as_str()).collect();
    let text = has_text(&text).then_some((field, Value::String(text)));
    text.into_iter().chain(opaque_fields(thoughts.into_iter().map(|(_, form)| form))).collect()
}

/// Returns the fields of a message that only the server understands, as they came.
pub(super) fn opaque(reply: &AssistantMessage) -> impl Iterator<Item = Field> {
    opaque_fields(thoughts(reply).map(ReasoningForm::read))
}

/// Returns thinking as the part of the content that it was.
pub(super) fn content_part(thinking: &Thinking) -> Option<Value> {
    let is_part = thinking.signature.as_ref().is_some_and(|signature| signature.contains("\"part\":"));
    is_part.then(|| ReasoningForm::read(thinking).part.map(Value::Object)).flatten()
}

fn opaque_fields(forms: impl Iterator<Item = ReasoningForm>) -> impl Iterator<Item = Field> {
    let (mut details, mut blocks, mut others) = (Vec::new(), Vec::new(), Detail::new());
    for form in forms {
        details.extend(form.details.into_iter().map(Value::Object));
        blocks.extend(form.blocks.into_iter().map(Value::Object));
        others.extend(form.others);
    }
    let lists = [("reasoning_details", details), ("thinking_blocks", blocks)].into_iter();
    let lists =
        lists.filter(|(_, list)| !list.is_empty()).map(|(name, list)| (Cow::Borrowed(name), Value::Array(list)));
    lists.chain(others.into_iter().map(|(name, value)| (Cow::Owned(name), value)))
}

/// Returns the readable thinking of a reply.
pub(super) fn thought(reply: &AssistantMessage) -> Option<String> {
    let text: String = thoughts(reply).map(|part| part.text.as_str()).collect();
    has_text(&text).then_some(text)
}

fn thoughts(reply: &AssistantMessage) -> impl Iterator<Item = &Thinking> {
    reply.content.iter().filter_map(|part| match part {
        Content::Thinking(thinking) => Some(thinking),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(details: &[Value]) -> Value {
        let mut reasoning = ReasoningForm::default();
        for detail in details {
            reasoning.add_detail(detail.as_object().unwrap().clone()).unwrap();
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
        let mut reasoning = ReasoningForm::default();
        let detail = json!({ "type": "reasoning.text", "text": "x".repeat(1 << 20), "index": 0 });
        let detail = detail.as_object().unwrap();
        assert!((0..17).any(|_| reasoning.add_detail(detail.clone()).is_err()));
    }

    #[test]
    fn endless_empty_or_nested_details_are_an_error() {
        let number_until_error = |detail: Value| {
            let (mut reasoning, detail) = (ReasoningForm::default(), detail.as_object().unwrap().clone());
            (0..100_000).position(|_| reasoning.add_detail(detail.clone()).is_err())
        };
        assert_eq!(number_until_error(json!({ "type": "reasoning.encrypted" })), Some(MAX_DETAILS));
        let nested = json!({ "index": 0, "more": [[{ "deep": "x".repeat(1 << 20) }]] });
        assert_eq!(number_until_error(nested), Some(15));
    }

    #[test]
    fn stored_field_cannot_be_another_part_of_the_message() {
        let read = |field: &str| {
            let signature = Some(json!({ "field": field }).to_string());
            ReasoningForm::read(&Thinking { signature, ..Thinking::default() }).field
        };
        assert_eq!(read("reasoning").as_deref(), Some("reasoning"));
        assert_eq!((read("role"), read("content")), (None, None));
    }
}
