//! What every fuzz target checks of a decoder: it does not panic, what comes out is well-formed, and it is the same
//! however the bytes are cut.
//!
//! `cargo +nightly fuzz run anthropic ../tests/fixtures/anthropic` in `host/providers`; seeds are the fixtures.

use pinion_protocol::{ProviderError, StreamEvent};
use pinion_providers::Decoder;

/// Decodes `data` whole and in pieces. Its first two bytes say where it is cut.
pub fn check<D: Decoder>(decoder: impl Fn() -> D, data: &[u8]) {
    let [first, second, bytes @ ..] = data else { return };
    let whole = run(decoder(), std::iter::once(bytes));
    let size = 1 + usize::from(*first) % 64;
    assert_eq!(run(decoder(), bytes.chunks(size)), whole);
    let at = (usize::from(*second) * bytes.len()) >> 8;
    assert_eq!(run(decoder(), [&bytes[..at], &bytes[at..]].into_iter()), whole);
    well_formed(&whole.0, whole.1.is_some());
}

fn run<'a>(mut decoder: impl Decoder, packets: impl Iterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let mut events = Vec::new();
    for packet in packets {
        if let Err(error) = decoder.feed(packet, &mut events) {
            return (events, Some(error));
        }
    }
    let error = decoder.finish(&mut events).err();
    (events, error)
}

fn well_formed(events: &[StreamEvent], failed: bool) {
    let mut open = Vec::new();
    let mut begun = 0;
    for (at, event) in events.iter().enumerate() {
        match event {
            StreamEvent::Start { .. } => assert_eq!(at, 0),
            StreamEvent::PartStart { index, .. } => {
                assert_eq!(*index, begun);
                begun += 1;
                open.push(*index);
            }
            StreamEvent::Delta { index, .. } => assert!(open.contains(index)),
            StreamEvent::PartEnd { index, .. } => {
                assert!(open.contains(index));
                open.retain(|other| other != index);
            }
            StreamEvent::Usage(_) => assert!(at > 0),
            StreamEvent::End { .. } => assert!(open.is_empty() && at + 1 == events.len()),
        }
    }
    assert!(failed != matches!(events.last(), Some(StreamEvent::End { .. })));
}
