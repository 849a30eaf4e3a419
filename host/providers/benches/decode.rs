//! Measures decoding of replies in bytes of the wire per second, for each format, along with two lower bounds: finding
//! the line ends, and parsing the JSON of each event.
//!
//! `cargo bench -p pinion-providers --bench decode`

#![allow(clippy::unwrap_used, missing_docs, reason = "the decoded data is valid, and `criterion_main` has no docs")]

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pinion_protocol::StreamEvent;
use pinion_providers::{Decoder, anthropic, bedrock, gemini, ollama, openai_chat, openai_responses, proxy};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::hint::black_box;

/// The number of deltas in a reply.
const DELTAS: usize = 20_000;

/// The packet size, as a connection delivers it.
const PACKET: usize = 16 << 10;

struct Format {
    name: &'static str,
    decoder: fn() -> Box<dyn Decoder>,
    /// The bytes on the wire.
    bytes: Vec<u8>,
    /// The JSON in them, one event per line.
    json: Vec<u8>,
}

fn formats() -> Vec<Format> {
    let sse = |name, decoder, events: Vec<Value>| {
        let bytes = events.iter().flat_map(|event| format!("data: {event}\n\n").into_bytes()).collect();
        Format { name, decoder, bytes, json: lines(&events) }
    };
    vec![
        sse("anthropic", || Box::new(anthropic::AnthropicDecoder::new("id")), in_anthropic()),
        sse("openai-chat", || Box::new(openai_chat::ChatDecoder::new("id")), in_chat()),
        sse("openai-responses", || Box::new(openai_responses::ResponsesDecoder::new("id")), in_responses()),
        sse("gemini", || Box::new(gemini::GeminiDecoder::new("id")), in_gemini()),
        sse("proxy", || Box::new(proxy::ProxyDecoder::new("id")), in_proxy()),
        in_ollama(),
        in_bedrock(),
    ]
}

fn lines(events: &[Value]) -> Vec<u8> {
    events.iter().flat_map(|event| format!("{event}\n").into_bytes()).collect()
}

/// Returns a few words; JSON has to escape some of them.
fn pick_words(at: usize) -> &'static str {
    [" the quick", " brown fox", "\n    \"jumps\"", " over", " the lazy dog,", " größer 🌍"][at % 6]
}

fn between(first: Vec<Value>, delta: impl Fn(&str) -> Value, last: Vec<Value>) -> Vec<Value> {
    let deltas = (0..DELTAS).map(|at| delta(pick_words(at)));
    first.into_iter().chain(deltas).chain(last).collect()
}

fn in_anthropic() -> Vec<Value> {
    let start = json!({ "type": "message_start", "message": { "model": "m", "usage": { "input_tokens": 1 } } });
    let begin = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let delta = |text: &str| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } });
    between(vec![start, begin], delta, vec![json!({ "type": "message_stop" })])
}

fn in_chat() -> Vec<Value> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] })
    };
    between(vec![], |text| chunk(json!({ "content": text }), Value::Null), vec![chunk(json!({}), json!("stop"))])
}

fn in_responses() -> Vec<Value> {
    let delta = |text: &str| {
        json!({ "type": "response.output_text.delta", "sequence_number": 7, "item_id": "msg_1", "output_index": 0,
            "content_index": 0, "delta": text, "logprobs": [] })
    };
    let end = json!({ "type": "response.completed", "response": { "status": "completed", "model": "m" } });
    between(vec![json!({ "type": "response.created", "response": { "model": "m" } })], delta, vec![end])
}

fn in_gemini() -> Vec<Value> {
    let chunk = |text: &str, finish: Option<&str>| {
        let content = json!({ "parts": [{ "text": text }], "role": "model" });
        let usage = json!({ "promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18 });
        json!({ "candidates": [{ "content": content, "finishReason": finish, "index": 0 }], "usageMetadata": usage,
            "modelVersion": "m", "responseId": "r" })
    };
    between(vec![], |text| chunk(text, None), vec![chunk("", Some("STOP"))])
}

fn in_proxy() -> Vec<Value> {
    let first = vec![json!({ "type": "start", "model": "m" }), json!({ "type": "part", "index": 0, "kind": "text" })];
    let last = vec![json!({ "type": "part_end", "index": 0 }), json!({ "type": "end", "stop_reason": "stop" })];
    between(first, |text| json!({ "type": "delta", "index": 0, "text": text }), last)
}

fn in_ollama() -> Format {
    let chunk = |text: &str, done: bool| {
        let message = json!({ "role": "assistant", "content": text });
        json!({ "model": "m", "created_at": "2026-11-20T08:00:00.123456Z", "message": message, "done": done })
    };
    let bytes = lines(&between(vec![], |text| chunk(text, false), vec![chunk("", true)]));
    Format { name: "ollama", decoder: || Box::new(ollama::OllamaDecoder::new("id")), json: bytes.clone(), bytes }
}

fn in_bedrock() -> Format {
    let delta = |text: &str| json!({ "contentBlockIndex": 0, "delta": { "text": text }, "p": "abcdefghijkl" });
    let payloads: Vec<Value> = (0..DELTAS).map(|at| delta(pick_words(at))).collect();
    let mut bytes = Vec::new();
    for payload in &payloads {
        frame("contentBlockDelta", payload, &mut bytes);
    }
    frame("messageStop", &json!({ "stopReason": "end_turn" }), &mut bytes);
    frame("metadata", &json!({ "usage": { "inputTokens": 1, "outputTokens": 1 } }), &mut bytes);
    Format { name: "bedrock", decoder: || Box::new(bedrock::BedrockDecoder::new("id")), bytes, json: lines(&payloads) }
}

fn frame(kind: &str, payload: &Value, bytes: &mut Vec<u8>) {
    let header = |name: &'static str, value: &str| Header::new(name, HeaderValue::String(value.to_owned().into()));
    let message = Message::new(payload.to_string().into_bytes())
        .add_header(header(":event-type", kind))
        .add_header(header(":content-type", "application/json"))
        .add_header(header(":message-type", "event"));
    write_message_to(&message, bytes).unwrap();
}

fn decode(format: &Format) -> usize {
    let mut decoder = (format.decoder)();
    let mut events = Vec::new();
    let mut count = 0;
    for packet in format.bytes.chunks(PACKET) {
        decoder.feed(packet, &mut events).unwrap();
        count += events.drain(..).map(|event| usize::from(matches!(event, StreamEvent::Delta { .. }))).sum::<usize>();
    }
    decoder.finish(&mut events).unwrap();
    count
}

fn benches(criterion: &mut Criterion) {
    for format in formats() {
        assert_eq!(decode(&format), DELTAS, "{}", format.name);
        let mut group = criterion.benchmark_group(format.name);
        group.throughput(Throughput::Bytes(format.bytes.len() as u64));
        group.bench_function("decode", |bencher| bencher.iter(|| decode(black_box(&format))));
        group.bench_function("lines", |bencher| {
            bencher.iter(|| memchr::memchr_iter(b'\n', black_box(&format.bytes)).map(|at| at & 1).sum::<usize>());
        });
        group.throughput(Throughput::Bytes(format.json.len() as u64));
        group.bench_function("json skipped", |bencher| {
            bencher
                .iter(|| json_lines(&format.json, |line| assert!(serde_json::from_slice::<IgnoredAny>(line).is_ok())));
        });
        group.bench_function("json values", |bencher| {
            bencher.iter(|| json_lines(&format.json, |line| drop(serde_json::from_slice::<Value>(line).unwrap())));
        });
        group.finish();
    }
}

fn json_lines(bytes: &[u8], mut parse: impl FnMut(&[u8])) {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        parse(black_box(&bytes[start..end]));
        start = end + 1;
    }
}

criterion_group! {
    name = decoding;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2))
        .warm_up_time(std::time::Duration::from_millis(500));
    targets = benches
}
criterion_main!(decoding);
