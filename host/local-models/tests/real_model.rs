//! A real model answers and calls a tool. Runs if `PINION_LOCAL_MODEL` names a file; `tests/local-model.sh` sets it.

use futures_util::StreamExt as _;
use pinion_local_models::{GgufHeader, LocalProvider, ModelHost, ModelState, Tokenizer, load_model};
use pinion_protocol::{
    Authority, Execution, Message, PartKind, Provider as _, ProviderError, Request, RequestOptions, StopReason,
    StreamEvent, ToolChoice, ToolDefinition, ToolSource, Usage,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn model_file() -> Option<PathBuf> {
    std::env::var_os("PINION_LOCAL_MODEL").map(PathBuf::from)
}

fn host(file: PathBuf) -> Arc<ModelHost> {
    ModelHost::new(Arc::new(move || load_model(&file)), Duration::from_secs(600))
}

fn request(text: &str) -> Request {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Path of the file" },
            "mode": { "enum": ["text", "bytes"] },
            "limit": { "type": "integer" },
        },
        "required": ["path", "mode"],
    });
    let tool = ToolDefinition {
        name: "read".to_owned(),
        label: "Read".to_owned(),
        description: "Reads a file and returns its text".to_owned(),
        input_schema: schema,
        guidelines: Vec::new(),
        authority: Authority::default(),
        execution: Execution::Parallel,
        source: ToolSource::default(),
    };
    Request {
        model: "local".to_owned(),
        system: "You are a helpful assistant.".into(),
        messages: vec![Arc::new(Message::user(text))],
        tools: vec![Arc::new(tool)],
        tool_choice: ToolChoice::Auto,
        options: RequestOptions { max_output_tokens: Some(120), ..RequestOptions::default() },
    }
}

async fn events(provider: &LocalProvider, request: Request) -> Vec<StreamEvent> {
    let events: Vec<_> = provider.stream(request, CancellationToken::new()).collect().await;
    events.into_iter().collect::<Result<_, _>>().unwrap()
}

fn usage(events: &[StreamEvent]) -> Usage {
    let usages = events.iter().filter_map(|event| match event {
        StreamEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    usages.last().unwrap()
}

fn text(events: &[StreamEvent]) -> String {
    let deltas = events.iter().filter_map(|event| match event {
        StreamEvent::Delta { delta, .. } => Some(delta.as_str()),
        _ => None,
    });
    deltas.collect()
}

#[tokio::test]
async fn model_answers_calls_a_tool_and_reads_prompts_once() {
    let Some(file) = model_file() else { return };
    let host = host(file);
    let provider = LocalProvider::new(host.clone());
    let mut plain = request("What is the capital of France? Answer with one word.");
    plain.tools.clear();
    let reply = events(&provider, plain.clone()).await;
    assert!(text(&reply).contains("Paris"), "{}", text(&reply));
    assert_eq!(host.state(), ModelState::Ready);
    let again = events(&provider, plain).await;
    assert_eq!(text(&again), text(&reply), "the same prompt has the same reply");
    assert_eq!(usage(&again).input, 1);

    let reply = events(&provider, request("Read the file notes.txt with the tool read.")).await;
    let name = reply.iter().find_map(|event| match event {
        StreamEvent::PartStart { part: PartKind::ToolCall { name, .. }, .. } => Some(name.as_str()),
        _ => None,
    });
    assert_eq!(name, Some("read"));
    let arguments: Value = serde_json::from_str(&text(&reply)).unwrap();
    assert!(arguments["path"].is_string() && arguments["mode"].is_string(), "{arguments}");
    assert!(matches!(reply.last(), Some(StreamEvent::End { stop_reason: StopReason::ToolUse })));
}

#[tokio::test]
async fn cancelled_request_leaves_the_model_usable() {
    let Some(file) = model_file() else { return };
    let provider = LocalProvider::new(host(file));
    let token = CancellationToken::new();
    let mut stream = provider.stream(request("Write a long story."), token.clone());
    for _ in 0..4 {
        stream.next().await.unwrap().unwrap();
    }
    token.cancel();
    let rest: Vec<_> = stream.collect().await;
    assert!(matches!(rest.last(), Some(Err(ProviderError::Cancelled))));
    let mut short = request("Hello");
    short.options.max_output_tokens = Some(3);
    assert!(usage(&events(&provider, short).await).output <= 3);
}

/// The tokens equal the tokens of llama.cpp for the same file, and decode to the text.
#[test]
fn vocabulary_of_the_model_gives_the_tokens_of_llama_cpp() {
    let Some(file) = model_file() else { return };
    let length = file.metadata().unwrap().len();
    let header = GgufHeader::read(std::fs::File::open(&file).unwrap(), length).unwrap();
    let tokenizer = Tokenizer::from_header(&header).unwrap();
    let cases: [(&str, &[u32]); 5] = [
        ("Hello, world!", &[19556, 28, 905, 17]),
        (
            "fn main() {\n\tlet x = 42;\n}\n",
            &[7853, 1085, 1000, 1662, 198, 197, 2016, 1792, 446, 216, 36, 34, 43, 198, 109, 198],
        ),
        ("  a   b\n\n\n c", &[216, 253, 256, 278, 16506, 265]),
        ("I'll 1234567", &[57, 3060, 216, 33, 34, 35, 36, 37, 38, 39]),
        ("日本語 ünï 🦀", &[23274, 115, 40993, 179, 120, 248, 5549, 137, 94, 25972, 15107, 116, 218]),
    ];
    for (whole, expected) in cases {
        let tokens = tokenizer.encode(whole);
        if header.text("general.basename") == Some("smollm2") {
            assert_eq!(tokens, expected, "{whole}");
        }
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| tokenizer.piece(*token).to_vec()).collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), whole);
    }
}
