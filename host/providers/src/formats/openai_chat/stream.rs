//! The reply decoder.

use super::reasoning::{Detail, Reasoning, readable};
use crate::decode::json::{self, default_for, parse};
use crate::decode::{ReplyState, Writer, Writing, broke_off};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The state of one reply.
#[derive(Debug)]
pub struct Reply {
    writer: Writer,
    /// Open calls, in the order in which they began.
    calls: Vec<OpenCall>,
    /// The end or the failure that the vendor announced. Token counts may still follow.
    stop: Option<Result<StopReason, ProviderError>>,
    /// The key of the first thinking part in a field of its own, and the form of all thinking.
    thinking: Option<u64>,
    reasoning: Reasoning,
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
        let writer = Writer::new(id_seed);
        Self { writer, calls: Vec::new(), stop: None, thinking: None, reasoning: Reasoning::default() }
    }

    fn has_ended(&self) -> bool {
        self.writer.parts.ended()
    }

    fn close(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let stop = self.stop.take().ok_or_else(broke_off)?;
        self.end(stop?, events)
    }

    fn is_complete(rest: &[u8]) -> bool {
        is_done(rest) || serde_json::from_slice::<&RawValue>(rest).is_ok()
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        if is_done(data) {
            let stop = self.stop.take().unwrap_or(Ok(StopReason::Stop));
            return self.end(stop?, events);
        }
        let chunk: Chunk<'_> = parse(data)?;
        let error = chunk.error.filter(|error| !error.is_null());
        let is_known = |choice: &WireChoice<'_>| choice.delta.is_some() || !choice.finish_reason.is_empty();
        if !chunk.model.is_empty() || chunk.choices.iter().any(is_known) {
            self.writer.parts.start(Some(&chunk.model), events);
        }
        let mut usage = chunk.usage.or_else(|| chunk.x_groq?.usage);
        for choice in chunk.choices.into_iter().filter(|choice| choice.index.unwrap_or_default() == 0) {
            usage = usage.or(choice.usage);
            self.choice(choice, events)?;
        }
        if let Some(usage) = usage.filter(|usage| usage.prompt_tokens.or(usage.completion_tokens).is_some()) {
            self.writer.parts.usage(usage.into(), events);
        }
        match error {
            Some(error) => Err(classify_object(&error)),
            None => Ok(()),
        }
    }
}

impl Reply {
    fn choice(&mut self, choice: WireChoice<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(delta) = choice.delta {
            self.delta(delta, events)?;
        }
        match &*choice.finish_reason {
            "" => {}
            reason if !matches!(self.stop, Some(Err(_))) => self.stop = Some(stop_reason(reason)),
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, delta: ReplyDelta<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let fields = [("reasoning_content", &delta.reasoning_content), ("reasoning", &delta.reasoning)];
        match fields.iter().find(|(_, text)| !text.is_empty()) {
            Some((field, text)) => self.think(field, text, events)?,
            None => {
                let text: String = delta.reasoning_details.iter().map(readable).collect();
                self.think("reasoning", &text, events)?;
            }
        }
        for detail in delta.reasoning_details {
            self.writer.hold_thinking();
            self.reasoning.add(detail)?;
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
        self.writer.write(Writing::Text, &delta.refusal, events)?;
        delta.tool_calls.into_iter().try_for_each(|call| self.call(call, events))
    }

    /// Appends thinking that came in a field of its own, and stores the field's name with it.
    fn think(&mut self, field: &'static str, text: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let before = self.writer.thinking();
        self.writer.write(Writing::Thinking, text, events)?;
        match self.writer.thinking().filter(|key| before != Some(*key)) {
            Some(key) => {
                self.reasoning.field.get_or_insert(Cow::Borrowed(field));
                self.thinking.get_or_insert(key);
                self.writer.parts.set_signature(&key, Reasoning::of_field(field).to_signature()?)
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, reason: StopReason, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if !self.reasoning.details.is_empty() {
            let key = match self.thinking.filter(|key| self.writer.parts.is_open(key)) {
                Some(key) => key,
                None => self.writer.begin(PartKind::RedactedThinking, events)?,
            };
            self.writer.parts.set_signature(&key, self.reasoning.to_signature()?)?;
        }
        self.writer.parts.end(reason, events);
        Ok(())
    }

    fn call(&mut self, delta: CallDelta<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let function = delta.function.unwrap_or_default();
        let (name, id) = (function.name, delta.id);
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    model: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::objects")]
    choices: Vec<WireChoice<'a>>,
    #[serde(deserialize_with = "json::object")]
    usage: Option<WireUsage>,
    #[serde(deserialize_with = "json::object")]
    x_groq: Option<GroqExtra>,
    error: Option<Value>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct GroqExtra {
    #[serde(deserialize_with = "json::object")]
    usage: Option<WireUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireChoice<'a> {
    #[serde(deserialize_with = "json::count")]
    index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::object")]
    delta: Option<ReplyDelta<'a>>,
    #[serde(borrow, deserialize_with = "json::text")]
    finish_reason: Cow<'a, str>,
    /// Kimi's place for the counts.
    #[serde(deserialize_with = "json::object")]
    usage: Option<WireUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReplyDelta<'a> {
    #[serde(borrow)]
    content: Pieces<'a>,
    #[serde(borrow, deserialize_with = "json::text")]
    reasoning_content: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    reasoning: Cow<'a, str>,
    #[serde(deserialize_with = "json::objects")]
    reasoning_details: Vec<Detail>,
    #[serde(borrow, deserialize_with = "json::text")]
    refusal: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::objects")]
    tool_calls: Vec<CallDelta<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallDelta<'a> {
    #[serde(deserialize_with = "json::count")]
    index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FunctionDelta<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    #[serde(deserialize_with = "json::count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    completion_tokens: Option<u64>,
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
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "json::count")]
    cached_tokens: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cache_write_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    /// The prompt tokens include the cached ones. Some vendors (xAI) leave reasoning out of the completion tokens, but
    /// none out of the total.
    fn from(wire: WireUsage) -> Self {
        let prompt = wire.prompt_tokens.unwrap_or_default();
        let details = wire.prompt_tokens_details.unwrap_or_default();
        let cache_read = details
            .cached_tokens
            .or(wire.prompt_cache_hit_tokens)
            .or(wire.cached_tokens)
            .unwrap_or_default()
            .min(prompt);
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
            default_for!(null bool number object);
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
