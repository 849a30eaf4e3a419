//! Reads a file line by line, in bounded memory.

use std::io::{self, BufRead, Read};

/// The longest line that is read or written, without its newline, in bytes.
pub(crate) const MAX_LINE: usize = 64 << 20;

/// One line of a file.
pub(crate) struct FileLine<'a> {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// The offset of its first byte in the file.
    pub(crate) offset: u64,
    /// Its length in the file, newline included.
    pub(crate) length: u64,
    /// Its bytes without the newline; only the first ones when it exceeds the limit.
    pub(crate) bytes: &'a [u8],
    /// True if it ends with a newline. Only the last line of a file may lack one.
    pub(crate) ended: bool,
    /// True if it exceeds the limit.
    pub(crate) too_long: bool,
}

/// A reader of lines, with one buffer for all of them.
pub(crate) struct LineReader<R> {
    reader: R,
    limit: usize,
    buffer: Vec<u8>,
    number: u64,
    offset: u64,
}

impl<R: BufRead> LineReader<R> {
    /// Creates a reader of lines of at most `limit` bytes.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit, buffer: Vec::new(), number: 0, offset: 0 }
    }

    /// Reads the next line; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<FileLine<'_>>> {
        self.buffer.clear();
        let allowed = self.limit as u64 + 1;
        let read = (&mut self.reader).take(allowed).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        let mut ended = self.buffer.last() == Some(&b'\n');
        let mut length = read as u64;
        if ended {
            self.buffer.pop();
        }
        let too_long = self.buffer.len() > self.limit;
        if too_long {
            let (skipped, newline) = self.skip()?;
            length += skipped;
            ended = newline;
        }
        let offset = self.offset;
        self.number += 1;
        self.offset += length;
        Ok(Some(FileLine { number: self.number, offset, length, bytes: &self.buffer, ended, too_long }))
    }

    /// Skips the rest of a line. Returns its length, and whether it ended with a newline.
    fn skip(&mut self) -> io::Result<(u64, bool)> {
        let mut skipped = 0;
        loop {
            let chunk = self.reader.fill_buf()?;
            let newline = chunk.iter().position(|b| *b == b'\n');
            let length = newline.map_or(chunk.len(), |at| at + 1);
            self.reader.consume(length);
            skipped += length as u64;
            if length == 0 || newline.is_some() {
                return Ok((skipped, newline.is_some()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Seen = (u64, u64, u64, Vec<u8>, bool, bool);

    fn read(text: &[u8], limit: usize) -> Vec<Seen> {
        // A tiny buffer, so that lines span several fills.
        let mut lines = LineReader::new(io::BufReader::with_capacity(3, text), limit);
        let mut seen = Vec::new();
        while let Some(l) = lines.next().unwrap() {
            seen.push((l.number, l.offset, l.length, l.bytes.to_vec(), l.ended, l.too_long));
        }
        seen
    }

    #[test]
    fn lines_have_offsets_and_an_ended_flag() {
        assert_eq!(
            read(b"one\n\nthree", 10),
            [
                (1, 0, 4, b"one".to_vec(), true, false),
                (2, 4, 1, b"".to_vec(), true, false),
                (3, 5, 5, b"three".to_vec(), false, false),
            ]
        );
        assert!(read(b"", 10).is_empty());
    }

    #[test]
    fn line_over_the_limit_is_skipped() {
        let seen = read(b"0123456789abc\nok\n0123456789", 4);
        assert_eq!(seen[0], (1, 0, 14, b"01234".to_vec(), true, true));
        assert_eq!(seen[1], (2, 14, 3, b"ok".to_vec(), true, false));
        assert_eq!(seen[2], (3, 17, 10, b"01234".to_vec(), false, true));
    }

    #[test]
    fn line_of_exactly_the_limit_is_read() {
        assert_eq!(read(b"0123\n", 4)[0], (1, 0, 5, b"0123".to_vec(), true, false));
        assert_eq!(read(b"0123", 4)[0], (1, 0, 4, b"0123".to_vec(), false, false));
    }
}
