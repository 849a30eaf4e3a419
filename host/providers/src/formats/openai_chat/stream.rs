//! The reply decoder.

use crate::decode::json::parse;
use crate::decode::{ReplyState, Writer, Writing, broke_off};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The state of one reply.
#[derive(Debug)]
pub struct Reply {
    writer: Writer,
    /// In the order in which they began.
    calls: Vec<OpenCall>,
    stop: Option<StopReason>,
}

/// The vendor's identification of a tool call.
#[derive(Debug)]
struct OpenCall {
    index: Option<u64>,
    id: String,
    /// The key of its part.
    key: u64,
}

impl ReplyState for Reply {
    fn new(id_seed: String) -> Self {
        Self { writer: Writer::new(id_seed), calls: Vec::new(), stop: None }
    }

    fn has_ended(&self) -> bool {
        self.writer.parts.ended()
    }

    fn close(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let reason = self.stop.ok_or_else(broke_off)?;
        self.writer.parts.end(reason, events);
        Ok(())
    }

    fn is_complete(rest: &[u8]) -> bool {
        is_done(rest) || serde_json::from_slice::<&RawValue>(rest).is_ok()
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        if is_done(data) {
            self.writer.parts.end(self.stop.unwrap_or(StopReason::Stop), events);
            return Ok(());
        }
        let chunk: Chunk<'_> = parse(data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(classify_object(&error));
        }
        self.writer.parts.start(chunk.model.as_deref(), events);
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index == 0 {
                self.choice(choice, events)?;
            }
        }
        if let Some(usage) = chunk.usage.or_else(|| chunk.x_groq?.usage) {
            self.writer.parts.usage(usage.into(), events);
        }
        Ok(())
    }
}

impl Reply {
    fn choice(&mut self, choice: WireChoice<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(delta) = choice.delta {
            for text in [delta.reasoning_content, delta.reasoning].into_iter().flatten().take(1) {
                self.writer.write(Writing::Thinking, &text, events)?;
            }
            for piece in delta.content.0 {
                match piece {
                    Piece::Text(text) => self.writer.write(Writing::Text, &text, events)?,
                    Piece::Thinking(text, signature) => {
                        self.writer.write(Writing::Thinking, &text, events)?;
                        if let Some(key) = self.writer.thinking() {
                            self.writer.parts.sign(&key, &signature)?;
                        }
                    }
                }
            }
            if let Some(refusal) = delta.refusal {
                self.writer.write(Writing::Text, &refusal, events)?;
            }
            for call in delta.tool_calls.unwrap_or_default() {
                self.call(call, events)?;
            }
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => Ok(()),
            Some(reason) => {
                self.stop = Some(stop_reason(reason)?);
                Ok(())
            }
        }
    }

    fn call(&mut self, delta: CallDelta<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let function = delta.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let id = delta.id.unwrap_or_default();
        let key = match self.known_call(delta.index, &id, &name) {
            Some(key) => key,
            // A delta of a call that never began.
            None if name.is_empty() => return Ok(()),
            None => {
                let id = id.into_owned();
                let kind = PartKind::ToolCall { id: id.clone(), name: name.into_owned() };
                let key = self.writer.begin(kind, events)?;
                self.calls.push(OpenCall { index: delta.index, id, key });
                key
            }
        };
        self.writer.parts.add(&key, &function.arguments.0, events);
        Ok(())
    }

    /// Finds the call that a delta belongs to. Some servers number every call 0 and tell them apart by ID, some omit
    /// the number, and some repeat ID and name with every delta.
    fn known_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<u64> {
        let belongs = |call: &&OpenCall| match (index, id.is_empty()) {
            (Some(_), true) => call.index == index,
            (Some(_), false) => call.index == index && (call.id == id || name.is_empty()),
            (None, false) => call.id == id,
            (None, true) => name.is_empty(),
        };
        self.calls.iter().rfind(belongs).map(|call| call.key)
    }
}

fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

fn stop_reason(reason: &str) -> Result<StopReason, ProviderError> {
    let retry = |message: &str| Err(ProviderError::Overloaded { message: message.to_owned(), retry_after: None });
    match reason {
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => Ok(StopReason::Length),
        "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
        "content_filter" => Err(ProviderError::Api {
            status: None,
            message: "the vendor's content filter cut off the reply".to_owned(),
        }),
        "error" => retry("the vendor aborted the reply"),
        "insufficient_system_resource" => retry("the vendor ran out of resources during the reply"),
        // `stop`, `end`, `eos`, and future reasons.
        _ => Ok(StopReason::Stop),
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    choices: Option<Vec<WireChoice<'a>>>,
    usage: Option<WireUsage>,
    x_groq: Option<GroqExtra>,
    error: Option<Value>,
}

#[derive(Clone, Copy, Deserialize)]
struct GroqExtra {
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct WireChoice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: Option<ReplyDelta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct ReplyDelta<'a> {
    #[serde(borrow, default)]
    content: Pieces<'a>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
}

#[derive(Clone, Copy, Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    /// The prompt tokens include the cached ones. Some vendors (xAI) leave reasoning out of the completion tokens, but
    /// none out of the total.
    fn from(wire: WireUsage) -> Self {
        let prompt = wire.prompt_tokens.unwrap_or_default();
        let details = wire.prompt_tokens_details.unwrap_or_default();
        let cache_read = details.cached_tokens.or(wire.prompt_cache_hit_tokens).unwrap_or_default().min(prompt);
        let cache_write = details.cache_write_tokens.unwrap_or_default().min(prompt - cache_read);
        let beyond_prompt = wire.total_tokens.unwrap_or_default().saturating_sub(prompt);
        Self {
            input: prompt - cache_read - cache_write,
            output: wire.completion_tokens.unwrap_or_default().max(beyond_prompt),
            cache_read,
            cache_write,
        }
    }
}

/// The content of a delta: a string, or a list of text and thinking parts (Mistral).
#[derive(Default)]
struct Pieces<'a>(Vec<Piece<'a>>);

enum Piece<'a> {
    Text(Cow<'a, str>),
    /// Text and signature, either of which may be partial or empty.
    Thinking(Cow<'a, str>, String),
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
                Ok(Pieces(vec![Piece::Text(Cow::Borrowed(text))]))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Pieces(vec![Piece::Text(Cow::Owned(text.to_owned()))]))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Pieces::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut pieces = Vec::new();
                while let Some(part) = list.next_element::<Value>()? {
                    pieces.extend(piece(&part));
                }
                Ok(Pieces(pieces))
            }
        }
        deserializer.deserialize_any(PiecesVisitor)
    }
}

/// Parses `{"type":"text","text":"…"}` or `{"type":"thinking","thinking":[{"type":"text","text":"…"}]}` and skips
/// others.
fn piece(part: &Value) -> Option<Piece<'static>> {
    let text_of = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
    match part.get("type")?.as_str()? {
        "text" => Some(Piece::Text(Cow::Owned(text_of(part)?))),
        "thinking" => {
            let thoughts = part.get("thinking")?.as_array()?.iter().filter_map(text_of);
            let signature = part.get("signature").and_then(Value::as_str).unwrap_or_default();
            Some(Piece::Thinking(Cow::Owned(thoughts.collect()), signature.to_owned()))
        }
        _ => None,
    }
}

/// A delta of a call's arguments: a JSON fragment in a string or, from some servers, the complete object.
#[derive(Default)]
struct Arguments<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        Ok(Self(match raw.as_bytes().first() {
            Some(b'"') => Cow::Owned(serde_json::from_str(raw).map_err(serde::de::Error::custom)?),
            Some(b'{') => Cow::Borrowed(raw),
            _ => Cow::Borrowed(""),
        }))
    }
}
