//! The JSON of a streamed chunk, in all the forms that servers give it.

use super::reasoning::Detail;
use crate::decode::json::{self, Arguments, default_for};
use pinion_protocol::Usage;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatChunk<'a> {
    /// `error` for an error object without the usual field around it.
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) object: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) model: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::objects")]
    pub(super) choices: Vec<WireChoice<'a>>,
    #[serde(deserialize_with = "json::object")]
    pub(super) usage: Option<ChatUsage>,
    #[serde(deserialize_with = "json::object")]
    pub(super) x_groq: Option<GroqExtra>,
    #[serde(deserialize_with = "json::error")]
    pub(super) error: Option<Value>,
    /// The three fields of an error without the usual field around it.
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) message: Cow<'a, str>,
    #[serde(deserialize_with = "json::error")]
    pub(super) code: Option<Value>,
    #[serde(deserialize_with = "json::error")]
    pub(super) error_code: Option<Value>,
    #[serde(borrow, deserialize_with = "json::object")]
    pub(super) base_resp: Option<BaseResponse<'a>>,
}

/// MiniMax's status of the request, which is 0 unless it failed.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct BaseResponse<'a> {
    #[serde(deserialize_with = "json::count")]
    status_code: Option<u64>,
    #[serde(borrow, deserialize_with = "json::text")]
    status_msg: Cow<'a, str>,
}

impl BaseResponse<'_> {
    /// Returns the error under a name that other vendors use.
    pub(super) fn error(&self) -> Option<Value> {
        let code = match self.status_code? {
            0 => return None,
            1002 | 1039 | 1041 => "rate_limit",
            1004 | 2049 => "authentication",
            1008 => "insufficient_quota",
            1000 | 1001 | 1013 | 1024 | 1033 => "server_error",
            _ => "",
        };
        Some(serde_json::json!({ "code": code, "message": self.status_msg }))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct GroqExtra {
    #[serde(deserialize_with = "json::object")]
    pub(super) usage: Option<ChatUsage>,
    /// The reason why the reply was broken off.
    #[serde(deserialize_with = "json::error")]
    pub(super) error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireChoice<'a> {
    #[serde(deserialize_with = "json::count")]
    pub(super) index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::object")]
    pub(super) delta: Option<ReplyDelta<'a>>,
    /// The entire reply, from servers that do not stream it.
    #[serde(borrow, deserialize_with = "json::object")]
    pub(super) message: Option<ReplyDelta<'a>>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) finish_reason: Cow<'a, str>,
    /// Kimi's place for the counts.
    #[serde(deserialize_with = "json::object")]
    pub(super) usage: Option<ChatUsage>,
    /// OpenRouter's place for the failure of an upstream.
    #[serde(deserialize_with = "json::error")]
    pub(super) error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ReplyDelta<'a> {
    #[serde(borrow)]
    pub(super) content: Pieces<'a>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) reasoning_content: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) reasoning: Cow<'a, str>,
    /// GitHub Copilot's name for it.
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) reasoning_text: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) thinking: Cow<'a, str>,
    /// OpenRouter's form of thinking.
    #[serde(deserialize_with = "json::objects")]
    pub(super) reasoning_details: Vec<Detail>,
    /// LiteLLM's form of thinking.
    #[serde(deserialize_with = "json::objects")]
    pub(super) thinking_blocks: Vec<Detail>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) refusal: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::objects")]
    pub(super) tool_calls: Vec<CallDelta<'a>>,
    /// The only call of a reply, from servers that know no others.
    #[serde(borrow, deserialize_with = "json::object")]
    pub(super) function_call: Option<FunctionDelta<'a>>,
    /// In most chunks of many servers.
    #[serde(rename = "role")]
    pub(super) _role: IgnoredAny,
    #[serde(flatten)]
    pub(super) others: Detail,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    #[serde(deserialize_with = "json::count")]
    pub(super) index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    pub(super) function: Option<FunctionDelta<'a>>,
    #[serde(rename = "type")]
    pub(super) _type: IgnoredAny,
    /// Fields that only the server understands, such as a signature.
    #[serde(flatten)]
    pub(super) others: Detail,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) arguments: Arguments<'a>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatUsage {
    #[serde(deserialize_with = "json::count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    completion_tokens: Option<u64>,
    /// The names of newer formats, which some gateways keep.
    #[serde(deserialize_with = "json::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    total_tokens: Option<u64>,
    #[serde(deserialize_with = "json::object")]
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's name for cached tokens.
    #[serde(deserialize_with = "json::count")]
    prompt_cache_hit_tokens: Option<u64>,
    /// Kimi's name for cached tokens.
    #[serde(deserialize_with = "json::count")]
    cached_tokens: Option<u64>,
    /// LiteLLM's names.
    #[serde(deserialize_with = "json::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "json::count")]
    cached_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_write_tokens: Option<u64>,
    /// DashScope's name.
    #[serde(deserialize_with = "json::count")]
    cache_creation_input_tokens: Option<u64>,
    /// LiteLLM's other name.
    #[serde(deserialize_with = "json::count")]
    cache_creation_tokens: Option<u64>,
}

/// The largest counts so far: some servers repeat them with every chunk, and some end with zeros.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TokenCounts {
    /// All input, cached or not.
    prompt: u64,
    completion: u64,
    total: u64,
    cache_read: u64,
    cache_write: u64,
}

impl TokenCounts {
    /// Takes over the counts that grew; returns false if no count grew.
    pub(super) fn grow(&mut self, wire: ChatUsage) -> bool {
        let details = wire.prompt_tokens_details.unwrap_or_default();
        let grow = |count: &mut u64, names: &[Option<u64>]| {
            let largest = names.iter().flatten().max();
            *count = largest.copied().unwrap_or_default().max(*count);
        };
        let read =
            [details.cached_tokens, wire.prompt_cache_hit_tokens, wire.cached_tokens, wire.cache_read_input_tokens];
        let written = [
            details.cache_write_tokens,
            details.cache_creation_input_tokens,
            details.cache_creation_tokens,
            wire.cache_creation_input_tokens,
        ];
        let (prompt, completion) =
            (wire.prompt_tokens.or(wire.input_tokens), wire.completion_tokens.or(wire.output_tokens));
        grow(&mut self.prompt, &[prompt]);
        grow(&mut self.completion, &[completion]);
        grow(&mut self.total, &[wire.total_tokens]);
        grow(&mut self.cache_read, &read);
        grow(&mut self.cache_write, &written);
        prompt.or(completion).is_some()
    }
}

impl From<TokenCounts> for Usage {
    /// The prompt tokens include the cached ones. Some vendors (xAI) leave reasoning out of the completion tokens, but
    /// not out of the total.
    fn from(counts: TokenCounts) -> Self {
        let cache_read = counts.cache_read.min(counts.prompt);
        let cache_write = counts.cache_write.min(counts.prompt - cache_read);
        Self {
            input: counts.prompt - cache_read - cache_write,
            output: counts.completion.max(counts.total.saturating_sub(counts.prompt)),
            cache_read,
            cache_write,
        }
    }
}

/// The content of a delta: a string, a text or thinking part, or a list of them (Mistral, Databricks).
#[derive(Default)]
pub(super) struct Pieces<'a>(pub(super) Vec<ContentPiece<'a>>);

pub(super) enum ContentPiece<'a> {
    Text(Cow<'a, str>),
    /// The readable text, and the part as it came.
    Thinking(String, Detail),
}

impl<'de: 'a, 'a> Deserialize<'de> for Pieces<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PiecesVisitor;
        impl<'de> Visitor<'de> for PiecesVisitor {
            type Value = Pieces<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of parts")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Pieces(vec![ContentPiece::Text(Cow::Borrowed(text))]))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Pieces(vec![ContentPiece::Text(Cow::Owned(text.to_owned()))]))
            }
            default_for!(null bool number);
            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
                let part = Value::deserialize(MapAccessDeserializer::new(fields))?;
                Ok(Pieces(parse_piece(part).into_iter().collect()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut pieces = Vec::new();
                while let Some(part) = list.next_element::<Value>()? {
                    pieces.extend(parse_piece(part));
                }
                Ok(Pieces(pieces))
            }
        }
        deserializer.deserialize_any(PiecesVisitor)
    }
}

/// Parses `{"type":"text","text":"…"}`, `{"type":"thinking","thinking":[{"type":"text","text":"…"}]}` or
/// `{"type":"reasoning","summary":[…]}`, and skips others.
fn parse_piece(part: Value) -> Option<ContentPiece<'static>> {
    let Value::Object(part) = part else { return None };
    let text = |field: &str| part.get(field).map(text_of).unwrap_or_default();
    match part.get("type")?.as_str()? {
        "text" | "output_text" => Some(ContentPiece::Text(Cow::Owned(text("text")))),
        "refusal" => Some(ContentPiece::Text(Cow::Owned(text("refusal")))),
        "thinking" => Some(ContentPiece::Thinking(text("thinking"), part)),
        "reasoning" => {
            let fields = ["summary", "content", "reasoning", "text"];
            Some(ContentPiece::Thinking(
                fields.map(text).into_iter().find(|text| !text.is_empty()).unwrap_or_default(),
                part,
            ))
        }
        _ => None,
    }
}

/// The text in a string, or in the objects of a list.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}
