//! The reply decoder.

use crate::decode::json::{self, Arguments, parse};
use crate::decode::{PartWriter, ReplyState, Writing};
use crate::formats::stop_reason::unlisted;
use crate::transport::classify_object;
use pinion_protocol::{ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The state of one reply.
#[derive(Debug)]
pub struct OllamaReply {
    writer: PartWriter,
    /// The counts, which the server omits for a prompt that it had cached.
    usage: Usage,
}

impl ReplyState for OllamaReply {
    fn new(id_seed: String) -> Self {
        Self { writer: PartWriter::new(id_seed), usage: Usage::default() }
    }

    fn has_ended(&self) -> bool {
        self.writer.parts.ended()
    }

    fn event(&mut self, line: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let writer = &mut self.writer;
        if writer.parts.ended() {
            return Ok(());
        }
        let chunk: OllamaChunk<'_> = parse(line)?;
        self.usage.input = self.usage.input.max(chunk.prompt_eval_count.unwrap_or_default());
        self.usage.output = self.usage.output.max(chunk.eval_count.unwrap_or_default());
        if let Some(error) = chunk.error {
            writer.parts.usage(self.usage, events);
            return Err(classify_object(&error));
        }
        if !chunk.model.is_empty() || chunk.message.is_some() {
            writer.parts.start(Some(&chunk.model), events);
        }
        let message = chunk.message.unwrap_or_default();
        writer.write(Writing::Thinking, &message.thinking, events)?;
        writer.text(&message.content, events)?;
        for WireCall { id, function, mut others, .. } in message.tool_calls {
            // Tools of another kind are the server's own.
            let Some(function) = function else { continue };
            others.retain(|_, value| !value.is_null());
            let signature = if others.is_empty() { String::new() } else { Value::Object(others).to_string() };
            let arguments = function.arguments.of_complete_call();
            writer.call((id.into_owned(), function.name.into_owned()), arguments, &signature, events)?;
        }
        if chunk.done {
            writer.parts.usage(self.usage, events);
            let reason = match &*chunk.done_reason {
                "length" => StopReason::Length,
                // `stop`, `load`, and future reasons.
                reason => unlisted(reason)?,
            };
            writer.end(reason, events)?;
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OllamaChunk<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    model: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    message: Option<OllamaDelta<'a>>,
    #[serde(deserialize_with = "json::flag")]
    done: bool,
    #[serde(borrow, deserialize_with = "json::text")]
    done_reason: Cow<'a, str>,
    #[serde(deserialize_with = "json::count")]
    prompt_eval_count: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    eval_count: Option<u64>,
    #[serde(deserialize_with = "json::error")]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OllamaDelta<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    content: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    thinking: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::objects")]
    tool_calls: Vec<WireCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCall<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    function: Option<WireFunction<'a>>,
    #[serde(rename = "type")]
    _type: IgnoredAny,
    /// Fields that only the server understands, such as a signature.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireFunction<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Arguments<'a>,
}
