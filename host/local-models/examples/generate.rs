//! Measures a model: `generate FILE [TOKENS]` reads a prompt, writes an answer, and prints tokens per second of both.

use futures_util::StreamExt as _;
use pinion_local_models::{LocalProvider, ModelHost, load_model};
use pinion_protocol::{Message, Provider as _, Request, RequestOptions, StreamEvent, ToolChoice, Usage};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = PathBuf::from(arguments.next().ok_or("usage: generate FILE [TOKENS]")?);
    let limit: u64 = arguments.next().map_or(Ok(128), |count| count.parse())?;
    let host = ModelHost::new(Arc::new(move || load_model(&file)), Duration::from_secs(60));
    let provider = LocalProvider::new(host);
    let started = Instant::now();
    let warm = answer(&provider, "Hello", 1).await?;
    report("loading, and a first answer", warm.0, started.elapsed());
    let text = "The quick brown fox jumps over the lazy dog, and writes a story about it. ".repeat(24);
    let (usage, text, read, wrote) = answer(&provider, &text, limit).await?;
    report("reading", usage, read);
    write(&format!("{:.1} tokens/s", usage.input as f64 / read.as_secs_f64()));
    report("writing", usage, wrote);
    write(&format!("{:.1} tokens/s", usage.output as f64 / wrote.as_secs_f64()));
    write(&text);
    Ok(())
}

type Answer = (Usage, String, Duration, Duration);

async fn answer(provider: &LocalProvider, prompt: &str, limit: u64) -> Result<Answer, Box<dyn Error>> {
    let request = Request {
        model: String::new(),
        system: "".into(),
        messages: vec![Arc::new(Message::user(prompt))],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        options: RequestOptions { max_output_tokens: Some(limit), ..RequestOptions::default() },
    };
    let started = Instant::now();
    let mut events = provider.stream(request, CancellationToken::new());
    let (mut usage, mut text, mut read) = (Usage::default(), String::new(), None);
    while let Some(event) = events.next().await {
        match event? {
            StreamEvent::Usage(counted) => {
                read.get_or_insert_with(|| started.elapsed());
                usage = counted;
            }
            StreamEvent::Delta { delta, .. } => text.push_str(&delta),
            _ => {}
        }
    }
    let read = read.unwrap_or_default();
    Ok((usage, text, read, started.elapsed() - read))
}

fn report(work: &str, usage: Usage, time: Duration) {
    write(&format!("{work}: {} tokens in, {} out, {:.2} s", usage.input, usage.output, time.as_secs_f64()));
}

#[expect(clippy::print_stdout, reason = "a command of developers")]
fn write(line: &str) {
    println!("{line}");
}
