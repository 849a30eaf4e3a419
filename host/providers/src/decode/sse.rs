//! A parser for server-sent events that arrive in arbitrary packets, in bounded memory and linear time.
//!
//! The crate `eventsource-stream` (0.2.3) was measured and found unfit for untrusted input. A byte order mark makes it
//! panic (it slices `&string[1..]` of a three-byte character). After one invalid byte it buffers everything until the
//! connection ends and yields nothing. Its buffers have no limits. It scans an unfinished line again from the start
//! with every packet (a line of 2 MiB in packets of 1,400 bytes took 1.5 s, growing quadratically), and each finished
//! line copies the rest of the packet (4 MB in one packet: 1.5 s).
//!
//! This parser reads every byte once. It keeps only `data`, which is all the formats need: comments, `event`, `id`,
//! `retry` and events without data are skipped, because every vendor repeats the event's name in its JSON. Format:
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>

use super::decoder::Framing;
use pinion_protocol::ProviderError;

/// The largest event, including an unfinished line: 16 MiB.
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

/// Splits a byte stream into events.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The start of an unterminated line.
    line: Vec<u8>,
    /// The data lines of the current event, each followed by a line feed.
    data: Vec<u8>,
    /// True after a carriage return at the end of a packet: a line feed right after it belongs to it.
    after_cr: bool,
    /// True once the first line is complete; a byte order mark only counts at its start.
    past_start: bool,
}

impl Framing for SseParser {
    /// Consumes more bytes and passes the data of each event that they complete to `sink`, in order.
    ///
    /// # Errors
    /// [`ProviderError::Malformed`] when an event is larger than [`MAX_EVENT_BYTES`]; any error of `sink`, immediately.
    fn feed<F>(&mut self, mut bytes: &[u8], mut sink: F) -> Result<(), ProviderError>
    where
        F: FnMut(&[u8]) -> Result<(), ProviderError>,
    {
        if bytes.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.after_cr) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.bounded(end)?;
            self.end_line(&bytes[..end], &mut sink)?;
            bytes = self.after_line_end(&bytes[end..]);
        }
        self.bounded(bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the data of a last event that no blank line terminated, or nothing. Some servers omit the last blank
    /// line; a broken connection leaves half an event.
    fn take_rest(&mut self) -> Vec<u8> {
        let line = std::mem::take(&mut self.line);
        self.field(&line);
        let mut data = std::mem::take(&mut self.data);
        data.pop();
        data
    }
}

impl SseParser {
    /// Skips the line end at the start of `bytes`: `\n`, `\r` or `\r\n`, which may be split across two packets.
    fn after_line_end<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        match bytes {
            [b'\r', b'\n', rest @ ..] => rest,
            [b'\r'] => {
                self.after_cr = true;
                &[]
            }
            _ => &bytes[1..],
        }
    }

    fn end_line<F>(&mut self, tail: &[u8], sink: &mut F) -> Result<(), ProviderError>
    where
        F: FnMut(&[u8]) -> Result<(), ProviderError>,
    {
        if self.line.is_empty() {
            return self.complete_line(tail, sink);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(tail);
        let result = self.complete_line(&line, sink);
        line.clear();
        self.line = line;
        result
    }

    fn complete_line<F>(&mut self, line: &[u8], sink: &mut F) -> Result<(), ProviderError>
    where
        F: FnMut(&[u8]) -> Result<(), ProviderError>,
    {
        if !line.is_empty() {
            self.field(line);
            return Ok(());
        }
        self.past_start = true;
        if self.data.is_empty() {
            return Ok(());
        }
        self.data.pop();
        let result = if self.data.trim_ascii().is_empty() { Ok(()) } else { sink(&self.data) };
        self.data.clear();
        result
    }

    /// Appends a `data` field to the current event and ignores any other line.
    fn field(&mut self, line: &[u8]) {
        let line = match std::mem::replace(&mut self.past_start, true) {
            true => line,
            false => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
        };
        let Some(value) = line.strip_prefix(b"data") else { return };
        let value = match value {
            [] => value,
            [b':', b' ', rest @ ..] | [b':', rest @ ..] => rest,
            _ => return,
        };
        self.data.extend_from_slice(value);
        self.data.push(b'\n');
    }

    fn bounded(&self, more: usize) -> Result<(), ProviderError> {
        match self.line.len() + self.data.len() + more > MAX_EVENT_BYTES {
            false => Ok(()),
            true => Err(ProviderError::Malformed {
                message: format!("an event is larger than {} MiB", MAX_EVENT_BYTES >> 20),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, StreamExt};
    use proptest::prelude::*;

    fn events(packets: &[&[u8]]) -> Vec<String> {
        let mut parser = SseParser::default();
        let mut out = Vec::new();
        for packet in packets {
            parser
                .feed(packet, |data| {
                    out.push(String::from_utf8_lossy(data).into_owned());
                    Ok(())
                })
                .unwrap();
        }
        out
    }

    #[test]
    fn data_lines_are_joined_and_other_lines_skipped() {
        let text = b": comment\nevent: add\nid: 7\ndata: one\ndata:two\ndata\nretry: 3\n\n\n\ndata: three\r\n\r\ndatax: no\n\n";
        assert_eq!(events(&[text]), ["one\ntwo\n", "three"]);
    }

    #[test]
    fn event_with_blank_data_is_skipped() {
        assert_eq!(events(&[b"event: ping\ndata: \n\ndata\ndata:\n\ndata: a\n\n"]), ["a"]);
    }

    #[test]
    fn every_kind_of_line_end_counts_once() {
        assert_eq!(events(&[b"data: a\r\rdata: b\n\ndata: c\r\n\r\n"]), ["a", "b", "c"]);
        assert_eq!(events(&[b"data: a\r", b"\n", b"\r", b"\ndata: b\r", b"\r"]), ["a", "b"]);
        assert_eq!(events(&[b"data: a\r", b"\n", b"\n"]), ["a"]);
        assert_eq!(events(&[b"data: a\r", b"", b"\n", b"\n"]), ["a"]);
    }

    #[test]
    fn byte_order_mark_is_skipped_only_at_the_start() {
        assert_eq!(events(&[b"\xef", b"\xbb", b"\xbfdata: a\n\n"]), ["a"]);
        assert_eq!(events(&[b"data: a\n\n\xef\xbb\xbfdata: b\n\n"]), ["a"]);
    }

    #[test]
    fn rest_is_the_unterminated_event() {
        let mut parser = SseParser::default();
        parser.feed(b"data: a\ndata: b", |_| Ok(())).unwrap();
        assert_eq!(parser.take_rest(), b"a\nb");
        assert_eq!(parser.take_rest(), b"");
    }

    #[test]
    fn endless_event_fails_in_bounded_memory() {
        for piece in [&b"data: x"[..], b"data: x\n", b": x"] {
            let mut parser = SseParser::default();
            let packet = piece.repeat(1 << 14);
            let refused = (0..2048).find_map(|_| parser.feed(&packet, |_| Ok(())).err());
            assert!(matches!(refused, Some(ProviderError::Malformed { .. })));
            assert!(parser.line.capacity() + parser.data.capacity() <= 4 * MAX_EVENT_BYTES);
        }
    }

    /// Cuts a text at these places.
    fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }

    /// Returns the events that `eventsource-stream` finds, without those that this parser leaves out.
    fn events_elsewhere(packets: &[&[u8]]) -> Vec<String> {
        let packets = packets.iter().map(|packet| Ok::<_, std::convert::Infallible>(packet.to_vec()));
        let found = eventsource_stream::EventStream::new(futures_util::stream::iter(packets));
        let data = found.filter_map(|event| std::future::ready(event.ok().map(|event| event.data)));
        let all: Vec<String> = data.collect().now_or_never().unwrap_or_default();
        all.into_iter().filter(|data| !data.trim_ascii().is_empty()).collect()
    }

    fn cases() -> ProptestConfig {
        ProptestConfig::with_cases(if std::env::var_os("PINION_LONG").is_some() { 20_000 } else { 300 })
    }

    proptest! {
        #![proptest_config(cases())]

        /// Well-formed: valid UTF-8 without a byte order mark, and complete events.
        #[test]
        fn well_formed_streams_have_the_events_that_another_parser_finds(
            lines in prop::collection::vec(
                "(data:[ :]{0,2}[a-zé😀{}\"]{0,6}|data|:[ x]{0,2}|event: [a-z]{0,3}|id:1|retry: 10|other: y|)(\n|\r\n)",
                0..16,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = format!("{}\n\n", lines.concat()).into_bytes();
            let packets = cut(&bytes, &cuts);
            prop_assert_eq!(events(&packets), events_elsewhere(&packets));
        }
    }

    proptest! {
        #[test]
        fn packet_boundaries_do_not_change_the_events(
            text in "(data: ?[a-zé]{0,5}|:x|event: e|\u{feff}|)(\n|\r|\r\n){1,2}".prop_map(String::from),
            more in prop::collection::vec("(data: ?[a-zé]{0,5}|:x|event: e|)(\n|\r|\r\n){1,2}", 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = format!("{text}{}", more.concat()).into_bytes();
            prop_assert_eq!(events(&cut(&bytes, &cuts)), events(&[&bytes]));
        }
    }
}
