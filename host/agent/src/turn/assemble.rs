//! Assembles the events of a reply into a message.

use pinion_protocol::content::without_thoughts;
use pinion_protocol::content::{Content, Thinking, ToolCall};
use pinion_protocol::event::ContentDelta;
use pinion_protocol::message::StopReason;
use pinion_protocol::provider::{PartKind, ProviderError, StreamEvent};
use pinion_protocol::usage::Usage;

/// Maximum bytes of one reply. Models write a few hundred KB at most; the limit stops a runaway server.
const MAX_REPLY_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of parts of one reply.
const MAX_PARTS: usize = 10_000;

/// A reply that is being received.
#[derive(Default)]
pub(crate) struct Assembly {
    parts: Vec<ReplyPart>,
    bytes: usize,
    pub(crate) model: Option<String>,
    pub(crate) usage: Usage,
    /// Set once the reply is complete.
    pub(crate) stop_reason: Option<StopReason>,
}

struct ReplyPart {
    kind: PartKind,
    text: String,
    signature: Option<String>,
    is_complete: bool,
}

/// Effect of an event on the watchers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EventEffect {
    /// No effect.
    Quiet,
    /// The reply started.
    Started,
    /// A part grew.
    Grew(usize, ContentDelta),
}

impl Assembly {
    /// Processes the next event.
    pub(crate) fn apply_event(&mut self, event: StreamEvent) -> Result<EventEffect, ProviderError> {
        if self.stop_reason.is_some() {
            return Err(malformed("event after the end of the reply"));
        }
        match event {
            StreamEvent::Start { model } => {
                self.model = model.or(self.model.take());
                Ok(EventEffect::Started)
            }
            StreamEvent::PartStart { index, part } => self.start(index, part),
            StreamEvent::Delta { index, delta } => self.grow(index, delta),
            StreamEvent::PartEnd { index, signature } => {
                let part = self.open(index)?;
                part.is_complete = true;
                part.signature = signature;
                Ok(EventEffect::Quiet)
            }
            StreamEvent::Usage(usage) => {
                self.usage = usage;
                Ok(EventEffect::Quiet)
            }
            StreamEvent::End { stop_reason } => {
                self.stop_reason = Some(stop_reason);
                Ok(EventEffect::Quiet)
            }
        }
    }

    fn start(&mut self, index: usize, kind: PartKind) -> Result<EventEffect, ProviderError> {
        if index != self.parts.len() || index >= MAX_PARTS {
            return Err(malformed(&format!("part {index} starts where part {} is expected", self.parts.len())));
        }
        let step = match &kind {
            PartKind::ToolCall { id, name } => {
                EventEffect::Grew(index, ContentDelta::ToolCallStart { call_id: id.clone(), tool: name.clone() })
            }
            _ => EventEffect::Quiet,
        };
        self.parts.push(ReplyPart { kind, text: String::new(), signature: None, is_complete: false });
        Ok(step)
    }

    fn grow(&mut self, index: usize, delta: String) -> Result<EventEffect, ProviderError> {
        self.bytes += delta.len();
        if self.bytes > MAX_REPLY_BYTES {
            return Err(malformed(&format!("the reply is longer than {MAX_REPLY_BYTES} bytes")));
        }
        let part = self.open(index)?;
        part.text.push_str(&delta);
        Ok(match part.kind {
            PartKind::Text => EventEffect::Grew(index, ContentDelta::Text { delta }),
            PartKind::Thinking => EventEffect::Grew(index, ContentDelta::Thinking { delta }),
            PartKind::ToolCall { .. } => EventEffect::Grew(index, ContentDelta::ToolCallArguments { delta }),
            PartKind::RedactedThinking => EventEffect::Quiet,
        })
    }

    fn open(&mut self, index: usize) -> Result<&mut ReplyPart, ProviderError> {
        let part = self.parts.get_mut(index).filter(|part| !part.is_complete);
        part.ok_or_else(|| malformed(&format!("delta for part {index}, which is not open")))
    }

    /// Returns whether some of the reply's content has arrived.
    pub(crate) fn has_content(&self) -> bool {
        self.bytes > 0
    }

    /// Returns the content of the reply. Drops the calls of a failed or interrupted reply, even if they look complete,
    /// because the model may not have meant them to run without the rest.
    pub(crate) fn content(self) -> Vec<Content> {
        let calls = match self.stop_reason {
            Some(StopReason::Stop | StopReason::ToolUse) => Calls::Keep,
            Some(StopReason::Length) => Calls::KeepCutOff,
            Some(StopReason::Error | StopReason::Aborted) | None => Calls::Drop,
        };
        without_thoughts(self.parts.into_iter().filter_map(|part| part.content(calls)).collect())
    }
}

/// Treatment of tool calls.
#[derive(Clone, Copy)]
enum Calls {
    Keep,
    /// Those without arguments may have been cut off before their first byte.
    KeepCutOff,
    Drop,
}

impl ReplyPart {
    fn content(self, calls: Calls) -> Option<Content> {
        match self.kind {
            PartKind::Text => (!self.text.is_empty()).then_some(Content::Text { text: self.text }),
            PartKind::Thinking => {
                let is_empty = self.text.is_empty() && self.signature.is_none();
                let thinking = Thinking { text: self.text, signature: self.signature, redacted: false };
                (!is_empty).then_some(Content::Thinking(thinking))
            }
            PartKind::RedactedThinking => {
                Some(Content::Thinking(Thinking { text: String::new(), signature: self.signature, redacted: true }))
            }
            PartKind::ToolCall { id, name } => {
                let call = match calls {
                    Calls::Keep => ToolCall::from_stream(id, name, self.text),
                    Calls::KeepCutOff => ToolCall::from_cut_off_stream(id, name, self.text),
                    Calls::Drop => return None,
                };
                Some(Content::ToolCall(ToolCall { signature: self.signature, ..call }))
            }
        }
    }
}

fn malformed(message: &str) -> ProviderError {
    ProviderError::Malformed { message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn start(index: usize, part: PartKind) -> StreamEvent {
        StreamEvent::PartStart { index, part }
    }

    fn delta(index: usize, delta: &str) -> StreamEvent {
        StreamEvent::Delta { index, delta: delta.into() }
    }

    fn end(index: usize) -> StreamEvent {
        StreamEvent::PartEnd { index, signature: None }
    }

    fn call() -> PartKind {
        PartKind::ToolCall { id: "c".into(), name: "read".into() }
    }

    fn assemble(events: Vec<StreamEvent>) -> Assembly {
        let mut assembly = Assembly::default();
        events.into_iter().for_each(|event| {
            assembly.apply_event(event).unwrap();
        });
        assembly
    }

    #[test]
    fn interleaved_parts_are_ordered_by_their_start() {
        let stop = StreamEvent::End { stop_reason: StopReason::ToolUse };
        let assembly = assemble(vec![
            start(0, PartKind::Text),
            start(1, call()),
            delta(1, "{\"path\":"),
            delta(0, "hi"),
            delta(1, "\"a\"}"),
            end(1),
            end(0),
            stop,
        ]);
        let call = ToolCall::new("c", "read", json!({ "path": "a" }));
        assert_eq!(assembly.content(), [Content::text("hi"), Content::ToolCall(call)]);
    }

    #[test]
    fn parts_without_text_are_left_out_unless_they_are_signed() {
        let stop = || StreamEvent::End { stop_reason: StopReason::Stop };
        let thinking = |text: &str, signature: Option<&str>| {
            let signature = signature.map(str::to_owned);
            let ended = StreamEvent::PartEnd { index: 0, signature };
            assemble(vec![start(0, PartKind::Thinking), delta(0, text), ended, stop()]).content()
        };
        assert_eq!(
            [thinking("hm", None), thinking("", Some("s")), thinking("hm", Some("s"))].map(|parts| parts.len()),
            [1; 3]
        );
        assert_eq!(thinking("", None), []);
        assert_eq!(assemble(vec![start(0, PartKind::Text), end(0), stop()]).content(), []);
    }

    #[test]
    fn malformed_arguments_are_kept_verbatim() {
        let stop = StreamEvent::End { stop_reason: StopReason::Length };
        let content = assemble(vec![start(0, call()), delta(0, "{\"pa"), stop]).content();
        assert_eq!(content[0].as_tool_call().unwrap().partial.as_deref(), Some("{\"pa"));
    }

    #[test]
    fn call_without_arguments_is_complete_unless_the_output_limit_was_reached() {
        let call = |stop_reason| {
            let content = assemble(vec![start(0, call()), end(0), StreamEvent::End { stop_reason }]).content();
            content[0].as_tool_call().unwrap().clone()
        };
        assert_eq!(call(StopReason::ToolUse).arguments, json!({}));
        assert_eq!(call(StopReason::Length).partial.as_deref(), Some(""));
    }

    proptest! {
        #[test]
        fn call_that_is_cut_off_at_any_byte_is_partial(path in "[ -~]{0,20}", cut in 0_usize..40) {
            let complete = json!({ "path": path }).to_string();
            let cut = cut.min(complete.len() - 1);
            let stop = StreamEvent::End { stop_reason: StopReason::Length };
            let mut events = vec![start(0, call())];
            events.extend((cut > 0).then(|| delta(0, &complete[..cut])));
            events.push(stop);
            let content = assemble(events).content();
            prop_assert_eq!(content[0].as_tool_call().unwrap().partial.as_deref(), Some(&complete[..cut]));
        }
    }

    #[test]
    fn thinking_without_its_opening_tag_is_not_the_answer() {
        let stop = StreamEvent::End { stop_reason: StopReason::Stop };
        let events = vec![start(0, PartKind::Text), delta(0, "hm</th"), delta(0, "ink>\n\nhi"), end(0), stop];
        let thinking = Thinking { text: "hm".to_owned(), ..Thinking::default() };
        assert_eq!(assemble(events).content(), [Content::Thinking(thinking), Content::text("hi")]);
    }

    #[test]
    fn failed_reply_keeps_its_text_and_drops_its_calls() {
        let mut events = vec![start(0, PartKind::Text), delta(0, "so"), start(1, call()), delta(1, "{}"), end(1)];
        assert_eq!(assemble(events.clone()).content(), [Content::text("so")]);
        events.push(StreamEvent::End { stop_reason: StopReason::Error });
        assert_eq!(assemble(events).content(), [Content::text("so")]);
    }

    #[test]
    fn invalid_event_sequence_is_an_error() {
        for events in [
            vec![delta(0, "x")],
            vec![start(1, PartKind::Text)],
            vec![start(0, PartKind::Text), end(0), delta(0, "x")],
            vec![StreamEvent::End { stop_reason: StopReason::Stop }, delta(0, "x")],
        ] {
            let mut assembly = Assembly::default();
            let failed = events.into_iter().any(|event| assembly.apply_event(event).is_err());
            assert!(failed);
        }
    }
}
