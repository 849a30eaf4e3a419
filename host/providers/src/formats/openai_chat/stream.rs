//! The reply decoder.

use super::calls::Calls;
use super::reasoning::{Detail, ReasoningForm, readable};
use super::wire::{BaseResponse, CallDelta, ChatChunk, ContentPiece, ReplyDelta, TokenCounts, WireChoice};
use crate::decode::json::parse;
use crate::decode::{PartWriter, ReplyState, Writing, broke_off};
use crate::formats::stop_reason::{Announced, announce, blocked, failed, unlisted};
use crate::transport::classify_object;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent};
use serde_json::Value;
use std::borrow::Cow;

/// The state of one reply.
#[derive(Debug)]
pub struct ChatReply {
    writer: PartWriter,
    calls: Calls,
    counts: TokenCounts,
    stop: Announced,
    /// The key of the first thinking part in a separate field, and the form of all thinking.
    thinking: Option<u64>,
    reasoning: ReasoningForm,
    /// Readable thinking came in a separate field.
    has_text_field: bool,
    /// The key and the form of the open thinking part, where it is a part of the content.
    part: Option<(u64, ReasoningForm)>,
}

impl ReplyState for ChatReply {
    fn new(id_seed: String) -> Self {
        Self {
            writer: PartWriter::new(id_seed),
            calls: Calls::default(),
            counts: TokenCounts::default(),
            stop: None,
            thinking: None,
            reasoning: ReasoningForm::default(),
            has_text_field: false,
            part: None,
        }
    }

    fn has_ended(&self) -> bool {
        self.writer.parts.ended()
    }

    fn close(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let stop = self.stop.take().ok_or_else(broke_off)?;
        self.end(stop?, events)
    }

    fn done(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        let stop = self.stop.take().unwrap_or(Ok(StopReason::Stop));
        self.end(stop?, events)
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        let chunk: ChatChunk<'_> = parse(data)?;
        let mut error = failure(&chunk, data)?;
        let is_known = |choice: &WireChoice<'_>| {
            choice.delta.is_some() || choice.message.is_some() || !choice.finish_reason.is_empty()
        };
        if !chunk.model.is_empty() || chunk.choices.iter().any(is_known) {
            self.writer.parts.start(Some(&chunk.model), events);
        }
        let groq = chunk.x_groq.unwrap_or_default();
        let mut usage = chunk.usage.or(groq.usage);
        // A message along with deltas repeats them.
        let has_begun = !self.writer.parts.is_empty();
        for mut choice in chunk.choices.into_iter().filter(|choice| choice.index.unwrap_or_default() == 0) {
            usage = usage.or(choice.usage);
            error = error.or(choice.error.take());
            self.choice(choice, has_begun, events)?;
        }
        if usage.is_some_and(|usage| self.counts.grow(usage)) {
            self.writer.parts.usage(self.counts.into(), events);
        }
        error.or(groq.error).map_or(Ok(()), |error| Err(classify_object(&error)))
    }
}

/// Returns the error of a chunk, which some servers send without the field around it (vLLM, DashScope, Databricks), and
/// MiniMax in a separate field.
fn failure(chunk: &ChatChunk<'_>, data: &[u8]) -> Result<Option<Value>, ProviderError> {
    let has_code = [&chunk.code, &chunk.error_code].into_iter().any(Option::is_some);
    let is_bare = chunk.object == "error" || (chunk.choices.is_empty() && has_code && !chunk.message.is_empty());
    match chunk.error.clone() {
        None if is_bare => parse(data).map(Some),
        None => Ok(chunk.base_resp.as_ref().and_then(BaseResponse::error)),
        error => Ok(error),
    }
}

impl ChatReply {
    fn choice(
        &mut self,
        choice: WireChoice<'_>,
        has_begun: bool,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let message = choice.message.filter(|_| !has_begun);
        if let Some(delta) = choice.delta.or(message) {
            self.delta(delta, events)?;
        }
        if !choice.finish_reason.is_empty() {
            announce(&mut self.stop, stop_reason(&choice.finish_reason));
        }
        Ok(())
    }

    fn delta(&mut self, delta: ReplyDelta<'_>, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let fields = [
            ("reasoning_content", &delta.reasoning_content),
            ("reasoning", &delta.reasoning),
            ("reasoning_text", &delta.reasoning_text),
            ("thinking", &delta.thinking),
        ];
        match fields.iter().find(|(_, text)| !text.is_empty()) {
            Some((field, text)) => {
                self.has_text_field = true;
                self.think(field, text, events)?;
            }
            // Details repeat the text of a field.
            None if self.has_text_field => {}
            None => {
                let text: String = delta.reasoning_details.iter().chain(&delta.thinking_blocks).map(readable).collect();
                self.think("reasoning", &text, events)?;
            }
        }
        delta.reasoning_details.into_iter().try_for_each(|detail| self.reasoning.add_detail(detail))?;
        delta.thinking_blocks.into_iter().try_for_each(|block| self.reasoning.add_block(block))?;
        self.reasoning.add_others(delta.others)?;
        if self.reasoning.has_more_than_text() {
            self.writer.hold_thinking();
        }
        for piece in delta.content.0 {
            match piece {
                ContentPiece::Text(text) => self.write(&text, events)?,
                ContentPiece::Thinking(text, part) => self.think_in_content(&text, part, events)?,
            }
        }
        self.write(&delta.refusal, events)?;
        let function =
            delta.function_call.map(|function| CallDelta { function: Some(function), ..CallDelta::default() });
        for call in delta.tool_calls.into_iter().chain(function) {
            self.end_part()?;
            self.calls.delta(call, &mut self.writer, &mut self.reasoning, events)?;
        }
        Ok(())
    }

    fn write(&mut self, text: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if !text.is_empty() {
            self.end_part()?;
        }
        self.writer.text(text, events)
    }

    /// Appends thinking that came in a separate field, and stores the field's name with it.
    fn think(&mut self, field: &'static str, text: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let before = self.writer.thinking();
        self.writer.write(Writing::Thinking, text, events)?;
        match self.writer.thinking().filter(|key| before != Some(*key)) {
            Some(key) => {
                self.reasoning.field.get_or_insert(Cow::Borrowed(field));
                self.thinking.get_or_insert(key);
                self.writer.parts.set_signature(&key, ReasoningForm::of_field(field).to_signature()?)
            }
            None => Ok(()),
        }
    }

    /// Appends thinking that came as a part of the content.
    fn think_in_content(
        &mut self,
        text: &str,
        part: Detail,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.writer.write(Writing::Thinking, text, events)?;
        let Some(key) = self.writer.thinking() else { return Ok(()) };
        let (_, form) = self.part.get_or_insert_with(|| (key, ReasoningForm::default()));
        form.add_part(part)
    }

    /// Stores the form of the open thinking part, before something else follows it.
    fn end_part(&mut self) -> Result<(), ProviderError> {
        match self.part.take() {
            Some((key, form)) => self.writer.parts.set_signature(&key, form.to_signature()?),
            None => Ok(()),
        }
    }

    fn end(&mut self, reason: StopReason, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.end_part()?;
        self.calls.sign(&mut self.writer)?;
        if self.reasoning.has_more_than_text() {
            let key = match self.thinking.filter(|key| self.writer.parts.is_open(key)) {
                Some(key) => key,
                None => self.writer.begin(PartKind::RedactedThinking, events)?,
            };
            self.writer.parts.set_signature(&key, self.reasoning.to_signature()?)?;
        }
        self.writer.end(reason, events)
    }
}

fn stop_reason(reason: &str) -> Result<StopReason, ProviderError> {
    match reason {
        "stop" => Ok(StopReason::Stop),
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => Ok(StopReason::Length),
        "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
        // Z.ai's name for it is `sensitive`.
        "content_filter" | "sensitive" => Err(blocked("the vendor's content filter cut off the reply")),
        "error" => Err(failed("the vendor aborted the reply")),
        "network_error" => Err(failed("the vendor's model failed during the reply")),
        "insufficient_system_resource" => Err(failed("the vendor ran out of resources during the reply")),
        // `end`, `eos`, `abort`, and future reasons.
        reason => unlisted(reason),
    }
}
