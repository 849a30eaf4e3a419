//! Divides the bytes of a reply into thinking, text and tool calls, however tokens cut them, and tells which bytes may
//! follow.
//!
//! Thinking counts at the beginning of the reply only; later, its tags may be part of an answer about them.

use crate::call_machine::{CallMachine, CallOutput, CallableTools, OPENING_TAG};
use std::sync::Arc;

const THINK: &[u8] = b"<think>";
const THINK_END: &[u8] = b"</think>";

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplyPiece {
    Thinking(u8),
    Text(u8),
    CallStart(String),
    Argument(u8),
    CallEnd,
}

/// A position in a reply.
#[derive(Debug, Clone)]
pub(crate) struct ReplyMachine {
    tools: Arc<CallableTools>,
    state: ReplyState,
    /// Bytes that may be the beginning of a tag.
    held: Vec<u8>,
    /// Text is not allowed before a call.
    must_call: bool,
    has_called: bool,
}

#[derive(Debug, Clone)]
enum ReplyState {
    /// Before anything but whitespace, where thinking may begin if the flag is set.
    Start(bool),
    Thinking,
    Answer,
    Call(Box<CallMachine>),
}

impl ReplyMachine {
    /// Starts a reply that may call `tools`, and must if `must_call`. The prompt may have begun the thinking.
    pub(crate) fn new(tools: Arc<CallableTools>, must_call: bool, is_thinking: bool) -> Self {
        let state = if is_thinking { ReplyState::Thinking } else { ReplyState::Start(true) };
        let must_call = must_call && !tools.is_empty();
        Self { tools, state, held: Vec::new(), must_call, has_called: false }
    }

    /// Returns whether bytes may follow.
    pub(crate) fn allows(&self, bytes: &[u8]) -> bool {
        let is_free = !self.must_call && self.held.is_empty() && !matches!(self.state, ReplyState::Call(_));
        if is_free && !bytes.contains(&b'<') {
            return true;
        }
        self.clone().accept(bytes, &mut |_| {})
    }

    /// Returns whether the reply may end here.
    pub(crate) fn may_end(&self) -> bool {
        !self.must_call && !matches!(self.state, ReplyState::Call(_))
    }

    /// Returns whether the reply called a tool.
    pub(crate) fn has_called(&self) -> bool {
        self.has_called
    }

    /// Returns whether the reply is within a call.
    pub(crate) fn is_calling(&self) -> bool {
        matches!(self.state, ReplyState::Call(_))
    }

    /// Accepts bytes, or returns `false`; the machine is then unusable.
    pub(crate) fn accept(&mut self, bytes: &[u8], found: &mut dyn FnMut(ReplyPiece)) -> bool {
        bytes.iter().all(|byte| self.accept_byte(*byte, found))
    }

    /// Passes on bytes that turned out to be no tag, at the end of the reply.
    pub(crate) fn finish(&mut self, found: &mut dyn FnMut(ReplyPiece)) {
        for byte in std::mem::take(&mut self.held) {
            found(if matches!(self.state, ReplyState::Thinking) {
                ReplyPiece::Thinking(byte)
            } else {
                ReplyPiece::Text(byte)
            });
        }
    }

    fn accept_byte(&mut self, byte: u8, found: &mut dyn FnMut(ReplyPiece)) -> bool {
        if let ReplyState::Call(call) = &mut self.state {
            let Some(output) = call.accept(byte) else { return false };
            match output {
                CallOutput::Nothing => {}
                CallOutput::Name(name) => found(ReplyPiece::CallStart(name)),
                CallOutput::Argument(is_last) => {
                    found(ReplyPiece::Argument(byte));
                    if is_last {
                        (self.has_called, self.must_call) = (true, false);
                        found(ReplyPiece::CallEnd);
                    }
                }
                CallOutput::End => self.state = ReplyState::Start(false),
            }
            return true;
        }
        self.held.push(byte);
        while !self.held.is_empty() {
            let tags = self.tags();
            if tags.contains(&Some(self.held.as_slice())) {
                self.state = match &self.held[..] {
                    THINK => ReplyState::Thinking,
                    THINK_END => ReplyState::Start(false),
                    _ => ReplyState::Call(Box::new(CallMachine::new(self.tools.clone()))),
                };
                self.held.clear();
                return true;
            }
            if tags.iter().flatten().any(|tag| tag.starts_with(&self.held)) {
                return true;
            }
            let first = self.held.remove(0);
            match &self.state {
                ReplyState::Start(_) if first.is_ascii_whitespace() => {}
                ReplyState::Thinking => found(ReplyPiece::Thinking(first)),
                _ if self.must_call => return false,
                _ => {
                    self.state = ReplyState::Answer;
                    found(ReplyPiece::Text(first));
                }
            }
        }
        true
    }

    fn tags(&self) -> [Option<&'static [u8]>; 2] {
        let call = (!self.tools.is_empty()).then_some(OPENING_TAG.as_bytes());
        match self.state {
            ReplyState::Start(may_think) => [may_think.then_some(THINK), call],
            ReplyState::Thinking => [Some(THINK_END), None],
            ReplyState::Answer => [call, None],
            ReplyState::Call(_) => [None, None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::ToolDefinition;
    use serde_json::json;

    fn tool(name: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.to_owned(),
            label: String::new(),
            description: String::new(),
            input_schema: json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] }),
            guidelines: Vec::new(),
            authority: pinion_protocol::Authority::default(),
            execution: pinion_protocol::Execution::Parallel,
            source: pinion_protocol::ToolSource::default(),
        }
    }

    fn tools() -> Arc<CallableTools> {
        Arc::new(CallableTools::new(&[tool("read"), tool("read_all")]))
    }

    /// Feeds pieces, and writes down the parts of the reply.
    fn parts(pieces: &[&str], must_call: bool, is_thinking: bool) -> Option<String> {
        let mut machine = ReplyMachine::new(tools(), must_call, is_thinking);
        let mut whole = Vec::new();
        let mut last = ' ';
        let mut found = |piece| {
            let (kind, bytes) = match piece {
                ReplyPiece::Thinking(byte) => ('?', vec![byte]),
                ReplyPiece::Text(byte) => ('=', vec![byte]),
                ReplyPiece::CallStart(name) => ('@', name.into_bytes()),
                ReplyPiece::Argument(byte) => ('#', vec![byte]),
                ReplyPiece::CallEnd => ('.', Vec::new()),
            };
            if std::mem::replace(&mut last, kind) != kind {
                whole.push(kind as u8);
            }
            whole.extend(bytes);
        };
        let is_accepted = pieces.iter().all(|piece| machine.accept(piece.as_bytes(), &mut found));
        machine.finish(&mut found);
        is_accepted.then(|| String::from_utf8(whole).unwrap())
    }

    #[test]
    fn parts_are_the_same_however_the_reply_is_cut() {
        let call = "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"</tool_call>\"}}\n</tool_call>";
        let cases = [
            ("a <b> </think> c".to_owned(), "=a <b> </think> c"),
            ("\n<think>\nx < y</think>\n\nz".to_owned(), "?\nx < y=z"),
            (format!("Look.\n{call}\n{call}"), "=Look.\n@read#{\"path\": \"</tool_call>\"}.@read#{\"path\": \"</tool_call>\"}."),
            (format!("<think>a</think>{call}"), "?a@read#{\"path\": \"</tool_call>\"}."),
            ("<tool_".to_owned(), "=<tool_"),
            (
                "<tool_call>[{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}, {\"name\": \"read_all\", \"arguments\": {\"path\":\"b\"}}]</tool_call>".to_owned(),
                "@read#{\"path\": \"a\"}.@read_all#{\"path\":\"b\"}.",
            ),
        ];
        for (whole, expected) in cases {
            assert_eq!(parts(&[&whole], false, false).as_deref(), Some(expected), "{whole}");
            for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
                assert_eq!(
                    parts(&[&whole[..at], &whole[at..]], false, false).as_deref(),
                    Some(expected),
                    "cut at {at}"
                );
            }
        }
        assert_eq!(parts(&["hm</think>a"], false, true).as_deref(), Some("?hm=a"));
    }

    #[test]
    fn malformed_calls_cannot_be_written() {
        let begun = "<tool_call>\n{\"name\": \"read";
        for next in ["x", "\"}", "\", \"arguments\": {}", "\", \"arguments\": {\"path\": \"a\"}} "] {
            let mut machine = ReplyMachine::new(tools(), false, false);
            assert!(machine.accept(begun.as_bytes(), &mut |_| {}));
            assert_eq!(machine.allows(next.as_bytes()), next.ends_with("} "), "{next}");
            assert!(!machine.may_end() && machine.is_calling());
        }
        let machine = ReplyMachine::new(tools(), false, false);
        assert!(machine.allows(b"<tool_call>\n{") && !machine.allows(b"<tool_call> call"));
    }

    #[test]
    fn required_call_leaves_no_room_for_text() {
        let machine = ReplyMachine::new(tools(), true, false);
        assert!(!machine.allows(b"Hello") && machine.allows(b"\n") && machine.allows(b"<tool") && !machine.may_end());
        assert!(machine.allows(b"<think>a</think>\n<tool_call>"));
        let call = "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>done";
        assert_eq!(parts(&[call], true, false).as_deref(), Some("@read#{\"path\": \"a\"}.=done"));
        assert!(ReplyMachine::new(Arc::new(CallableTools::new([])), true, false).allows(b"Hello"));
    }
}
