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
