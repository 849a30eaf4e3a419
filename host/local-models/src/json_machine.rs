//! Accepts the bytes of one JSON value of a given shape, one after the other.
//!
//! The machine is deterministic and small, so that candidates for the next token can be tried on a copy. Every state it
//! reaches can be completed: a comma needs a property that is missing, a name needs to begin like one.

use crate::json_shape::{JsonShape, ObjectShape};
use std::sync::Arc;

/// Maximum nesting of values.
const MAX_NESTING: usize = 16;
/// Maximum characters of a number.
const MAX_DIGITS: usize = 20;

/// A position in a JSON value.
#[derive(Debug, Clone)]
pub(crate) struct JsonMachine {
    stack: Vec<JsonFrame>,
}

#[derive(Debug, Clone)]
enum JsonFrame {
    /// Before a value, after a space at most.
    Value(Arc<JsonShape>, bool),
    Text(TextStep),
    Digits {
        step: DigitStep,
        is_integer: bool,
        length: usize,
    },
    /// In one of the JSON texts of a choice, after this many bytes.
    Choice {
        shape: Arc<JsonShape>,
        done: Vec<u8>,
    },
    /// In `true`, `false` or `null`.
    Word(&'static [u8]),
    Object {
        shape: Arc<ObjectShape>,
        seen: Vec<bool>,
        step: ObjectStep,
    },
    List {
        items: Arc<JsonShape>,
        is_new: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TextStep {
    Plain,
    Escape,
    Digits(u8),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum DigitStep {
    Sign,
    Zero,
    Whole,
    Point,
    Fraction,
}

#[derive(Debug, Clone)]
enum ObjectStep {
    /// After the opening brace.
    New,
    /// After a comma, and a space at most.
    Comma(bool),
    /// In a listed name, after these bytes.
    Name(Vec<u8>),
    /// After a name, before its colon.
    Colon(Arc<JsonShape>),
    /// After a value.
    Value,
}

/// The effect of a byte on the innermost frame.
enum JsonMove {
    Stay,
    /// The frame ends with the byte.
    End,
    /// The frame ended before the byte, which belongs to the outer one.
    EndBefore,
    /// Another frame begins with the byte.
    Begin(JsonFrame),
    /// Another frame begins before the byte.
    BeginBefore(JsonFrame),
    /// Another frame replaces this one with the byte.
    Become(JsonFrame),
    Reject,
}

impl JsonMachine {
    /// Starts before a value.
    pub(crate) fn new(shape: Arc<JsonShape>) -> Self {
        Self { stack: vec![JsonFrame::Value(shape, false)] }
    }

    /// Returns whether the value is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.stack.is_empty()
    }

    /// Accepts a byte, or returns `false`; the machine is then unusable.
    pub(crate) fn accept(&mut self, byte: u8) -> bool {
        loop {
            let depth = self.stack.len();
            let Some(frame) = self.stack.last_mut() else { return false };
            match frame.accept(byte) {
                JsonMove::Stay => return true,
                JsonMove::End => {
                    self.stack.pop();
                    return true;
                }
                JsonMove::EndBefore => {
                    self.stack.pop();
                }
                // The innermost values have no parts, so that every part has room.
                JsonMove::Become(JsonFrame::Object { .. } | JsonFrame::List { .. }) if depth + 1 >= MAX_NESTING => {
                    return false;
                }
                JsonMove::Become(next) => {
                    *frame = next;
                    return true;
                }
                JsonMove::Begin(next) if depth < MAX_NESTING => {
                    self.stack.push(next);
                    return true;
                }
                JsonMove::BeginBefore(next) if depth < MAX_NESTING => self.stack.push(next),
                JsonMove::Begin(_) | JsonMove::BeginBefore(_) | JsonMove::Reject => return false,
            }
        }
    }
}

impl JsonFrame {
    fn accept(&mut self, byte: u8) -> JsonMove {
        match self {
            Self::Value(_, may_blank) if *may_blank && byte == b' ' => {
                *may_blank = false;
                JsonMove::Stay
            }
            Self::Value(shape, _) => begin_value(shape, byte),
            Self::Text(step) => accept_in_text(step, byte),
            Self::Digits { step, is_integer, length } => accept_digit(step, *is_integer, length, byte),
            Self::Choice { shape, done } => accept_choice(shape, done, byte),
            Self::Word(rest) => match rest.split_first() {
                Some((first, after)) if *first == byte => {
                    *rest = after;
                    if after.is_empty() { JsonMove::End } else { JsonMove::Stay }
                }
                _ => JsonMove::Reject,
            },
            Self::Object { shape, seen, step } => accept_in_object(shape, seen, step, byte),
            Self::List { items, is_new } => match (byte, std::mem::take(is_new)) {
                (b']', _) => JsonMove::End,
                (_, true) => JsonMove::BeginBefore(Self::Value(items.clone(), false)),
                (b',', false) => JsonMove::Begin(Self::Value(items.clone(), true)),
                _ => JsonMove::Reject,
            },
        }
    }
}

fn begin_value(shape: &Arc<JsonShape>, byte: u8) -> JsonMove {
    let digits = |is_integer| {
        let step = match byte {
            b'-' => DigitStep::Sign,
            b'0' => DigitStep::Zero,
            b'1'..=b'9' => DigitStep::Whole,
            _ => return JsonMove::Reject,
        };
        JsonMove::Become(JsonFrame::Digits { step, is_integer, length: 1 })
    };
    let object = |shape: Arc<ObjectShape>| {
        let seen = vec![false; shape.properties.len()];
        JsonMove::Become(JsonFrame::Object { shape, seen, step: ObjectStep::New })
    };
    match (&**shape, byte) {
        (JsonShape::Text | JsonShape::Any, b'"') => JsonMove::Become(JsonFrame::Text(TextStep::Plain)),
        (JsonShape::Number { is_integer }, _) => digits(*is_integer),
        (JsonShape::Choice(_), _) => accept_choice(shape, &mut Vec::new(), byte),
        (JsonShape::List(items), b'[') => JsonMove::Become(JsonFrame::List { items: items.clone(), is_new: true }),
        (JsonShape::Object(shape), b'{') => object(shape.clone()),
        (JsonShape::Any, b'[') => JsonMove::Become(JsonFrame::List { items: shape.clone(), is_new: true }),
        (JsonShape::Any, b'{') => object(Arc::default()),
        (JsonShape::Any, b't') => JsonMove::Become(JsonFrame::Word(b"rue")),
        (JsonShape::Any, b'f') => JsonMove::Become(JsonFrame::Word(b"alse")),
        (JsonShape::Any, b'n') => JsonMove::Become(JsonFrame::Word(b"ull")),
        (JsonShape::Any, _) => digits(false),
        _ => JsonMove::Reject,
    }
}

fn accept_in_text(step: &mut TextStep, byte: u8) -> JsonMove {
    *step = match (*step, byte) {
        (TextStep::Plain, b'"') => return JsonMove::End,
        (TextStep::Plain, b'\\') => TextStep::Escape,
        (TextStep::Plain, 0x20..) => TextStep::Plain,
        (TextStep::Escape, b'u') => TextStep::Digits(4),
        (TextStep::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => TextStep::Plain,
        // Surrogates are valid in pairs only, so that letters from U+8000 on are not written with digits.
        (TextStep::Digits(4), b'0'..=b'7') => TextStep::Digits(3),
        (TextStep::Digits(left @ 1..=3), byte) if byte.is_ascii_hexdigit() => match left {
            1 => TextStep::Plain,
            _ => TextStep::Digits(left - 1),
        },
        _ => return JsonMove::Reject,
    };
    JsonMove::Stay
}

fn accept_digit(step: &mut DigitStep, is_integer: bool, length: &mut usize, byte: u8) -> JsonMove {
    let is_full = *length >= MAX_DIGITS;
    *length += 1;
    *step = match (*step, byte) {
        (DigitStep::Sign, b'0') => DigitStep::Zero,
        (DigitStep::Sign, b'1'..=b'9') => DigitStep::Whole,
        (DigitStep::Sign, _) => return JsonMove::Reject,
        (DigitStep::Whole, b'0'..=b'9') if !is_full => DigitStep::Whole,
        (DigitStep::Zero | DigitStep::Whole, b'.') if !is_integer && !is_full => DigitStep::Point,
        (DigitStep::Point | DigitStep::Fraction, b'0'..=b'9') if !is_full => DigitStep::Fraction,
        (DigitStep::Point, b'0'..=b'9') => DigitStep::Fraction,
        (DigitStep::Point, _) => return JsonMove::Reject,
        _ => return JsonMove::EndBefore,
    };
    JsonMove::Stay
}

fn accept_choice(shape: &Arc<JsonShape>, done: &mut Vec<u8>, byte: u8) -> JsonMove {
    let JsonShape::Choice(choices) = &**shape else { return JsonMove::Reject };
    let is_new = done.is_empty();
    done.push(byte);
    let goes_on = choices.iter().any(|choice| choice.len() > done.len() && choice.starts_with(done));
    let is_complete = choices.contains(done);
    match (goes_on, is_complete) {
        (true, _) if is_new => JsonMove::Become(JsonFrame::Choice { shape: shape.clone(), done: std::mem::take(done) }),
        (true, _) => JsonMove::Stay,
        (false, true) => JsonMove::End,
        // A shorter choice ended before the byte, such as 1 of 1 and 10.
        (false, false) if choices.iter().any(|choice| choice[..] == done[..done.len() - 1]) => JsonMove::EndBefore,
        (false, false) => JsonMove::Reject,
    }
}

fn accept_in_object(shape: &ObjectShape, seen: &mut [bool], step: &mut ObjectStep, byte: u8) -> JsonMove {
    let missing = || shape.properties.iter().zip(&*seen).filter(|(_, seen)| !**seen).map(|(property, _)| property);
    let can_end = || !missing().any(|property| property.is_required);
    let can_grow = || shape.properties.is_empty() || missing().next().is_some();
    match (&mut *step, byte) {
        (ObjectStep::New | ObjectStep::Value, b'}') if can_end() => return JsonMove::End,
        (ObjectStep::Value, b',') if can_grow() => *step = ObjectStep::Comma(false),
        (ObjectStep::Comma(blank @ false), b' ') => *blank = true,
        (ObjectStep::New | ObjectStep::Comma(_), b'"') if shape.properties.is_empty() => {
            *step = ObjectStep::Colon(Arc::new(JsonShape::Any));
            return JsonMove::Begin(JsonFrame::Text(TextStep::Plain));
        }
        (ObjectStep::New | ObjectStep::Comma(_), b'"') if can_grow() => *step = ObjectStep::Name(Vec::new()),
        (ObjectStep::Name(done), b'"') => {
            let found =
                shape.properties.iter().zip(&*seen).position(|(property, seen)| !seen && property.name == *done);
            let Some(found) = found else { return JsonMove::Reject };
            seen[found] = true;
            *step = ObjectStep::Colon(shape.properties[found].shape.clone());
        }
        (ObjectStep::Name(done), _) => {
            done.push(byte);
            if !missing().any(|property| property.name.starts_with(done)) {
                return JsonMove::Reject;
            }
        }
        (ObjectStep::Colon(value), b':') => {
            let value = JsonFrame::Value(value.clone(), true);
            *step = ObjectStep::Value;
            return JsonMove::Begin(value);
        }
        _ => return JsonMove::Reject,
    }
    JsonMove::Stay
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn accepts(schema: &Value, text: &str) -> Option<bool> {
        let mut machine = JsonMachine::new(JsonShape::of_arguments(schema));
        text.bytes().all(|byte| machine.accept(byte)).then(|| machine.is_complete())
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "limit": { "type": "integer" },
                "kind": { "enum": ["file", "dir", 1, 10] },
                "deep": { "type": "array", "items": { "type": "object", "properties": { "ok": { "type": "boolean" } } } },
                "any": {},
            },
            "required": ["path"],
        })
    }

    #[test]
    fn arguments_of_the_schema_are_accepted() {
        for text in [
            r#"{"path": "a\"b\u00e9"}"#,
            r#"{"limit": -12, "path":"x", "kind": "dir"}"#,
            r#"{"kind": 1,"path": ""}"#,
            r#"{"kind": 10,"path": ""}"#,
            r#"{"deep": [{"ok": true}, {}], "path": "日本"}"#,
            r#"{"any": {"x": [1.5, null, {}]}, "path": ""}"#,
        ] {
            assert_eq!(accepts(&schema(), text), Some(true), "{text}");
            serde_json::from_str::<Value>(text).unwrap();
        }
        assert_eq!(accepts(&json!({}), r#"{"free": 1}"#), Some(true));
        assert_eq!(accepts(&json!(true), "{}"), Some(true));
    }

    #[test]
    fn other_values_are_rejected_at_their_first_wrong_byte() {
        for text in [
            "[",
            "{}",
            r#"{"limit": 1}"#,
            r#"{"x"#,
            r#"{"path": 1"#,
            r#"{"path": "a", "p"#,
            r#"{"limit": 1."#,
            r#"{"limit": 01"#,
            r#"{"kind": "fif"#,
            "{\"path\": \"a\n",
            r#"{"path": "\x"#,
            r#"{"path": "\ud"#,
            r#"{"path": "a",}"#,
            "{ ",
            r#"{"deep": [{"ok": 1"#,
        ] {
            assert_eq!(accepts(&schema(), text), None, "{text}");
            assert!(accepts(&schema(), &text[..text.len() - 1]).is_some_and(|complete| !complete), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn random_accepted_bytes_end_in_valid_json(choices in prop::collection::vec(any::<u16>(), 600)) {
            let mut machine = JsonMachine::new(JsonShape::of_arguments(&schema()));
            let mut text = Vec::new();
            for choice in choices {
                let allowed: Vec<u8> = (0x20..0x7f).filter(|byte| machine.clone().accept(*byte)).collect();
                if machine.is_complete() {
                    break;
                }
                prop_assert!(!allowed.is_empty(), "no way out of {}", String::from_utf8_lossy(&text));
                // Closing bytes first, so that values end.
                let closing = allowed.iter().find(|byte| choice % 3 == 0 && b"\"}],".contains(byte));
                let byte = *closing.unwrap_or(&allowed[choice as usize % allowed.len()]);
                prop_assert!(machine.accept(byte));
                text.push(byte);
            }
            if machine.is_complete() {
                let value: Value = serde_json::from_slice(&text).unwrap();
                prop_assert!(value["path"].is_string());
            }
        }
    }
}
