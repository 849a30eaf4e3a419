//! Turns the parts of a reply into the events of a stream.

use crate::reply_machine::ReplyPiece;
use pinion_protocol::{PartKind, StreamEvent};

/// Writes events, with at most one open part.
#[derive(Debug)]
pub(crate) struct EventWriter {
    id_seed: String,
    index: usize,
    calls: usize,
    open: Option<PartKind>,
    /// Bytes of the open part that are not sent.
    pending: Vec<u8>,
    events: Vec<StreamEvent>,
}

impl EventWriter {
    /// Starts without parts. Calls get numbers after `id_seed`.
    pub(crate) fn new(id_seed: String) -> Self {
        Self { id_seed, index: 0, calls: 0, open: None, pending: Vec::new(), events: Vec::new() }
    }

    /// Adds a part of the reply.
    pub(crate) fn write(&mut self, piece: ReplyPiece) {
        match piece {
            ReplyPiece::Thinking(byte) => self.extend(PartKind::Thinking, byte),
            ReplyPiece::Text(byte) => self.extend(PartKind::Text, byte),
            ReplyPiece::Argument(byte) => self.pending.push(byte),
            ReplyPiece::CallEnd => self.close(),
            ReplyPiece::CallStart(name) => {
                self.calls += 1;
                let id = format!("{}_{}", self.id_seed, self.calls);
                self.open(PartKind::ToolCall { id, name });
            }
        }
    }

    /// Returns the events so far. Bytes of an incomplete character wait for the rest of it.
    pub(crate) fn take_events(&mut self) -> Vec<StreamEvent> {
        self.flush(false);
        std::mem::take(&mut self.events)
    }

    /// Ends the open part, and returns the rest of the events.
    pub(crate) fn finish(&mut self) -> Vec<StreamEvent> {
        self.close();
        std::mem::take(&mut self.events)
    }

    fn extend(&mut self, kind: PartKind, byte: u8) {
        if self.open.as_ref() != Some(&kind) {
            self.open(kind);
        }
        self.pending.push(byte);
    }

    fn open(&mut self, kind: PartKind) {
        self.close();
        self.events.push(StreamEvent::PartStart { index: self.index, part: kind.clone() });
        self.open = Some(kind);
    }

    fn close(&mut self) {
        self.flush(true);
        if self.open.take().is_some() {
            self.events.push(StreamEvent::PartEnd { index: self.index, signature: None });
            self.index += 1;
        }
    }

    fn flush(&mut self, is_end: bool) {
        let complete = match std::str::from_utf8(&self.pending) {
            Err(error) if !is_end && error.error_len().is_none() => error.valid_up_to(),
            _ => self.pending.len(),
        };
        let rest = self.pending.split_off(complete);
        let bytes = std::mem::replace(&mut self.pending, rest);
        if !bytes.is_empty() {
            let delta = String::from_utf8_lossy(&bytes).into_owned();
            self.events.push(StreamEvent::Delta { index: self.index, delta });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_never_cut() {
        let mut writer = EventWriter::new("c".to_owned());
        let mut deltas = Vec::new();
        for byte in "é\u{1f600}!".bytes().chain([0xC3]) {
            writer.write(ReplyPiece::Text(byte));
            deltas.extend(writer.take_events());
        }
        deltas.extend(writer.finish());
        let text: Vec<&str> = deltas
            .iter()
            .filter_map(|event| match event {
                StreamEvent::Delta { delta, .. } => Some(delta.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, ["é", "\u{1f600}", "!", "\u{fffd}"]);
        assert!(matches!(deltas.first(), Some(StreamEvent::PartStart { index: 0, part: PartKind::Text })));
        assert!(matches!(deltas.last(), Some(StreamEvent::PartEnd { index: 0, .. })));
    }

    #[test]
    fn calls_have_ids_of_their_own() {
        let mut writer = EventWriter::new("c".to_owned());
        for name in ["a", "b"] {
            writer.write(ReplyPiece::CallStart(name.to_owned()));
            b"{}".iter().for_each(|byte| writer.write(ReplyPiece::Argument(*byte)));
            writer.write(ReplyPiece::CallEnd);
        }
        let events = writer.finish();
        let ids: Vec<String> = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::PartStart { part: PartKind::ToolCall { id, .. }, .. } => Some(id.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(ids, ["c_1", "c_2"]);
        assert_eq!(events.len(), 6);
    }
}
