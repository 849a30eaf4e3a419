//! Properties of every format and every fixture: the expected events, independent of packet boundaries, and nothing
//! worse than an error for corrupt bytes.

use crate::support::formats::{FORMATS, decoder, directory, fixture, fixtures};
use crate::support::{assert_well_formed, decode, every_split, notation};
use pinion_protocol::{ProviderError, StreamEvent};
use pinion_providers::proxy;
use proptest::prelude::*;
use proptest::sample::Index;
use std::fs;

/// The maximum size of fixtures that are cut at every position.
const SMALL: usize = 8 << 10;

fn run(format: &str, packets: &[&[u8]]) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let (events, error) = decode(&mut *decoder(format), packets);
    assert_well_formed(&events, error.as_ref());
    (events, error)
}

/// Formats one line per event, and one for the error.
fn outline(format: &str, bytes: &[u8]) -> String {
    let (events, error) = run(format, &[bytes]);
    let error = error.map(|error| match error.retry_after() {
        Some(delay) => format!("error {error:?} after {delay:?}"),
        None => format!("error {error:?}"),
    });
    let lines: Vec<String> = notation(&events).into_iter().chain(error).collect();
    lines.join("\n").replace("\n\n", "\n") + "\n"
}

/// `UPDATE_EVENTS=1` rewrites the files, for review before they are committed.
#[test]
fn every_fixture_decodes_to_its_events() {
    for format in FORMATS {
        for (name, bytes) in fixtures(format) {
            let file = directory().join(format).join(&name).with_extension("events");
            let now = outline(format, &bytes);
            if std::env::var_os("UPDATE_EVENTS").is_some() {
                fs::write(&file, &now).unwrap();
            }
            assert_eq!(fs::read_to_string(&file).unwrap_or_default(), now, "{format}/{name}");
        }
    }
}

#[test]
fn small_reply_decodes_the_same_wherever_it_is_cut() {
    for format in FORMATS {
        for (name, bytes) in fixtures(format).into_iter().filter(|(_, bytes)| bytes.len() <= SMALL) {
            let complete = run(format, &[&bytes]);
            for packets in every_split(&bytes) {
                assert_eq!(run(format, &packets), complete, "{format}/{name} after {} bytes", packets[0].len());
            }
        }
    }
}

/// The proxy protocol carries everything that the other formats express.
#[test]
fn every_reply_passes_through_a_proxy_unchanged() {
    for format in FORMATS {
        for (name, bytes) in fixtures(format) {
            let (events, error) = run(format, &[&bytes]);
            let items = events.iter().cloned().map(Ok).chain(error.clone().map(Err));
            let wire: Vec<u8> = items.flat_map(|item| proxy::write_event(&item)).collect();
            assert_eq!(run("proxy", &[&wire]), (events, error), "{format}/{name}");
        }
    }
}

#[test]
fn nothing_follows_the_end_or_an_error() {
    for format in FORMATS {
        for (name, bytes) in fixtures(format) {
            let mut decoder = decoder(format);
            let mut events = Vec::new();
            let fed = decoder.feed(&bytes, &mut events);
            if !matches!(events.last(), Some(StreamEvent::End { .. })) {
                continue;
            }
            let count = events.len();
            assert!(fed.is_ok() && decoder.finish(&mut events).is_ok(), "{format}/{name}");
            assert_eq!(events.len(), count, "{format}/{name}");
        }
    }
}

#[test]
fn interrupted_reply_is_a_retryable_network_error() {
    for format in FORMATS {
        let name = fixtures(format).into_iter().map(|(name, _)| name).find(|name| name.starts_with("text.")).unwrap();
        let bytes = fixture(format, &name);
        for at in 0..bytes.len() * 2 / 3 {
            let (_, error) = run(format, &[&bytes[..at]]);
            assert!(matches!(&error, Some(ProviderError::Network { .. })), "{format} after {at} bytes: {error:?}");
        }
    }
}

fn cut<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// A format and one of its fixtures.
fn any_fixture() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let all = |format: &'static str| fixtures(format).into_iter().map(move |(_, bytes)| (format, bytes));
    prop::sample::select(FORMATS.iter().copied().flat_map(all).collect::<Vec<_>>())
}

#[derive(Debug, Clone)]
enum Change {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let bits: Vec<Vec<u8>> = ["null", "{}", "[]", "\"", "\\u0000", "-1", "1e99", "\n\n", "data: ", "\u{feff}", "[[[["]
        .iter()
        .map(|bit| bit.as_bytes().to_vec())
        .collect();
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        (any::<Index>(), prop::sample::select(bits)).prop_map(|(at, bit)| Change::Insert(at, bit)),
        (any::<Index>(), 1_usize..40).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<Index>(), 1_usize..400).prop_map(|(at, length)| Change::Repeat(at, length)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: Change) {
    if bytes.is_empty() {
        return;
    }
    let end = |at: usize, length: usize, bytes: &[u8]| (at + length).min(bytes.len());
    match change {
        Change::Replace(at, byte) => *at.get_mut(bytes) = byte,
        Change::Insert(at, bit) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, bit);
        }
        Change::Remove(at, length) => {
            let at = at.index(bytes.len());
            bytes.drain(at..end(at, length, bytes));
        }
        Change::Repeat(at, length) => {
            let at = at.index(bytes.len());
            let piece = bytes[at..end(at, length, bytes)].to_vec();
            bytes.splice(at..at, piece);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn packet_boundaries_do_not_change_the_events(
        (format, bytes) in any_fixture(),
        cuts in prop::collection::vec(any::<Index>(), 0..40),
    ) {
        prop_assert_eq!(run(format, &cut(&bytes, &cuts)), run(format, &[&bytes]));
    }

    #[test]
    fn corrupt_bytes_decode_or_fail_independent_of_packets(
        (format, mut bytes) in any_fixture(),
        changes in prop::collection::vec(change(), 1..6),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        changes.into_iter().for_each(|change| apply(&mut bytes, change));
        prop_assert_eq!(run(format, &cut(&bytes, &cuts)), run(format, &[&bytes]));
    }

    #[test]
    fn arbitrary_bytes_decode_or_fail(
        format in prop::sample::select(FORMATS),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        run(format, &[&bytes]);
    }
}
