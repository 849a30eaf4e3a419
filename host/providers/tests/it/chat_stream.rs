//! Decoding of replies of Chat Completions and nearly compatible vendors.

use crate::support::{assert_well_formed, decode, every_split, notation};
use pinion_protocol::{ProviderError, StreamEvent};
use pinion_providers::openai_chat::ChatDecoder;
use proptest::prelude::*;
use serde_json::json;

const TEXT: &[u8] = include_bytes!("../fixtures/chat/text.sse");
const TOOLS: &[u8] = include_bytes!("../fixtures/chat/tools.sse");
const DEEPSEEK: &[u8] = include_bytes!("../fixtures/chat/deepseek.sse");
const OPENROUTER: &[u8] = include_bytes!("../fixtures/chat/openrouter.sse");
const MISTRAL: &[u8] = include_bytes!("../fixtures/chat/mistral.sse");
const GROQ: &[u8] = include_bytes!("../fixtures/chat/groq.sse");
const XAI: &[u8] = include_bytes!("../fixtures/chat/xai.sse");
const SAME_INDEX: &[u8] = include_bytes!("../fixtures/chat/same_index.sse");
const FILTERED: &[u8] = include_bytes!("../fixtures/chat/filtered.sse");

fn run(packets: &[&[u8]]) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let (events, error) = decode(&mut ChatDecoder::new("seed"), packets);
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
    let expected =
        ["start gpt-4o-2024-08-06", "0 text", "0 +Grüße", "0 + 🌍\n", "usage 101 12 1024 100", "0 end", "stop Stop"];
    assert_eq!(complete(TEXT), expected);
}

#[test]
fn reply_with_parallel_tool_calls() {
    let expected = [
        "start gpt-4.1",
        "0 call read call_A",
        "0 +{\"path\":",
        "1 call list call_B",
        "1 +{}",
        "0 +\"a.txt\"}",
        "usage 80 30 0 0",
        "0 end",
        "1 end",
        "stop ToolUse",
    ];
    assert_eq!(complete(TOOLS), expected);
}

#[test]
fn reasoning_content_is_thinking() {
    let expected = [
        "start deepseek-v4-pro",
        "0 thinking",
        "0 +First",
        "0 + this.",
        "0 end {\"field\":\"reasoning_content\"}",
        "1 text",
        "1 +Then that.",
        "usage 36 20 64 0",
        "1 end",
        "stop Stop",
    ];
    assert_eq!(complete(DEEPSEEK), expected);
}

#[test]
fn endless_arguments_of_calls_without_a_name_are_an_error() {
    let delta = |id: usize| {
        let call = json!({ "index": id, "id": id.to_string(), "function": { "arguments": "x".repeat(1 << 20) } });
        format!("data: {}\n\n", json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }))
    };
    let (_, error) = run(&[(0..17).map(delta).collect::<String>().as_bytes()]);
    assert!(matches!(&error, Some(ProviderError::Malformed { message }) if message.contains("without a name")));
}

#[test]
fn comments_are_skipped_and_errors_end_the_reply() {
    let (events, error) = run(&[OPENROUTER]);
    let expected = ["start vendor/model", "0 thinking", "0 +Hm.", "1 text", "1 +Partly"];
    assert_eq!(notation(&events), expected);
    let message = "Provider disconnected".to_owned();
    assert_eq!(error, Some(ProviderError::Overloaded { message, retry_after: None }));
}

#[test]
fn content_as_a_list_of_parts() {
    let expected = [
        "start mistral-small-2603",
        "0 thinking",
        "0 +Let me think.",
        r#"0 end {"part":{"type":"thinking","closed":true,"thinking":[{"type":"text","text":"Let me"},{"type":"text","text":" think."}]}}"#,
        "1 text",
        "1 +Yes.",
        "1 end",
        "2 call read a1B2c3D4e",
        "2 +{\"path\": \"a\"}",
        "usage 10 15 0 0",
        "2 end",
        "stop ToolUse",
    ];
    assert_eq!(complete(MISTRAL), expected);
}

#[test]
fn groq_counts_and_object_arguments_are_read() {
    let expected = [
        "start openai/gpt-oss-20b",
        "0 thinking",
        "0 +Need list.",
        "0 end {\"field\":\"reasoning\"}",
        "1 call list fc_1",
        "1 +{\"path\":\".\"}",
        "usage 70 9 0 0",
        "1 end",
        "stop ToolUse",
    ];
    assert_eq!(complete(GROQ), expected);
}

#[test]
fn reasoning_counted_only_in_the_total_is_output() {
    let said = complete(XAI);
    assert_eq!(said.iter().filter(|line| line.starts_with("usage")).collect::<Vec<_>>(), ["usage 28 10 2 0"]);
    assert_eq!(said.last().unwrap(), "stop Length");
}

#[test]
fn calls_with_the_same_index_are_distinguished_by_id() {
    let expected = [
        "start qwen3",
        "0 call read call_1",
        "0 +{\"path\":\"a\"}",
        "1 call read call_2",
        "1 +{\"path\":\"b\"}",
        "2 call list seed_2",
        "2 +{",
        "2 +}",
        "0 end",
        "1 end",
        "2 end",
        "stop ToolUse",
    ];
    assert_eq!(complete(SAME_INDEX), expected);
}

#[test]
fn parts_of_a_call_may_have_different_numbers() {
    let part = |index: u64, id: &str, name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        let call = json!({ "index": index, "id": id, "type": "function", "function": function });
        format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] }))
    };
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let whole = "{\"path\":\"a\"}";
    let called = |parts: &[String]| {
        let mut calls: Vec<(String, String)> = Vec::new();
        for event in complete((parts.concat() + end).as_bytes()) {
            if let Some((_, call)) = event.split_once(" call ") {
                calls.push((call.to_owned(), String::new()));
            } else if let Some((index, text)) = event.split_once(" +") {
                calls[index.parse::<usize>().unwrap()].1.push_str(text);
            }
        }
        calls
    };
    let one = [("read c1".to_owned(), whole.to_owned())];
    for parts in [
        vec![part(0, "c1", "read", ""), part(1, "", "", whole)],
        vec![part(0, "c1", "read", ""), part(1, "", "", "{\"path\""), part(2, "", "", ":\"a\"}"), part(3, "", "", "")],
        vec![part(1, "c1", "read", "{"), part(0, "c1", "", "\"path\":\"a\"}")],
        vec![part(0, "c1", "", ""), part(1, "", "read", whole)],
    ] {
        assert_eq!(called(&parts), one, "{parts:#?}");
    }
    let two = [one[0].clone(), ("list c2".to_owned(), "{}".to_owned())];
    for parts in [
        vec![part(0, "c1", "read", ""), part(1, "", "", whole), part(1, "c2", "list", ""), part(2, "", "", "{}")],
        vec![part(0, "c1", "read", whole), part(1, "c2", "list", "{}"), part(5, "c1", "", " ")],
    ] {
        let mut calls = called(&parts);
        calls[0].1.truncate(whole.len());
        assert_eq!(calls, two, "{parts:#?}");
    }
}

#[test]
fn filtered_reply_is_an_error() {
    let (events, error) = run(&[FILTERED]);
    assert_eq!(notation(&events), ["start gpt-4o", "0 text", "0 +So"]);
    assert!(matches!(error, Some(ProviderError::Api { message, .. }) if message.contains("content filter")));
}

#[test]
fn packet_boundaries_do_not_change_any_fixture() {
    for fixture in [TEXT, TOOLS, DEEPSEEK, OPENROUTER, MISTRAL, GROQ, XAI, SAME_INDEX, FILTERED] {
        let expected = run(&[fixture]);
        for packets in every_split(fixture) {
            assert_eq!(run(&packets), expected);
        }
    }
}

#[test]
fn reply_without_done_is_complete_after_a_stop_reason() {
    let body = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}";
    assert_eq!(complete(body), ["start -", "0 text", "0 +a", "0 end", "stop Stop"]);
    let (_, error) = run(&[b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"]);
    assert!(matches!(error, Some(ProviderError::Network { .. })));
}

#[test]
fn empty_reply_is_valid() {
    assert_eq!(complete(b"data: [DONE]\n\n"), ["start -", "stop Stop"]);
    assert_eq!(complete(b"data: {\"choices\":null,\"usage\":null}\n\ndata:[DONE]\n\n"), ["start -", "stop Stop"]);
}

#[test]
fn malformed_chunks_are_errors() {
    for data in [&b"{"[..], b"7", b"nonsense", b"{\"choices\":7", b"\xff"] {
        let (_, error) = run(&[&[b"data: ", data, b"\n\n"].concat()]);
        assert!(matches!(error, Some(ProviderError::Malformed { .. })), "{error:?}");
    }
}

#[test]
fn overflow_in_mid_stream_is_recognized() {
    let (_, error) = run(&[b"data: {\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}\n\n"]);
    assert_eq!(error, Some(ProviderError::ContextOverflow { message: "too long".to_owned() }));
}

#[test]
fn inconsistent_counts_do_not_underflow() {
    let body = b"data: {\"usage\":{\"prompt_tokens\":5,\"total_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":9,\"cache_write_tokens\":9}}}\n\ndata: [DONE]\n\n";
    assert_eq!(complete(body), ["start -", "usage 0 0 5 0", "stop Stop"]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_break_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        run(&[&bytes]);
    }

    #[test]
    fn arbitrary_chunks_do_not_break_the_decoder(
        picks in prop::collection::vec((0..8_usize, 0..3_u64), 0..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let chunk = |(kind, n): &(usize, u64)| match kind {
            0 => r#"{"choices":[{"delta":{"content":"t"}}]}"#.to_owned(),
            1 => r#"{"choices":[{"delta":{"reasoning":"r"}}]}"#.to_owned(),
            2 => format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{n},"id":"c{n}","function":{{"name":"f","arguments":"{{"}}}}]}}}}]}}"#),
            3 => format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{n},"function":{{"arguments":"}}"}}}}]}}}}]}}"#),
            4 => format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"id":"c{n}"}}]}}}}]}}"#),
            5 => r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned(),
            6 => format!(r#"{{"usage":{{"prompt_tokens":{n}}}}}"#),
            _ => "[DONE]".to_owned(),
        };
        let body: String = picks.iter().map(|pick| format!("data: {}\n\n", chunk(pick))).collect();
        let expected = run(&[body.as_bytes()]);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).chain([0, body.len()]).collect();
        at.sort_unstable();
        let packets: Vec<&[u8]> = at.windows(2).map(|pair| &body.as_bytes()[pair[0]..pair[1]]).collect();
        prop_assert_eq!(run(&packets), expected);
    }
}
