//! Contents in git's format of binary patches: compressed, in lines of base 85.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::{self, Read, Write};

/// Bytes of a line before they are encoded.
const LINE: usize = 52;
/// The digits of base 85, which contain no quotes, brackets or backslashes.
const DIGITS: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Writes a content of `size` bytes, and the empty line after it. Needs little memory for any size.
///
/// # Errors
/// The content cannot be read, or the output fails.
pub(super) fn write_literal(out: &mut dyn Write, size: u64, content: &mut dyn Read) -> io::Result<()> {
    writeln!(out, "literal {size}")?;
    let mut encoder = ZlibEncoder::new(Base85Lines { out, line: Vec::with_capacity(LINE) }, Compression::default());
    io::copy(content, &mut encoder)?;
    let mut lines = encoder.finish()?;
    lines.end_line()?;
    lines.out.write_all(b"\n")
}

/// Writer that encodes its input in lines.
struct Base85Lines<'a> {
    out: &'a mut dyn Write,
    /// The bytes of the line that is not complete.
    line: Vec<u8>,
}

impl Base85Lines<'_> {
    /// Writes the bytes of a line after a letter for their number. The last ones are completed with zeros.
    fn end_line(&mut self) -> io::Result<()> {
        let length = match u8::try_from(self.line.len()).unwrap_or(u8::MAX) {
            0 => return Ok(()),
            length @ 1..=26 => b'A' + length - 1,
            length => b'a' + (length - 27),
        };
        let mut text = vec![length];
        for group in self.line.chunks(4) {
            let mut bytes = [0; 4];
            bytes[..group.len()].copy_from_slice(group);
            let mut number = u32::from_be_bytes(bytes);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = DIGITS[(number % 85) as usize];
                number /= 85;
            }
            text.extend(digits);
        }
        text.push(b'\n');
        self.line.clear();
        self.out.write_all(&text)
    }
}

impl Write for Base85Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(LINE - self.line.len());
        self.line.extend_from_slice(&bytes[..taken]);
        if self.line.len() == LINE {
            self.end_line()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_content_is_one_line() {
        let mut out = Vec::new();
        write_literal(&mut out, 0, &mut io::empty()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "literal 0\nHc$@<O00001\n\n");
    }

    #[test]
    fn lines_have_at_most_52_bytes() {
        let mut random = fastrand::Rng::with_seed(85);
        let content: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(1_000).collect();
        let mut out = Vec::new();
        write_literal(&mut out, 1_000, &mut content.as_slice()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(lines.len() > 19 && lines.iter().all(|line| line.len() <= 66), "{text}");
        assert!(lines[0].starts_with('z') && lines[0].len() == 66 && text.ends_with("\n\n"), "{text}");
    }
}
