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
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure(&error));
        }
        writer.parts.start(chunk.model.as_deref(), events);
        let message = chunk.message.unwrap_or_default();
        writer.write(Writing::Thinking, &message.thinking, events)?;
        writer.write(Writing::Text, &message.content, events)?;
        for WireCall { id, function } in message.tool_calls {
            let arguments = function.arguments.map_or("{}", RawValue::get);
            writer.call((id.into_owned(), function.name.into_owned()), arguments, "", events)?;
        }
        if chunk.done {
            let usage = Usage { input: chunk.prompt_eval_count, output: chunk.eval_count, ..Usage::default() };
            writer.parts.usage(usage, events);
            let is_cut = chunk.done_reason.as_deref() == Some("length");
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

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    #[serde(default)]
    done: bool,
    #[serde(borrow)]
    done_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    prompt_eval_count: u64,
    #[serde(default)]
    eval_count: u64,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    content: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    thinking: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::or_default")]
    tool_calls: Vec<WireCall<'a>>,
}

#[derive(Deserialize)]
struct WireCall<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    function: WireFunction<'a>,
}

#[derive(Deserialize)]
struct WireFunction<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}
