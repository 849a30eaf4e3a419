//! A splitter for JSON Lines that arrive in arbitrary packets, in bounded memory and linear time.

use super::decoder::Framing;
use super::sse::MAX_EVENT_BYTES;
use pinion_protocol::ProviderError;

/// Splits a byte stream into lines.
#[derive(Debug, Default)]
pub struct NdjsonLines {
    /// The start of an unterminated line.
    pending: Vec<u8>,
}

impl Framing for NdjsonLines {
    /// Consumes more bytes and passes each line that they complete to `sink`, in order, without its line end. Blank
    /// lines are skipped, and so is the name of a server-sent event's field.
    ///
    /// # Errors
    /// [`ProviderError::Malformed`] when a line is larger than [`MAX_EVENT_BYTES`]; any error of `sink`, immediately.
    fn feed<F>(&mut self, mut bytes: &[u8], mut sink: F) -> Result<(), ProviderError>
    where
        F: FnMut(&[u8]) -> Result<(), ProviderError>,
    {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            self.bounded(line.len())?;
            bytes = rest;
            if self.pending.is_empty() {
                complete(line, &mut sink)?;
                continue;
            }
            let mut pending = std::mem::take(&mut self.pending);
            pending.extend_from_slice(line);
            let result = complete(&pending, &mut sink);
            pending.clear();
            self.pending = pending;
            result?;
        }
        self.bounded(bytes.len())?;
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the unterminated last line, or nothing.
    fn take_rest(&mut self) -> Vec<u8> {
        let line = std::mem::take(&mut self.pending);
        line.strip_prefix(b"data:").map_or_else(|| line.clone(), <[u8]>::to_vec)
    }
}

impl NdjsonLines {
    fn bounded(&self, more: usize) -> Result<(), ProviderError> {
        match self.pending.len() + more > MAX_EVENT_BYTES {
            false => Ok(()),
            true => Err(ProviderError::Malformed {
                message: format!("a line is larger than {} MiB", MAX_EVENT_BYTES >> 20),
            }),
        }
    }
}

fn complete<F>(line: &[u8], sink: &mut F) -> Result<(), ProviderError>
where
    F: FnMut(&[u8]) -> Result<(), ProviderError>,
{
    // Some gateways turn lines into server-sent events.
    match line.strip_prefix(b"data:").unwrap_or(line).trim_ascii() {
        [] => Ok(()),
        line => sink(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(packets: &[&[u8]]) -> Vec<String> {
        let mut lines = NdjsonLines::default();
        let mut out = Vec::new();
        for packet in packets {
            let keep = |line: &[u8]| {
                out.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            };
            lines.feed(packet, keep).unwrap();
        }
        out.push(String::from_utf8_lossy(&lines.take_rest()).into_owned());
        out
    }

    #[test]
    fn lines_end_at_line_feeds_and_blank_lines_are_skipped() {
        assert_eq!(lines(&[b"a\r\n\n  \nb", b"c\nd"]), ["a", "bc", "d"]);
    }

    #[test]
    fn lines_of_events_are_read_without_their_field() {
        assert_eq!(lines(&[b"data: a\n\nda", b"ta:b\ndata: c"]), ["a", "b", " c"]);
    }

    #[test]
    fn endless_line_fails_in_bounded_memory() {
        let mut lines = NdjsonLines::default();
        let packet = vec![b'x'; 1 << 20];
        let refused = (0..32).find_map(|_| lines.feed(&packet, |_| Ok(())).err());
        assert!(matches!(refused, Some(ProviderError::Malformed { .. })));
        assert!(lines.pending.capacity() <= 2 * MAX_EVENT_BYTES);
    }

    proptest! {
        #[test]
        fn packet_boundaries_do_not_change_the_lines(text in "[a-c\r\n ]{0,40}", at in any::<prop::sample::Index>()) {
            let bytes = text.as_bytes();
            let at = at.index(bytes.len() + 1);
            prop_assert_eq!(lines(&[&bytes[..at], &bytes[at..]]), lines(&[bytes]));
        }
    }
}
