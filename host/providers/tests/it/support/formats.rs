//! The wire formats and their fixtures, for tests of all of them.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use pinion_providers::{Decoder, anthropic, bedrock, gemini, ollama, openai_chat, openai_responses, proxy};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The directories of fixtures, one per format.
pub(crate) const FORMATS: &[&str] = &["anthropic", "bedrock", "chat", "gemini", "ollama", "proxy", "responses"];

/// The prefix of IDs that a decoder generates.
pub(crate) const SEED: &str = "seed";

pub(crate) fn decoder(format: &str) -> Box<dyn Decoder> {
    match format {
        "anthropic" => Box::new(anthropic::AnthropicDecoder::new(SEED)),
        "bedrock" => Box::new(bedrock::BedrockDecoder::new(SEED)),
        "chat" => Box::new(openai_chat::ChatDecoder::new(SEED)),
        "gemini" => Box::new(gemini::GeminiDecoder::new(SEED)),
        "ollama" => Box::new(ollama::OllamaDecoder::new(SEED)),
        "proxy" => Box::new(proxy::ProxyDecoder::new(SEED)),
        "responses" => Box::new(openai_responses::ResponsesDecoder::new(SEED)),
        other => panic!("no format `{other}`"),
    }
}

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Returns every fixture of a format by name, as bytes on the wire.
pub(crate) fn fixtures(format: &str) -> Vec<(String, Vec<u8>)> {
    files(format).into_iter().map(|(name, bytes)| (name, encode(format, bytes))).collect()
}

/// Returns every fixture of a format by name, as text.
pub(crate) fn texts(format: &str) -> Vec<(String, String)> {
    files(format).into_iter().map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
}

fn files(format: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(directory().join(format)).unwrap().map(|entry| entry.unwrap().path());
    let is_stream =
        |file: &PathBuf| file.extension().is_some_and(|end| ["sse", "jsonl", "ndjson"].iter().any(|e| *e == end));
    let mut files: Vec<PathBuf> = files.filter(is_stream).collect();
    files.sort();
    let named = |file: PathBuf| (file.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&file).unwrap());
    files.into_iter().map(named).collect()
}

/// Returns one fixture.
pub(crate) fn fixture(format: &str, name: &str) -> Vec<u8> {
    encode(format, fs::read(directory().join(format).join(name)).unwrap())
}

/// Encodes an event stream, which is stored in a readable form.
pub(crate) fn encode(format: &str, bytes: Vec<u8>) -> Vec<u8> {
    match format {
        "bedrock" => String::from_utf8(bytes).unwrap().lines().flat_map(frame).collect(),
        _ => bytes,
    }
}

/// Encodes one message of an AWS event stream: <https://smithy.io/2.0/aws/amazon-eventstream.html>.
fn frame(line: &str) -> Vec<u8> {
    let line: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let headers = match (&line["event"], &line["exception"]) {
        (Value::String(_), _) => vec![(":message-type", "event".to_owned()), (":event-type", text("event"))],
        (_, Value::String(_)) => {
            vec![(":message-type", "exception".to_owned()), (":exception-type", text("exception"))]
        }
        _ => vec![
            (":message-type", "error".to_owned()),
            (":error-code", text("error")),
            (":error-message", text("message")),
        ],
    };
    let payload = line["payload"].to_string().into_bytes();
    let json = (":content-type", "application/json".to_owned());
    let message = headers.into_iter().chain([json]).fold(Message::new(payload), |message, (name, value)| {
        message.add_header(Header::new(name, HeaderValue::String(value.into())))
    });
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).unwrap();
    bytes
}
