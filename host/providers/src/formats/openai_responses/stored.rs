//! Reasoning items and the phases of messages, stored between the reply that contained them and the requests that return
//! them.
//!
//! An item goes back as it came: its summaries, its raw text, its encrypted content, and fields that only its server
//! understands.

use crate::formats::conversation::has_text;
use pinion_protocol::Thinking;
use serde_json::{Map, Value, json};
use std::mem::discriminant;

/// A reasoning item as it came.
pub(super) type ReasoningItem = Map<String, Value>;

/// Takes over fields that have a value. The item may begin with content that its end does not repeat, and a value of another
/// kind does not replace it, except for text.
pub(super) fn take_over(item: &mut ReasoningItem, fields: ReasoningItem) {
    for (name, value) in fields {
        let is_kept = item.get(&name).is_some_and(|known| {
            let has_content =
                matches!(known, Value::String(_) | Value::Array(_) | Value::Object(_)) && !is_empty(known);
            let is_other = discriminant(known) != discriminant(&value) && !value.is_string();
            is_empty(&value) || (has_content && is_other)
        });
        if !is_kept {
            item.insert(name, value);
        }
    }
}

/// Converts an item to a signature; `None` when it contains nothing but its name. `is_raw` says whether raw text of it was
/// streamed, which the item may not repeat.
pub(super) fn to_signature(mut item: ReasoningItem, is_raw: bool) -> Option<String> {
    item.retain(|_, value| !value.is_null());
    if is_raw && !item.contains_key("content") {
        item.insert("content".to_owned(), json!([]));
    }
    let says_something =
        |(name, value): (&String, &Value)| !matches!(&**name, "type" | "id" | "status") && !is_empty(value);
    (is_raw || item.iter().any(says_something)).then(|| Value::Object(item).to_string())
}

/// Restores the item of a signature, with the raw text that is stored beside it.
pub(super) fn item_of(thinking: &Thinking) -> Option<ReasoningItem> {
    let mut item: ReasoningItem = serde_json::from_str(thinking.signature.as_deref()?).ok()?;
    if item.get("content").is_some_and(is_empty) {
        let text = has_text(&thinking.text).then(|| json!({ "type": "reasoning_text", "text": thinking.text }));
        item.insert("content".to_owned(), text.into_iter().collect());
    }
    item.insert("type".to_owned(), json!("reasoning"));
    Some(item)
}

/// Converts the phase of the message before it to a signature.
pub(super) fn of_phase(phase: &str) -> String {
    json!({ "phase": phase }).to_string()
}

/// Restores the phase of a signature; `None` for the signature of a reasoning item.
pub(super) fn phase_of(thinking: &Thinking) -> Option<String> {
    let mut stored: ReasoningItem = serde_json::from_str(thinking.signature.as_deref()?).ok()?;
    let is_phase = thinking.redacted && stored.len() == 1;
    is_phase.then(|| Some(stored.remove("phase")?.as_str()?.to_owned())).flatten()
}

/// Returns whether nothing more has to be waited for.
pub(super) fn is_encrypted(item: &ReasoningItem) -> bool {
    item.get("encrypted_content").and_then(Value::as_str).is_some_and(|content| !content.is_empty())
}

/// Returns whether the item says more than a summary. OpenAI looks for any other by its ID among those that it stored, and
/// fails.
pub(super) fn is_self_contained(item: &ReasoningItem) -> bool {
    ["encrypted_content", "content", "signature"].iter().any(|field| has(item, field))
}

fn has(item: &ReasoningItem, field: &str) -> bool {
    item.get(field).is_some_and(|value| !is_empty(value))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_another_kind_does_not_replace_content() {
        let fields = |fields: Value| fields.as_object().cloned().unwrap_or_default();
        let mut item = fields(json!({ "encrypted_content": "E", "content": [1], "status": 7 }));
        take_over(
            &mut item,
            fields(json!({ "encrypted_content": 7, "content": "", "status": "completed", "more": null })),
        );
        let expected = json!({ "encrypted_content": "E", "content": [1], "status": "completed", "more": null });
        assert_eq!(Value::Object(item), expected);
        let mut strange = fields(json!({ "encrypted_content": [7] }));
        take_over(&mut strange, fields(json!({ "encrypted_content": "E" })));
        assert!(is_encrypted(&strange));
        assert!(!is_encrypted(&fields(json!({ "encrypted_content": 7 }))));
    }

    #[test]
    fn raw_text_that_the_item_does_not_repeat_goes_back() {
        let named = |more: Value| {
            let mut item =
                ReasoningItem::from_iter([("type".to_owned(), json!("reasoning")), ("id".to_owned(), json!("rs_1"))]);
            item.extend(more.as_object().cloned().unwrap_or_default());
            item
        };
        let restored = |signature: Option<String>| {
            let thinking = Thinking { text: "Hm.".to_owned(), signature, redacted: false };
            item_of(&thinking).filter(is_self_contained)
        };
        let content = json!([{ "type": "reasoning_text", "text": "Hm." }]);
        let raw = restored(to_signature(named(json!({ "encrypted_content": null })), true));
        assert_eq!(raw.map(Value::Object), Some(json!({ "type": "reasoning", "id": "rs_1", "content": content })));
        assert_eq!(to_signature(named(json!({ "summary": [], "status": "completed" })), false), None);
        assert_eq!(restored(to_signature(named(json!({ "summary": [{ "text": "Hm." }] })), false)), None);
    }
}
