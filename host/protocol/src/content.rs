//! What messages are made of: text, images, thinking, tool calls.

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
    /// What the model thought before it answered; never shown as its answer.
    Thinking(Thinking),
    /// The model asks for a tool to be called.
    ToolCall(ToolCall),
}

impl Content {
    /// A part of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The text, when this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }

    /// The call, when this is a tool call.
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Self::ToolCall(call) => Some(call),
            _ => None,
        }
    }
}

/// A picture, as an encoded file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// For example `image/png`.
    pub media_type: String,
    /// The bytes of the file; base64 when serialized.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub data: Vec<u8>,
}

impl Image {
    /// The bytes as base64, as every provider wants them.
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

/// The model's reasoning, with what its vendor needs to accept it back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// Readable text; empty when the vendor keeps it to itself.
    pub text: String,
    /// Opaque, to be sent back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The vendor encrypted the reasoning: `signature` holds all there is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// The model asks for a tool to be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Pairs the call with its result; unique in the session.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// Parsed arguments. An object, when the model behaved.
    pub arguments: Value,
    /// The arguments as far as they came, when they are not JSON: cut off, or malformed. `arguments` is null then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Opaque, to be sent back unchanged (Gemini signs its calls).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ToolCall {
    /// A complete call.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self { id: id.into(), name: name.into(), arguments, partial: None, signature: None }
    }

    /// Reads what was streamed of the arguments. No text at all means no arguments.
    pub fn from_stream(id: String, name: String, json: String) -> Self {
        if json.trim().is_empty() {
            return Self::new(id, name, Value::Object(serde_json::Map::new()));
        }
        match serde_json::from_str(&json) {
            Ok(arguments) => Self::new(id, name, arguments),
            Err(_) => Self { id, name, arguments: Value::Null, partial: Some(json), signature: None },
        }
    }
}
