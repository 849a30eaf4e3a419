//! Checks that every fuzz target shares: a decoder does not panic, its output is well-formed, and packet boundaries do
//! not change it.
//!
//! Run `cargo +nightly fuzz run anthropic ../tests/fixtures/anthropic` in `host/providers`; the fixtures are the seeds.

use pinion_protocol::{ProviderError, StreamEvent};
use pinion_providers::Decoder;

/// Decodes `data` in one piece and in several. Its first two bytes choose the cuts.
pub fn check<D: Decoder>(decoder: impl Fn() -> D, data: &[u8]) {
    let [first, second, bytes @ ..] = data else { return };
    let expected = run(decoder(), std::iter::once(bytes));
    let size = 1 + usize::from(*first) % 64;
    assert_eq!(run(decoder(), bytes.chunks(size)), expected);
    let at = (usize::from(*second) * bytes.len()) >> 8;
    assert_eq!(run(decoder(), [&bytes[..at], &bytes[at..]].into_iter()), expected);
    assert_well_formed(&expected.0, expected.1.is_some());
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

fn assert_well_formed(events: &[StreamEvent], failed: bool) {
    let mut open = Vec::new();
    let mut count = 0;
    for (at, event) in events.iter().enumerate() {
        match event {
            StreamEvent::Start { .. } => assert_eq!(at, 0),
            StreamEvent::PartStart { index, .. } => {
                assert_eq!(*index, count);
                count += 1;
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
