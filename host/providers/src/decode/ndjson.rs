//! JSON Lines: bytes in any packets become lines, in bounded memory and linear time.

use super::decoder::Framing;
use super::sse::MAX_EVENT_BYTES;
use pinion_protocol::ProviderError;

/// Splits a byte stream into lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// The beginning of a line whose end has not come yet.
    pending: Vec<u8>,
}

impl Framing for Lines {
    /// Takes more bytes and hands each line that they complete to `sink`, in order and without its end. Empty lines are
    /// left out.
    ///
    /// # Errors
    /// [`ProviderError::Malformed`] when a line is larger than [`MAX_EVENT_BYTES`]; whatever `sink` returns, at once.
    fn feed<F>(&mut self, mut bytes: &[u8], mut sink: F) -> Result<(), ProviderError>
    where
        F: FnMut(&[u8]) -> Result<(), ProviderError>,
    {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            self.bounded(line.len())?;
            bytes = rest;
            if self.pending.is_empty() {
                whole(line, &mut sink)?;
                continue;
            }
            let mut pending = std::mem::take(&mut self.pending);
            pending.extend_from_slice(line);
            let result = whole(&pending, &mut sink);
            pending.clear();
            self.pending = pending;
            result?;
        }
        self.bounded(bytes.len())?;
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// What is left when the stream has ended: a last line without an end.
    fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }
}

impl Lines {
    fn bounded(&self, more: usize) -> Result<(), ProviderError> {
        match self.pending.len() + more > MAX_EVENT_BYTES {
            false => Ok(()),
            true => Err(ProviderError::Malformed {
                message: format!("a line is larger than {} MiB", MAX_EVENT_BYTES >> 20),
            }),
        }
    }
}

fn whole<F>(line: &[u8], sink: &mut F) -> Result<(), ProviderError>
where
    F: FnMut(&[u8]) -> Result<(), ProviderError>,
{
    match line.trim_ascii() {
        [] => Ok(()),
        line => sink(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(packets: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
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
    fn lines_end_with_a_line_feed_and_empty_ones_are_left_out() {
        assert_eq!(lines(&[b"a\r\n\n  \nb", b"c\nd"]), ["a", "bc", "d"]);
    }

    #[test]
    fn a_line_without_end_is_an_error_before_it_fills_the_memory() {
        let mut lines = Lines::default();
        let packet = vec![b'x'; 1 << 20];
        let refused = (0..32).find_map(|_| lines.feed(&packet, |_| Ok(())).err());
        assert!(matches!(refused, Some(ProviderError::Malformed { .. })));
        assert!(lines.pending.capacity() <= 2 * MAX_EVENT_BYTES);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(text in "[a-c\r\n ]{0,40}", at in any::<prop::sample::Index>()) {
            let bytes = text.as_bytes();
            let at = at.index(bytes.len() + 1);
            prop_assert_eq!(lines(&[&bytes[..at], &bytes[at..]]), lines(&[bytes]));
        }
    }
}
