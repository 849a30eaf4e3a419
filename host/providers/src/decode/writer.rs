//! Parts for formats whose text and thinking come without a number.

use super::parts::Parts;
use super::thoughts::Thoughts;
use pinion_protocol::{PartKind, ProviderError, StopReason, StreamEvent};

/// Parts keyed by the order of their beginnings, with at most one of them open for text or thinking.
#[derive(Debug)]
pub(crate) struct PartWriter {
    pub(crate) parts: Parts<u64>,
    next: u64,
    current: Option<(u64, Writing)>,
    /// Thinking parts stay open to the end of the reply.
    holds_thinking: bool,
    thoughts: Thoughts,
}

/// The kind of the part that is open for more text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    Text,
    Thinking,
}

impl PartWriter {
    /// No parts. Tool calls without an ID receive one that begins with `id_seed`.
    pub(crate) fn new(id_seed: String) -> Self {
        Self {
            parts: Parts::new(id_seed),
            next: 0,
            current: None,
            holds_thinking: false,
            thoughts: Thoughts::default(),
        }
    }

    /// The key of the open thinking part.
    pub(crate) fn thinking(&self) -> Option<u64> {
        self.current.filter(|(_, writing)| *writing == Writing::Thinking).map(|(key, _)| key)
    }

    /// Keeps thinking parts open to the end of the reply, because their signature may still follow.
    pub(crate) fn hold_thinking(&mut self) {
        self.holds_thinking = true;
    }

    /// Appends text; a block of thinking at its beginning becomes a separate part.
    pub(crate) fn text(&mut self, text: &str, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let mut thoughts = std::mem::take(&mut self.thoughts);
        let pushed = thoughts.push(text, &mut |writing, text| self.write(writing, text, events));
        self.thoughts = thoughts;
        pushed
    }

    /// Appends the text that was held back because it could be the start of a block of thinking.
    fn flush(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let mut thoughts = std::mem::take(&mut self.thoughts);
        let flushed = thoughts.flush(&mut |writing, text| self.write(writing, text, events));
        self.thoughts = thoughts;
        flushed
    }

    /// Ends the reply.
    pub(crate) fn end(&mut self, reason: StopReason, events: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.flush(events)?;
        self.parts.end(reason, events);
        Ok(())
    }

    /// Appends text or thinking. A change between the two ends the open part and begins another; empty text does neither.
    pub(crate) fn write(
        &mut self,
        writing: Writing,
        text: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        let key = match self.current {
            Some((key, current)) if current == writing => key,
            _ => {
                let kind = match writing {
                    Writing::Text => PartKind::Text,
                    Writing::Thinking => PartKind::Thinking,
                };
                let key = self.begin_part(kind, events)?;
                self.current = Some((key, writing));
                key
            }
        };
        self.parts.add(&key, text, events);
        Ok(())
    }

    /// Ends the open part and begins one of `kind`, which the caller ends.
    pub(crate) fn begin(&mut self, kind: PartKind, events: &mut Vec<StreamEvent>) -> Result<u64, ProviderError> {
        self.flush(events)?;
        self.begin_part(kind, events)
    }

    fn begin_part(&mut self, kind: PartKind, events: &mut Vec<StreamEvent>) -> Result<u64, ProviderError> {
        self.end_writing(events);
        let key = self.next;
        self.next += 1;
        self.parts.begin(key, kind, events)?;
        Ok(key)
    }

    /// Adds a tool call that arrives complete.
    pub(crate) fn call(
        &mut self,
        (id, name): (String, String),
        arguments: &str,
        signature: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let key = self.begin(PartKind::ToolCall { id, name }, events)?;
        self.parts.add(&key, arguments, events);
        self.parts.sign(&key, signature)?;
        self.parts.end_part(&key, events);
        Ok(())
    }

    /// Ends the part that is open for text or thinking.
    pub(crate) fn end_writing(&mut self, events: &mut Vec<StreamEvent>) {
        match self.current.take() {
            Some((_, Writing::Thinking)) if self.holds_thinking => {}
            Some((key, _)) => self.parts.end_part(&key, events),
            None => {}
        }
    }
}
