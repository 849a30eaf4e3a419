//! The reply decoder.

use crate::decode::json::{self, parse};
use crate::decode::{ReplyState, Writer, Writing, broke_off};
use crate::formats::conversation::has_text;
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The state of one reply.
#[derive(Debug)]
pub struct Reply {
    writer: Writer,
    stop: Option<StopReason>,
}

impl ReplyState for Reply {
    fn new(id_seed: String) -> Self {
        Self { writer: Writer::new(id_seed), stop: None }
    }

    fn has_ended(&self) -> bool {
        self.writer.parts.ended()
    }

    /// The vendor marks the end of a reply only by closing the connection.
    fn close(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let reason = self.stop.ok_or_else(broke_off)?;
        self.writer.parts.end(reason, events);
        Ok(())
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        let chunk: Chunk<'_> = parse(data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(classify_object(&error));
        }
        self.writer.parts.start(chunk.model_version.as_deref(), events);
        if let Some(usage) = chunk.usage_metadata {
            self.writer.parts.usage(usage.into(), events);
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            return Err(blocked(&format!("the vendor blocked the prompt ({reason})")));
        }
        for candidate in chunk.candidates {
            if candidate.index == 0 {
                self.candidate(candidate, events)?;
            }
        }
        Ok(())
    }
}

impl Reply {
    fn candidate(&mut self, candidate: Candidate<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        for part in candidate.content.unwrap_or_default().parts {
            self.part(part, events)?;
        }
        if let Some(reason) = candidate.finish_reason.as_deref() {
            self.stop = Some(stop_reason(reason, candidate.finish_message.as_deref())?);
        }
        Ok(())
    }

    fn part(&mut self, part: WirePart<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let signature = part.thought_signature.unwrap_or_default();
        if let Some(call) = part.function_call {
            let arguments = call.args.map_or("{}", RawValue::get);
            return self.writer.call((call.id.into_owned(), call.name.into_owned()), arguments, &signature, events);
        }
        let writing = if part.thought { Writing::Thinking } else { Writing::Text };
        self.writer.write(writing, &part.text, events)?;
        if signature.is_empty() {
            return Ok(());
        }
        let key = match self.writer.thinking().filter(|_| part.thought) {
            Some(key) => key,
            None => self.writer.begin(PartKind::RedactedThinking, events)?,
        };
        self.writer.parts.sign(&key, &signature)?;
        // A signature completes the thinking.
        self.writer.end_writing(events);
        self.writer.parts.end_part(&key, events);
        Ok(())
    }
}

fn stop_reason(reason: &str, message: Option<&str>) -> Result<StopReason, ProviderError> {
    let describe = |what: &str| match message.filter(|message| has_text(message)) {
        Some(message) => format!("{what} ({reason}): {message}"),
        None => format!("{what} ({reason})"),
    };
    match reason {
        "MAX_TOKENS" => Ok(StopReason::Length),
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Err(blocked(&describe("the vendor's filter cut off the reply"))),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
            Err(ProviderError::Overloaded { message: describe("the model's call was malformed"), retry_after: None })
        }
        "OTHER" | "IMAGE_OTHER" | "NO_IMAGE" => Err(blocked(&describe("the vendor ended the reply"))),
        // `STOP` and future reasons.
        _ => Ok(StopReason::Stop),
    }
}

fn blocked(message: &str) -> ProviderError {
    ProviderError::Api { status: None, message: message.to_owned() }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default, deserialize_with = "json::or_default")]
    candidates: Vec<Candidate<'a>>,
    #[serde(borrow)]
    prompt_feedback: Option<PromptFeedback<'a>>,
    usage_metadata: Option<WireUsage>,
    #[serde(borrow)]
    model_version: Option<Cow<'a, str>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(borrow)]
    block_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    content: Option<WireContent<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    finish_message: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct WireContent<'a> {
    #[serde(borrow, default, deserialize_with = "json::or_default")]
    parts: Vec<WirePart<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(borrow, default, deserialize_with = "json::text")]
    text: Cow<'a, str>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow)]
    thought_signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function_call: Option<WireCall<'a>>,
}

#[derive(Deserialize)]
struct WireCall<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireUsage {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    tool_use_prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
}

impl From<WireUsage> for Usage {
    /// The vendor counts cached tokens as part of the prompt, but thinking apart from the answer.
    fn from(wire: WireUsage) -> Self {
        let cache_read = wire.cached_content_token_count.min(wire.prompt_token_count);
        Self {
            input: (wire.prompt_token_count - cache_read).saturating_add(wire.tool_use_prompt_token_count),
            output: wire.candidates_token_count.saturating_add(wire.thoughts_token_count),
            cache_read,
            cache_write: 0,
        }
    }
}
