//! Lines of a client over stdio: one that is too long is replaced by a request that gets an error.
//!
//! The transport would drop it, and its sender would wait forever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Method of the request in place of a line that is too long.
pub(super) const TOO_LONG: &str = "dev.pinion/message-too-long";
/// Bytes that are read at once.
const PACKET: usize = 64 << 10;
/// Bytes of an id; one that is longer cannot be answered.
const MAX_ID: usize = 256;

/// A reader of whole lines of at most `limit` bytes.
pub(super) struct BoundedLineReader<R> {
    reader: R,
    limit: usize,
    /// The line that is being read, unless it is too long.
    line: Vec<u8>,
    /// The search for the id of a line that is too long.
    long: Option<IdSearch>,
    /// Whole lines, and how much of them was handed on.
    ready: Vec<u8>,
    taken: usize,
    is_ended: bool,
}

impl<R> BoundedLineReader<R> {
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit, line: Vec::new(), long: None, ready: Vec::new(), taken: 0, is_ended: false }
    }

    fn add(&mut self, packet: &[u8]) {
        for part in packet.split_inclusive(|byte| *byte == b'\n') {
            match &mut self.long {
                Some(search) => search.add(part),
                None => {
                    self.line.extend_from_slice(part);
                    if self.line.len() > self.limit {
                        let mut search = IdSearch::default();
                        search.add(&self.line);
                        self.long = Some(search);
                        self.line = Vec::new();
                    }
                }
            }
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        match self.long.take() {
            None => self.ready.append(&mut self.line),
            Some(search) => {
                if let Some(id) = search.id() {
                    let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{TOO_LONG}\"}}\n");
                    self.ready.extend_from_slice(request.as_bytes());
                }
                tracing::warn!("dropped a message of more than {} bytes", self.limit);
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLineReader<R> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.taken == this.ready.len() && !this.is_ended {
            (this.taken, this.ready) = (0, Vec::new());
            let mut packet = vec![0; PACKET];
            let mut space = ReadBuf::new(&mut packet);
            ready!(Pin::new(&mut this.reader).poll_read(context, &mut space))?;
            match space.filled() {
                [] => {
                    this.is_ended = true;
                    this.end_line();
                }
                packet => this.add(packet),
            }
        }
        let rest = &this.ready[this.taken..];
        let taken = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..taken]);
        this.taken += taken;
        Poll::Ready(Ok(()))
    }
}

/// Finds the `id` of a message without keeping the message.
#[derive(Default)]
struct IdSearch {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    /// The text or value at depth 1 that is being read, as long as it can be a name or an id.
    word: Vec<u8>,
    /// The name of the member whose value is being read.
    name: Vec<u8>,
    id: Option<Vec<u8>>,
    has_method: bool,
}

impl IdSearch {
    fn add(&mut self, part: &[u8]) {
        for byte in part {
            self.byte(*byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        let is_in_text = self.is_text;
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_text => self.is_escaped = true,
            b'"' => self.is_text = !self.is_text,
            _ if self.is_text => {}
            b':' if self.depth == 1 => {
                self.name = std::mem::take(&mut self.word);
                self.has_method |= self.name == b"\"method\"";
                return;
            }
            b',' if self.depth == 1 => return self.end_member(),
            b'{' | b'[' => {
                self.depth += 1;
                return;
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
                return;
            }
            _ => {}
        }
        let is_part = is_in_text || !byte.is_ascii_whitespace();
        if self.depth == 1 && is_part && self.word.len() <= MAX_ID {
            self.word.push(byte);
        }
    }

    fn end_member(&mut self) {
        let value = std::mem::take(&mut self.word);
        if std::mem::take(&mut self.name) == b"\"id\"" {
            self.id = Some(value);
        }
    }

    /// Returns the id as JSON, if the message was a request.
    fn id(self) -> Option<String> {
        let id = self.id.filter(|id| self.has_method && id.len() <= MAX_ID)?;
        let value: serde_json::Value = serde_json::from_slice(&id).ok()?;
        (value.is_i64() || value.is_string()).then(|| value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    async fn read(text: &str, limit: usize) -> String {
        let mut read = String::new();
        BoundedLineReader::new(text.as_bytes(), limit).read_to_string(&mut read).await.unwrap();
        read
    }

    #[tokio::test]
    async fn line_that_is_too_long_becomes_a_request_with_its_id() {
        let error = |id: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{TOO_LONG}\"}}\n");
        let long = "x,\\\"}]".repeat(40_000);
        for (message, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"id":8,"a":"{long}"}}}}"#), "7"),
            (format!(r#"{{"method":"m","params":{{"a":["{long}"]}},"jsonrpc":"2.0","id": "a\"b" }}"#), r#""a\"b""#),
        ] {
            let text = format!("{{\"first\":1}}\n{message}\n{{\"last\":1}}\n");
            assert_eq!(read(&text, 100_000).await, format!("{{\"first\":1}}\n{}{{\"last\":1}}\n", error(id)));
            assert_eq!(read(&text, 1_000_000).await, text);
        }
    }

    #[tokio::test]
    async fn other_lines_that_are_too_long_are_dropped() {
        let long = "x".repeat(1_000);
        for line in [
            format!(r#"{{"method":"notify","params":"{long}"}}"#),
            format!(r#"{{"id":1,"result":"{long}"}}"#),
            format!(r#"{{"id":{{}},"method":"m","params":"{long}"}}"#),
            format!(r#"{{"id":"{long}","method":"m"}}"#),
            long.clone(),
        ] {
            assert_eq!(read(&format!("{line}\nend"), 500).await, "end", "{line}");
        }
    }
}
