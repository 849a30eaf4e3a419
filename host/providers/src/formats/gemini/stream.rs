//! The reply decoder.

use super::ON_TEXT;
use crate::decode::json::{self, Arguments, parse};
use crate::decode::{PartWriter, ReplyState, Writing, broke_off};
use crate::formats::conversation::has_text;
use crate::formats::stop_reason::{Announced, announce, blocked, failed, unlisted};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// The state of one reply.
#[derive(Debug)]
pub struct GeminiReply {
    writer: PartWriter,
    stop: Announced,
    usage: GeminiUsage,
}

impl ReplyState for GeminiReply {
    fn new(id_seed: String) -> Self {
        Self { writer: PartWriter::new(id_seed), stop: None, usage: GeminiUsage::default() }
    }

    fn has_ended(&self) -> bool {
        self.writer.parts.ended()
    }

    /// The vendor marks the end of a reply only by closing the connection.
    fn close(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let stop = self.stop.take().ok_or_else(broke_off)?;
        self.writer.parts.end(stop?, events);
        Ok(())
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let chunk: GeminiChunk<'_> = parse(data)?;
        let has_counts = |usage: &GeminiUsage| usage.prompt_token_count.or(usage.candidates_token_count).is_some();
        if let Some(usage) = chunk.usage_metadata.filter(has_counts) {
            self.usage.grow(usage);
            self.writer.parts.start(Some(&chunk.model_version), events);
            self.writer.parts.usage(self.usage.into(), events);
        }
        if let Some(error) = chunk.error {
            return Err(classify_object(&error));
        }
        let is_known =
            |candidate: &GeminiCandidate<'_>| candidate.content.is_some() || !candidate.finish_reason.is_empty();
        if !chunk.model_version.is_empty() || chunk.candidates.iter().any(is_known) {
            self.writer.parts.start(Some(&chunk.model_version), events);
        }
        let blocked_for = chunk.prompt_feedback.unwrap_or_default().block_reason;
        if !matches!(&*blocked_for, "" | "BLOCK_REASON_UNSPECIFIED") {
            announce(&mut self.stop, Err(blocked(&format!("the vendor blocked the prompt ({blocked_for})"))));
        }
        let first = |candidate: &GeminiCandidate<'_>| candidate.index.unwrap_or_default() == 0;
        chunk.candidates.into_iter().filter(first).try_for_each(|candidate| self.candidate(candidate, events))
    }
}

impl GeminiReply {
    fn candidate(
        &mut self,
        candidate: GeminiCandidate<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        for part in candidate.content.unwrap_or_default().parts {
            self.add_part(part, events)?;
        }
        if !candidate.finish_reason.is_empty() {
            announce(&mut self.stop, stop_reason(&candidate.finish_reason, &candidate.finish_message));
        }
        Ok(())
    }

    fn add_part(&mut self, part: WirePart<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let signature = part.thought_signature;
        // A call without a name continues one whose arguments arrive in pieces, which no request asks for.
        if let Some(call) = part.function_call {
            if call.name.is_empty() {
                return Ok(());
            }
            let arguments = call.args.of_complete_call();
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
        if !part.thought && !part.text.is_empty() {
            self.writer.parts.sign(&key, ON_TEXT)?;
        }
        self.writer.parts.sign(&key, &signature)?;
        // A signature completes the thinking.
        self.writer.end_writing(events);
        self.writer.parts.end_part(&key, events);
        Ok(())
    }
}

fn stop_reason(reason: &str, message: &str) -> Result<StopReason, ProviderError> {
    let describe = |what: &str| match has_text(message) {
        true => format!("{what} ({reason}): {message}"),
        false => format!("{what} ({reason})"),
    };
    match reason {
        "STOP" => Ok(StopReason::Stop),
        "MAX_TOKENS" => Ok(StopReason::Length),
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Err(blocked(&describe("the vendor's filter cut off the reply"))),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
            Err(failed(&describe("the model's call was malformed")))
        }
        "MALFORMED_RESPONSE" => Err(failed(&describe("the model's reply was malformed"))),
        "OTHER" | "IMAGE_OTHER" | "NO_IMAGE" | "MISSING_THOUGHT_SIGNATURE" => {
            Err(blocked(&describe("the vendor ended the reply")))
        }
        reason => unlisted(reason),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiChunk<'a> {
    #[serde(borrow, deserialize_with = "json::objects")]
    candidates: Vec<GeminiCandidate<'a>>,
    #[serde(borrow, deserialize_with = "json::object")]
    prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(deserialize_with = "json::object")]
    usage_metadata: Option<GeminiUsage>,
    #[serde(borrow, deserialize_with = "json::text")]
    model_version: Cow<'a, str>,
    #[serde(deserialize_with = "json::error")]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    block_reason: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiCandidate<'a> {
    #[serde(deserialize_with = "json::count")]
    index: Option<u64>,
    #[serde(borrow, deserialize_with = "json::object")]
    content: Option<WireContent<'a>>,
    #[serde(borrow, deserialize_with = "json::text")]
    finish_reason: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    finish_message: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireContent<'a> {
    #[serde(borrow, deserialize_with = "json::objects")]
    parts: Vec<WirePart<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    text: Cow<'a, str>,
    #[serde(deserialize_with = "json::flag")]
    thought: bool,
    #[serde(borrow, deserialize_with = "json::text")]
    thought_signature: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::object")]
    function_call: Option<WireCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCall<'a> {
    #[serde(borrow, deserialize_with = "json::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "json::text")]
    name: Cow<'a, str>,
    #[serde(borrow)]
    args: Arguments<'a>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiUsage {
    #[serde(deserialize_with = "json::count")]
    prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    cached_content_token_count: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    candidates_token_count: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    thoughts_token_count: Option<u64>,
    #[serde(deserialize_with = "json::count")]
    total_token_count: Option<u64>,
}

impl GeminiUsage {
    /// Takes over counts that grew. The last chunk may have fewer of them than those before it.
    fn grow(&mut self, later: Self) {
        self.prompt_token_count = self.prompt_token_count.max(later.prompt_token_count);
        self.cached_content_token_count = self.cached_content_token_count.max(later.cached_content_token_count);
        self.tool_use_prompt_token_count = self.tool_use_prompt_token_count.max(later.tool_use_prompt_token_count);
        self.candidates_token_count = self.candidates_token_count.max(later.candidates_token_count);
        self.thoughts_token_count = self.thoughts_token_count.max(later.thoughts_token_count);
        self.total_token_count = self.total_token_count.max(later.total_token_count);
    }
}

impl From<GeminiUsage> for Usage {
    /// The vendor counts cached tokens as part of the prompt, but thinking apart from the answer. The total has them all.
    fn from(wire: GeminiUsage) -> Self {
        let [prompt, cached, of_tools, answer, thoughts, total] = [
            wire.prompt_token_count,
            wire.cached_content_token_count,
            wire.tool_use_prompt_token_count,
            wire.candidates_token_count,
            wire.thoughts_token_count,
            wire.total_token_count,
        ]
        .map(Option::unwrap_or_default);
        let cache_read = cached.min(prompt);
        let beyond_input = total.saturating_sub(prompt).saturating_sub(of_tools);
        Self {
            input: (prompt - cache_read).saturating_add(of_tools),
            output: answer.saturating_add(thoughts).max(beyond_input),
            cache_read,
            cache_write: 0,
        }
    }
}
