//! The parts of messages: text, images, thinking and tool calls.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(Image),
    /// Reasoning of the model, which is never part of its answer.
    Thinking(Thinking),
    /// A request of the model to call a tool.
    ToolCall(ToolCall),
}

impl Content {
    /// Creates a part of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns the text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }

    /// Returns the call of a tool call part.
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Self::ToolCall(call) => Some(call),
            _ => None,
        }
    }
}

/// A picture in an encoded file format.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Bytes of the file; serialized as base64.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub data: Vec<u8>,
}

impl Image {
    /// Returns the bytes as base64, which every provider expects.
    pub fn base64(&self) -> String {
        STANDARD.encode(&self.data)
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {} bytes)", self.media_type, self.data.len())
    }
}

fn to_base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

/// Returns the text of all text parts, joined.
pub fn text_of(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect()
}

/// The model's reasoning, with the signature that its vendor needs to accept it back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// Readable text; empty when the vendor does not disclose it.
    pub text: String,
    /// Opaque value to be sent back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// True if the vendor encrypted the reasoning, so that only `signature` has content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A request of the model to call a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Pairs the call with its result; unique in the session.
    pub id: String,
    /// Name of the tool, as the model wrote it.
    pub name: String,
    /// Parsed arguments. Usually an object; models may send any JSON value.
    pub arguments: Value,
    /// The received text of the arguments when it is truncated or malformed JSON; `arguments` is then null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Opaque value to be sent back unchanged (Gemini signs its calls).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ToolCall {
    /// Creates a complete call.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self { id: id.into(), name: name.into(), arguments, partial: None, signature: None }
    }

    /// Creates a call from the streamed text of its arguments. An empty text means no arguments.
    pub fn from_stream(id: String, name: String, json: String) -> Self {
        if json.trim().is_empty() {
            return Self::new(id, name, Value::Object(serde_json::Map::new()));
        }
        match serde_json::from_str(&json) {
            Ok(arguments) => Self::new(id, name, arguments),
            Err(_) => Self { id, name, arguments: Value::Null, partial: Some(json), signature: None },
        }
    }

    /// Like [`Self::from_stream`], for a reply that the output limit cut off. The call is then also partial if its text is
    /// empty, because its arguments may not have begun.
    pub fn from_cut_off_stream(id: String, name: String, json: String) -> Self {
        if json.trim().is_empty() {
            return Self { id, name, arguments: Value::Null, partial: Some(json), signature: None };
        }
        Self::from_stream(id, name, json)
    }
}

// Thinking that a model wrote into its text and ended with a tag, mostly without an opening tag.
//
// The templates of some models write the opening tag into the prompt. A server without a parser for their thinking then
// passes on `…</think>` and the answer as one text. Providers of Chat Completions recognize a complete block while they
// decode it; this one can be recognized only once its end was received.

/// The tags that may lack their beginning.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// Moves the beginning of a complete reply's first text, up to a closing tag, into thinking. The opening tag is missing or
/// the first word. A tag in code is part of the answer, and so is any in a reply that has thinking already.
pub fn without_thoughts(mut parts: Vec<Content>) -> Vec<Content> {
    let is_blank = |part: &Content| part.as_text().is_some_and(|text| text.trim().is_empty());
    let Some(at) = parts.iter().position(|part| !is_blank(part)) else { return parts };
    let Some((thought, answer)) = parts[at].as_text().and_then(split) else { return parts };
    let (thought, answer) = (thought.trim().to_owned(), answer.trim_start().to_owned());
    let thinking = Content::Thinking(Thinking { text: thought, ..Thinking::default() });
    let both = [thinking, Content::Text { text: answer }].into_iter().filter(|part| match part {
        Content::Thinking(thinking) => !thinking.text.is_empty(),
        part => !is_blank(part),
    });
    parts.splice(at..=at, both);
    parts
}

/// Splits a text at the first closing tag, unless it is in code or its opening tag is in the middle of the text.
fn split(text: &str) -> Option<(&str, &str)> {
    let (at, (open, close)) = TAGS.iter().filter_map(|tags| Some((text.find(tags.1)?, *tags))).min()?;
    let (before, answer) = (&text[..at], &text[at + close.len()..]);
    if let Some(thought) = before.trim_start().strip_prefix(open) {
        return Some((thought, answer));
    }
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let is_in_block = before.lines().filter(is_fence).count() % 2 == 1;
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_in_span = line.matches('`').count() % 2 == 1;
    let is_answer = before.contains(open) || is_in_block || is_in_span;
    (!is_answer).then_some((before, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinking(text: &str) -> Content {
        Content::Thinking(Thinking { text: text.to_owned(), ..Thinking::default() })
    }

    #[test]
    fn text_before_an_unopened_closing_tag_is_thinking() {
        let of = |text: &str| without_thoughts(vec![Content::text(text)]);
        assert_eq!(of("a\nb\n</think>\n\nc"), [thinking("a\nb"), Content::text("c")]);
        assert_eq!(of("a</thinking>c"), [thinking("a"), Content::text("c")]);
        assert_eq!(of("\n</think>\nc"), [Content::text("c")]);
        assert_eq!(of("a</think>"), [thinking("a")]);
        assert_eq!(of("\n<think>a `b\n</think>\nc"), [thinking("a `b"), Content::text("c")]);
        let later = vec![Content::text("\n"), Content::text("a</think>b")];
        assert_eq!(without_thoughts(later), [Content::text("\n"), thinking("a"), Content::text("b")]);
    }

    #[test]
    fn tags_in_an_answer_stay() {
        for text in [
            "plain",
            "`</think>` ends a block",
            "```\n</think>\n```",
            "write <think>, then </think>",
            "```html\na\n</think> x",
            "</reasoning>",
        ] {
            let parts = vec![Content::text(text)];
            assert_eq!(without_thoughts(parts.clone()), parts);
        }
        let known = vec![thinking("a"), Content::text("b</think>c")];
        assert_eq!(without_thoughts(known.clone()), known);
    }
}
