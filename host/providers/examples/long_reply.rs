//! Measures long replies over a real connection: time to the first event, time to the last, and peak memory.
//!
//! `cargo run --release -p pinion-providers --example long_reply [PROVIDER]`
//!
//! A server in this process streams replies of 25,000 to 200,000 tokens, one event per token. The events are counted
//! and discarded, as by a consumer that keeps up, so memory would grow with the reply only if something on the way
//! retained it.

#![allow(clippy::print_stdout, reason = "it is a program that prints a table")]

use futures_util::StreamExt;
use pinion_protocol::{Message, Request, RequestOptions, StreamEvent, ToolChoice};
use pinion_providers::{ModelTable, ProviderConfig, build};
use secrecy::SecretString;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const TOKENS: [usize; 4] = [25_000, 50_000, 100_000, 200_000];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let provider = std::env::args().nth(1).unwrap_or_else(|| "anthropic".to_owned());
    println!(
        "{provider}\n{:>8} {:>8} {:>12} {:>10} {:>10} {:>14}",
        "tokens", "MB", "first event", "all", "MB/s", "peak RSS, MB"
    );
    // The first run warms up code and connections.
    measure(&provider, 1_000).await?;
    for tokens in TOKENS {
        let run = measure(&provider, tokens).await?;
        let megabytes = run.bytes as f64 / 1e6;
        println!(
            "{tokens:>8} {megabytes:>8.1} {:>9.2} ms {:>7.0} ms {:>10.0} {:>14.1}",
            run.first.as_secs_f64() * 1e3,
            run.all.as_secs_f64() * 1e3,
            megabytes / run.all.as_secs_f64(),
            run.peak_kib as f64 / 1024.0
        );
    }
    Ok(())
}

struct Run {
    first: Duration,
    all: Duration,
    bytes: usize,
    peak_kib: u64,
}

async fn measure(provider: &str, tokens: usize) -> Result<Run, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let wire = Wire::for_provider(provider).ok_or("one of anthropic, openai-chat, openai-responses, gemini, ollama")?;
    let server = tokio::spawn(serve(listener, wire, tokens));
    let config = ProviderConfig {
        name: provider.to_owned(),
        base_url: Some(url),
        api_key: Some(SecretString::from("none")),
        ..ProviderConfig::default()
    };
    let provider = build(config, ModelTable::builtin())?;
    reset_peak()?;
    let started = Instant::now();
    let mut stream = provider.stream(request(), CancellationToken::new());
    let mut first = None;
    let mut deltas = 0;
    while let Some(event) = stream.next().await {
        first.get_or_insert_with(|| started.elapsed());
        deltas += usize::from(matches!(event?, StreamEvent::Delta { .. }));
    }
    let all = started.elapsed();
    drop(stream);
    let bytes = server.await??;
    if deltas != tokens {
        return Err(format!("{deltas} deltas of {tokens} tokens").into());
    }
    Ok(Run { first: first.unwrap_or_default(), all, bytes, peak_kib: peak()? })
}

fn request() -> Request {
    Request {
        model: "m".to_owned(),
        system: "".into(),
        messages: vec![Arc::new(Message::user("hi"))],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        options: RequestOptions::default(),
    }
}

/// The bytes on the wire: once at the start, for each token, once at the end.
struct Wire {
    kind: &'static str,
    first: &'static str,
    token: &'static str,
    last: &'static str,
}

impl Wire {
    fn for_provider(provider: &str) -> Option<Self> {
        let sse = "text/event-stream";
        Some(match provider {
            "anthropic" => Self {
                kind: sse,
                first: "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
                token: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n",
                last: "data: {\"type\":\"message_stop\"}\n\n",
            },
            "openai-chat" => Self {
                kind: sse,
                first: "",
                token: "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n",
                last: "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
            },
            "openai-responses" => Self {
                kind: sse,
                first: "",
                token: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" word\",\"logprobs\":[]}\n\n",
                last: "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
            },
            "gemini" => Self {
                kind: sse,
                first: "",
                token: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" word\"}],\"role\":\"model\"},\"index\":0}],\"modelVersion\":\"m\"}\r\n\r\n",
                last: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}]},\"finishReason\":\"STOP\",\"index\":0}]}\r\n\r\n",
            },
            "ollama" => Self {
                kind: "application/x-ndjson",
                first: "",
                token: "{\"model\":\"m\",\"created_at\":\"2026-11-20T08:00:00Z\",\"message\":{\"role\":\"assistant\",\"content\":\" word\"},\"done\":false}\n",
                last: "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
            },
            _ => return None,
        })
    }
}

/// Answers one request, in chunks of 50 tokens. Returns the size of the reply in bytes.
async fn serve(listener: TcpListener, wire: Wire, tokens: usize) -> io::Result<usize> {
    const BATCH: usize = 50;
    let (mut stream, _) = listener.accept().await?;
    read_request(&mut stream).await?;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n", wire.kind);
    stream.write_all(head.as_bytes()).await?;
    let mut bytes = 0;
    let batch = wire.token.repeat(BATCH);
    let pieces = [wire.first].into_iter().chain(std::iter::repeat_n(&*batch, tokens / BATCH)).chain([wire.last]);
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        bytes += piece.len();
        stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await?;
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(bytes)
}

/// Requests of this program are small and arrive in one piece.
async fn read_request(stream: &mut TcpStream) -> io::Result<()> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"}") {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Resets the peak memory counter. Linux only, like `peak`.
fn reset_peak() -> io::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}

/// Returns the peak memory since the reset, in KiB.
fn peak() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
