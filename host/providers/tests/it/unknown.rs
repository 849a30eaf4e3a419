//! Additions of newer servers never change the parts that are known today: unknown events, fields and blocks, and
//! values of unexpected types in optional fields, inserted into the fixtures anywhere. Where a server may expect its
//! own additions back, the signature of a part contains them, too.

use crate::support::formats::{FORMATS, decoder, encode, texts};
use crate::support::{assert_well_formed, decode};
use pinion_protocol::{PartKind, ProviderError, StreamEvent};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn run(format: &str, text: &str) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let (events, error) = decode(&mut *decoder(format), &[&encode(format, text.as_bytes().to_vec())]);
    assert_well_formed(&events, error.as_ref());
    (events, error)
}

/// The events that the client itself reads. Which parts are still open depends on the server's additions, so that the
/// ends of parts are removed, and with them the parts that have nothing but a signature.
fn read(format: &str, events: &[StreamEvent]) -> Vec<StreamEvent> {
    let is_read = |event: &&StreamEvent| {
        let is_of_server = matches!(
            event,
            StreamEvent::PartEnd { .. } | StreamEvent::PartStart { part: PartKind::RedactedThinking, .. }
        );
        !KEEPING.contains(&format) || !is_of_server
    };
    events.iter().filter(is_read).cloned().collect()
}

/// The formats whose servers may expect their additions back, so that signatures contain these.
const KEEPING: &[&str] = &["chat", "ollama", "responses"];

/// The signatures of a reply by the index of their part.
fn signatures(events: &[StreamEvent]) -> Vec<(usize, Value)> {
    let signature = |event: &StreamEvent| match event {
        StreamEvent::PartEnd { index, signature: Some(text) } => {
            Some((*index, serde_json::from_str(text).unwrap_or_else(|_| json!(text))))
        }
        _ => None,
    };
    events.iter().filter_map(signature).collect()
}

/// Returns whether a part has nothing but a signature.
fn has_nothing_else(events: &[StreamEvent], part: usize) -> bool {
    let start = StreamEvent::PartStart { index: part, part: PartKind::RedactedThinking };
    events.contains(&start)
}

/// Returns whether a value still has all that another one has. A block within a list may cut a text in two.
fn contains(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(fields), Value::Object(others)) => {
            others.iter().all(|(name, other)| fields.get(name).is_some_and(|value| contains(value, other)))
        }
        (Value::Array(list), Value::Array(others)) => {
            let mut rest = list.iter();
            let has_all = others.iter().all(|other| rest.any(|value| contains(value, other)));
            has_all
                || joined(others)
                    .iter()
                    .all(|(name, text)| joined(list).get(name).is_some_and(|whole| whole.contains(text)))
        }
        _ => value == other,
    }
}

/// The texts in the objects of a list, joined by the name of their field.
fn joined(list: &[Value]) -> BTreeMap<&str, String> {
    let mut joined: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in list.iter().filter_map(Value::as_object).flatten() {
        joined.entry(name).or_default().push_str(value.as_str().unwrap_or_default());
    }
    joined
}

/// One addition.
#[derive(Debug, Clone)]
enum Addition {
    /// An event before the one at this place.
    Event(Index),
    /// A field, in the object at this place.
    Field(Index, &'static str, Value),
    /// A block, in the list at this place and before the element at this place.
    Block(Index, Index, Value),
}

/// Optional fields of the formats, which here get values of unexpected types where they are missing.
const OPTIONAL: &[&str] = &[
    "name",
    "text",
    "thinking",
    "reasoning",
    "reasoning_content",
    "refusal",
    "signature",
    "data",
    "partial_json",
    "stop_reason",
    "stop_details",
    "stopReason",
    "usage",
    "x_groq",
    "item_id",
    "call_id",
    "encrypted_content",
    "summary",
    "thoughtSignature",
    "finishMessage",
    "promptFeedback",
    "done_reason",
    "x_future",
];

fn addition() -> impl Strategy<Value = Addition> {
    let strange = vec![json!(7), json!([1, { "text": [] }]), json!({ "future": [1] }), json!(true), json!(null)];
    let block = vec![json!({ "type": "future_block", "future": { "a": 1 } }), json!(null), json!(7), json!("x")];
    prop_oneof![
        any::<Index>().prop_map(Addition::Event),
        (any::<Index>(), select(OPTIONAL), select(strange))
            .prop_map(|(at, name, value)| Addition::Field(at, name, value)),
        (any::<Index>(), any::<Index>(), select(block)).prop_map(|(list, at, block)| Addition::Block(list, at, block)),
    ]
}

fn unknown_event(format: &str) -> Value {
    match format {
        "anthropic" => json!({ "type": "future_event", "index": 0, "delta": { "type": "future", "text": ["x"] },
            "message": 7, "content_block": "x", "error": null }),
        "responses" => json!({ "type": "response.future", "output_index": 0, "item": "x", "delta": { "a": 1 },
            "response": [1], "error": null }),
        "bedrock" => json!({ "event": "futureEvent", "payload": { "contentBlockIndex": 0, "delta": "x" } }),
        "proxy" => json!({ "type": "future", "index": "x" }),
        _ => json!({ "future": { "text": ["x"] }, "error": null }),
    }
}

/// Fields whose content is not the format's: arguments of calls, and fields that go back as they came.
const OPAQUE: &[&str] = &["args", "arguments", "input", "partial_json", "reasoning_details", "error"];

/// Calls `change` with every value that belongs to the format.
fn each(value: &mut Value, change: &mut impl FnMut(&mut Value)) {
    change(value);
    match value {
        Value::Object(object) => {
            let known = object.iter_mut().filter(|(name, _)| !OPAQUE.contains(&name.as_str()));
            known.for_each(|(_, value)| each(value, change));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| each(value, change)),
        _ => {}
    }
}

/// Changes one of the values that fit, if there are any.
fn change_one(value: &mut Value, at: Index, fits: fn(&Value) -> bool, change: impl Fn(&mut Value)) {
    let mut count = 0;
    each(value, &mut |value| count += usize::from(fits(value)));
    if count == 0 {
        return;
    }
    let mut left = at.index(count) + 1;
    each(value, &mut |value| {
        left = left.saturating_sub(usize::from(fits(value)));
        if left == 0 && fits(value) {
            left = usize::MAX;
            change(value);
        }
    });
}

/// Splits a line into the text before its JSON and the JSON.
fn json_of(line: &str) -> Option<(&str, Value)> {
    let start = line.find('{')?;
    let (before, text) = line.split_at(start);
    let is_data = before.is_empty() || before.trim_end() == "data:";
    serde_json::from_str(text.trim_end()).ok().filter(|_| is_data).map(|value| (before, value))
}

/// Formats the JSON of each line in one way, so that lines differ only by additions.
fn normalized(text: &str) -> String {
    let line = |line: &str| json_of(line).map_or_else(|| line.to_owned(), |(before, value)| format!("{before}{value}"));
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn apply(format: &str, text: &str, addition: &Addition) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let at: Vec<usize> = (0..lines.len()).filter(|at| json_of(&lines[*at]).is_some()).collect();
    let (Addition::Event(place) | Addition::Field(place, ..) | Addition::Block(place, ..)) = addition;
    if at.is_empty() {
        return text.to_owned();
    }
    let line = at[place.index(at.len())];
    let (before, mut value) = json_of(&lines[line]).map(|(before, value)| (before.to_owned(), value)).unwrap();
    let mut nothing = Value::Null;
    let event = match format {
        "bedrock" => value.get_mut("payload").unwrap_or(&mut nothing),
        _ => &mut value,
    };
    match addition {
        Addition::Event(_) => {
            let blank = if before.is_empty() { "" } else { "\n" };
            let line = &mut lines[line];
            *line = format!("{before}{}\n{blank}{line}", unknown_event(format));
            return lines.join("\n");
        }
        Addition::Field(place, name, strange) => change_one(event, *place, Value::is_object, |value| {
            let object = value.as_object_mut().unwrap();
            object.entry(*name).or_insert_with(|| strange.clone());
        }),
        Addition::Block(_, at, block) => change_one(event, *at, Value::is_array, |value| {
            let list = value.as_array_mut().unwrap();
            list.insert(at.index(list.len() + 1), block.clone());
        }),
    }
    lines[line] = format!("{before}{value}");
    lines.join("\n")
}

fn any_fixture() -> impl Strategy<Value = (&'static str, String, String)> {
    let all = |format: &'static str| texts(format).into_iter().map(move |(name, text)| (format, name, text));
    // The proxy protocol is our own; only its events are open.
    select(FORMATS.iter().copied().filter(|format| *format != "proxy").flat_map(all).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn unknown_additions_change_nothing(
        (format, name, text) in any_fixture(),
        additions in prop::collection::vec(addition(), 1..6),
    ) {
        let text = normalized(&text);
        let changed = additions.iter().fold(text.clone(), |text, addition| apply(format, &text, addition));
        let ((now, error), (before, expected)) = (run(format, &changed), run(format, &text));
        prop_assert_eq!(
            (read(format, &now), error), (read(format, &before), expected), "{}/{}\n{}", format, name, changed
        );
        let kept = signatures(&now);
        for (index, known) in signatures(&before) {
            // A signature with a separate part only because the thinking had ended may be there instead.
            let is_there = |at| at == index || has_nothing_else(&before, index);
            let is_kept = kept.iter().any(|(at, signature)| is_there(*at) && contains(signature, &known));
            prop_assert!(is_kept, "{known} of part {index} was lost from {kept:?}\n{format}/{name}\n{changed}");
        }
    }
}

#[test]
fn unknown_stop_reasons_end_the_reply() {
    let known = ["\"end_turn\"", "\"stop\"", "\"STOP\"", "\"completed\""];
    for (format, name) in [
        ("anthropic", "text.sse"),
        ("bedrock", "text.jsonl"),
        ("chat", "deepseek_text.sse"),
        ("gemini", "vertex_text.sse"),
        ("ollama", "text.ndjson"),
        ("responses", "azure_text.sse"),
    ] {
        let text = texts(format).into_iter().find(|(known, _)| known == name).unwrap().1;
        let future = known.iter().fold(text.clone(), |text, reason| text.replace(reason, "\"a_future_reason\""));
        assert_ne!(future, text, "{format}");
        assert_eq!(run(format, &future), run(format, &text), "{format}");
    }
}
