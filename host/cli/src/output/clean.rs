//! A writer that redacts secrets.

use pinion_agent::secrets::Secrets;
use std::io::{self, Write};

/// Writes text line by line with its secrets redacted.
pub(crate) struct CleanWriter<W: Write> {
    out: W,
    secrets: Secrets,
    line: Vec<u8>,
}

impl<W: Write> CleanWriter<W> {
    pub(crate) fn new(out: W, secrets: Secrets) -> Self {
        Self { out, secrets, line: Vec::new() }
    }

    fn write_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match self.secrets.are_in(&line) {
            true => self.out.write_all(self.secrets.clean(&String::from_utf8_lossy(&line)).as_bytes()),
            false => self.out.write_all(&line),
        }
    }
}

impl<W: Write> Write for CleanWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.write_line()?;
            }
        }
        Ok(bytes.len())
    }

    /// Writes the rest of the line, holding nothing back.
    fn flush(&mut self) -> io::Result<()> {
        self.write_line()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;

    #[test]
    fn writer_cleans_whole_lines() {
        let secrets = Secrets::default();
        secrets.add(&SecretString::from("Zq7Xw3Vb9Nm2"));
        let mut out = Vec::new();
        let mut writer = CleanWriter::new(&mut out, secrets);
        for piece in ["a Zq7X", "w3Vb9Nm2 b\nZq7Xw", "3Vb9Nm2"] {
            writer.write_all(piece.as_bytes()).unwrap();
        }
        writer.flush().unwrap();
        assert!(String::from_utf8_lossy(&out).starts_with("a [redacted] b\n[redacted]"));
    }
}
