//! The reply decoder.

use crate::decode::json::{self, parse};
use crate::decode::{ReplyState, Writer, Writing};
use crate::transport::classify_object;
use pinion_protocol::{ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The state of one reply.
#[derive(Debug)]
pub struct Reply {
    writer: Writer,
}

impl ReplyState for Reply {
    fn new(id_seed: String) -> Self {
        Self { writer: Writer::new(id_seed) }
    }

    fn has_ended(&self) -> bool {
        self.writer.parts.ended()
    }

    fn event(&mut self, line: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let writer = &mut self.writer;
        if writer.parts.ended() {
            return Ok(());
        }
        let chunk: Chunk<'_> = parse(line)?;
        let usage = Usage {
            input: chunk.prompt_eval_count.unwrap_or_default(),
            output: chunk.eval_count.unwrap_or_default(),
            ..Usage::default()
        };
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            writer.parts.usage(usage, events);
            return Err(failure(&error));
        }
        if !chunk.model.is_empty() || chunk.message.is_some() {
            writer.parts.start(Some(&chunk.model), events);
        }
        let message = chunk.message.unwrap_or_default();
        writer.write(Writing::Thinking, &message.thinking, events)?;
        writer.write(Writing::Text, &message.content, events)?;
        for WireCall { id, function } in message.tool_calls {
            // Tools of another kind are the server's own.
            let Some(function) = function else { continue };
            let arguments = function.arguments.map_or("{}", RawValue::get);
            writer.call((id.into_owned(), function.name.into_owned()), arguments, "", events)?;
        }
        if chunk.done {
            writer.parts.usage(usage, events);
            let is_cut = chunk.done_reason == "length";
            writer.parts.end(if is_cut { StopReason::Length } else { StopReason::Stop }, events);
        }
        Ok(())
    }
}

/// The server reports only a message. In mid-reply it counts as the server's own failure unless the text says
/// otherwise.
fn failure(error: &Value) -> ProviderError {
    match classify_object(error) {
        ProviderError::Api { message, .. } => ProviderError::Overloaded { message, retry_after: None },
        other => other,
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    model: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    message: Option<Delta<'a>>,
    #[serde(deserialize_with = "json::flag")]
    done: bool,
    #[serde(borrow, deserialize_with = "json::text")]
    done_reason: Cow<'a, str>,
    #[serde(deserialize_with = "json::count")]
    prompt_eval_count: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
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
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireFunction<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}
