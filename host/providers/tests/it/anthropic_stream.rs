//! Decoding of replies of the Messages API.

use crate::support::{assert_well_formed, decode, every_split, notation};
use pinion_protocol::{ProviderError, StreamEvent};
use pinion_providers::anthropic::AnthropicDecoder;
use proptest::prelude::*;

const TEXT: &[u8] = include_bytes!("../fixtures/anthropic/text.sse");
const TOOLS: &[u8] = include_bytes!("../fixtures/anthropic/tools.sse");
const THINKING: &[u8] = include_bytes!("../fixtures/anthropic/thinking.sse");
const UNKNOWN: &[u8] = include_bytes!("../fixtures/anthropic/unknown.sse");
const OVERLOADED: &[u8] = include_bytes!("../fixtures/anthropic/overloaded.sse");
const REFUSAL: &[u8] = include_bytes!("../fixtures/anthropic/refusal.sse");

fn run(packets: &[&[u8]]) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let (events, error) = decode(&mut AnthropicDecoder::new("seed"), packets);
    assert_well_formed(&events, error.as_ref());
    (events, error)
}

fn complete(bytes: &[u8]) -> Vec<String> {
    let (events, error) = run(&[bytes]);
    assert_eq!(error, None);
    notation(&events)
}

#[test]
fn text_reply() {
    let expected = [
        "start claude-opus-5-5",
        "usage 25 1 1000 40",
        "0 text",
        "0 +Grüße",
        "0 +, \"world\" 🌍!\n",
        "0 end",
        "usage 25 15 1000 40",
        "stop Stop",
    ];
    assert_eq!(complete(TEXT), expected);
}

#[test]
fn reply_with_tool_calls() {
    let expected = [
        "start claude-haiku-4-5-20251001",
        "usage 472 2 0 0",
        "0 text",
        "0 +Let me look.",
        "0 end",
        "1 call read toolu_01A",
        "1 +{\"path\": \"a.",
        "1 +txt\"}",
        "1 end",
        "2 call list toolu_01B",
        "2 end",
        "3 call find seed_3",
        "3 +{\"glob\":\"*.rs\"}",
        "3 end",
        "usage 472 89 0 0",
        "stop ToolUse",
    ];
    assert_eq!(complete(TOOLS), expected);
}

#[test]
fn reply_with_thinking() {
    let expected = [
        "start claude-sonnet-5-5",
        "usage 7 1 0 0",
        "0 thinking",
        "0 +Two and two",
        "0 + make four.",
        "0 end EqQBCgIYAhIM1gbcDa==",
        "1 redacted",
        "1 end EmwKAhgBEgy3va",
        "2 thinking",
        "2 end omitted==",
        "3 text",
        "3 +4",
        "3 end",
        "usage 7 30 0 0",
        "stop Length",
    ];
    assert_eq!(complete(THINKING), expected);
}

#[test]
fn unknown_and_misplaced_events_are_ignored() {
    let expected = [
        "start claude-opus-5-5",
        "usage 3 1 0 0",
        "0 text",
        "1 text",
        "1 +a part without a beginning",
        "0 +yes",
        "0 end",
        "usage 3 2 0 0",
        "1 end",
        "stop Stop",
    ];
    assert_eq!(complete(UNKNOWN), expected);
}

#[test]
fn error_in_mid_stream_ends_the_reply() {
    let (events, error) = run(&[OVERLOADED]);
    assert_eq!(notation(&events).last().unwrap(), "0 +I was");
    assert_eq!(error, Some(ProviderError::Overloaded { message: "Overloaded".to_owned(), retry_after: None }));
}

#[test]
fn refusal_is_an_error_with_its_reason() {
    let (events, error) = run(&[REFUSAL]);
    assert_eq!(notation(&events).last().unwrap(), "usage 3 4 0 0");
    assert_eq!(error.unwrap().to_string(), "the model refused to answer (cyber)");
}

#[test]
fn packet_boundaries_do_not_change_any_fixture() {
    for fixture in [TEXT, TOOLS, THINKING, UNKNOWN, OVERLOADED, REFUSAL] {
        let complete = run(&[fixture]);
        for packets in every_split(fixture) {
            assert_eq!(run(&packets), complete);
        }
    }
}

#[test]
fn reply_cut_anywhere_is_incomplete() {
    for end in 0..TEXT.len() {
        let (_, error) = run(&[&TEXT[..end]]);
        let complete = std::str::from_utf8(&TEXT[..end])
            .is_ok_and(|text| text.contains("end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":15}}"));
        match complete {
            true => assert_eq!(error, None),
            false => assert!(matches!(error, Some(ProviderError::Network { .. })), "cut at {end}: {error:?}"),
        }
    }
}

#[test]
fn empty_reply_is_valid() {
    let body = b"data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    assert_eq!(complete(body), ["start -", "stop Stop"]);
    assert_eq!(complete(b"data: {\"type\":\"message_stop\"}\n\n"), ["start -", "stop Stop"]);
}

#[test]
fn open_parts_end_with_the_reply() {
    let body = b"data: {\"type\":\"content_block_start\",\"index\":5,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n\
                 data: {\"type\":\"message_stop\"}\n\n";
    assert_eq!(complete(body), ["start -", "0 text", "0 +a", "0 end", "stop Stop"]);
}

#[test]
fn malformed_events_are_errors() {
    for data in [&b"{"[..], b"7", b"{\"type\":", b"\xff\xfe"] {
        let body = [b"data: ", data, b"\n\n"].concat();
        let (_, error) = run(&[&body]);
        assert!(matches!(error, Some(ProviderError::Malformed { .. })), "{error:?}");
    }
}

#[test]
fn events_that_are_no_objects_are_ignored() {
    for noise in ["data: ping\n\n", "data: 7\n\n", "data: \n\n", "data: [1, \"x\"]\n\n", "data: \n\ndata: null\n\n"] {
        assert_eq!(complete(&[noise.as_bytes(), TEXT].concat()), complete(TEXT), "{noise}");
    }
}

#[test]
fn reply_with_too_many_parts_is_an_error() {
    let part = |at: usize| {
        format!("data: {{\"type\":\"content_block_start\",\"index\":{at},\"content_block\":{{\"type\":\"text\"}}}}\n\n")
    };
    let body: String = (0..5000).map(part).collect();
    let (_, error) = run(&[body.as_bytes()]);
    assert!(matches!(error, Some(ProviderError::Malformed { .. })));
}

proptest! {
    #[test]
    fn random_splits_of_a_long_reply_give_the_same_events(
        words in prop::collection::vec("[a-zé🌍\"\\\\\n ]{0,12}", 0..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let mut body = b"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n".to_vec();
        for word in &words {
            let event = serde_json::json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": word } });
            body.extend_from_slice(format!("event: content_block_delta\r\ndata: {event}\r\n\r\n").as_bytes());
        }
        body.extend_from_slice(b"data: {\"type\":\"message_stop\"}\n\n");
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).chain([0, body.len()]).collect();
        at.sort_unstable();
        let packets: Vec<&[u8]> = at.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        let (events, error) = run(&packets);
        prop_assert_eq!(&error, &None);
        let said: String = events.iter().filter_map(|event| match event { StreamEvent::Delta { delta, .. } => Some(delta.as_str()), _ => None }).collect();
        prop_assert_eq!(said, words.concat());
        prop_assert_eq!(events, run(&[&body]).0);
    }

    #[test]
    fn arbitrary_bytes_do_not_break_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        run(&[&bytes]);
    }

    #[test]
    fn arbitrary_events_do_not_break_the_decoder(picks in prop::collection::vec((0..9_usize, 0..3_u64), 0..40)) {
        let event = |(kind, index): &(usize, u64)| match kind {
            0 => r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":1}}}"#.to_owned(),
            1 => format!(r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"text","text":"x"}}}}"#),
            2 => format!(r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","name":"t","input":{{"a":1}}}}}}"#),
            3 => format!(r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"thinking","signature":"s"}}}}"#),
            4 => format!(r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"y"}}}}"#),
            5 => format!(r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"signature_delta","signature":"z"}}}}"#),
            6 => format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
            7 => r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}"#.to_owned(),
            _ => r#"{"type":"message_stop"}"#.to_owned(),
        };
        let body: String = picks.iter().map(|pick| format!("data: {}\n\n", event(pick))).collect();
        run(&[body.as_bytes()]);
    }
}
