//! Measures the overhead of a turn in the loop: a model and a tool that cost nothing, and a history of so many messages.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::channel::EventWatchers;
use pinion_agent::definition::Execution;
use pinion_agent::message::StopReason;
use pinion_agent::provider::{EventStream, PartKind, Request, StreamEvent};
use pinion_agent::tool::{ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use pinion_agent::{
    Authority, Content, Context, Event, EventKind, LoopConfig, Message, Model, Provider, ToolDefinition, ToolExecutor,
    Usage, run,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// Calls the tool, then says that it is done, then calls it again.
#[derive(Default)]
struct Instant {
    has_called: AtomicBool,
}

impl Provider for Instant {
    fn name(&self) -> &str {
        "instant"
    }

    fn stream(&self, _: Request, _: CancellationToken) -> EventStream {
        let calls = !self.has_called.fetch_xor(true, Ordering::Relaxed);
        let (part, delta, stop_reason) = if calls {
            let part = PartKind::ToolCall { id: "c".into(), name: "nothing".into() };
            (part, r#"{"text":"x"}"#, StopReason::ToolUse)
        } else {
            (PartKind::Text, "Done.", StopReason::Stop)
        };
        let events = [
            StreamEvent::Start { model: None },
            StreamEvent::PartStart { index: 0, part },
            StreamEvent::Delta { index: 0, delta: delta.into() },
            StreamEvent::PartEnd { index: 0, signature: None },
            StreamEvent::Usage(Usage { input: 100, output: 10, ..Usage::default() }),
            StreamEvent::End { stop_reason },
        ];
        futures_util::stream::iter(events.map(Ok)).boxed()
    }
}

struct Nothing(Arc<ToolDefinition>);

impl ToolExecutor for Nothing {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        vec![self.0.clone()]
    }

    fn call<'a>(&'a self, _: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        Box::pin(async { Ok(ToolOutput::text("nothing")).into() })
    }
}

fn config() -> LoopConfig {
    let tool = ToolDefinition {
        name: "nothing".into(),
        label: "Nothing".into(),
        description: "Does nothing.".into(),
        input_schema: json!({ "type": "object", "properties": { "text": { "type": "string" } } }),
        guidelines: vec![],
        authority: Authority::READ_ONLY,
        execution: Execution::Parallel,
        source: Default::default(),
    };
    let model = Model { name: "m".into(), context_window: Some(100_000_000), ..Model::default() };
    LoopConfig::new(Arc::new(Instant::default()), model, Arc::new(Nothing(Arc::new(tool))))
}

fn history(messages: usize) -> Context {
    let message = |n: usize| Arc::new(Message::user(format!("Message {n}. {}", "Some words. ".repeat(40))));
    Context { messages: (0..messages).map(message).collect(), ..Context::new("You are a bench.", "s") }
}

/// A run of two turns, one of them with a tool call; divided by two, the cost of a turn.
fn two_turns(c: &mut Criterion) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let config = config();
    let mut group = c.benchmark_group("two turns");
    for messages in [10, 100, 1_000] {
        group.bench_function(BenchmarkId::new("history", messages), |b| {
            b.iter_batched(
                || history(messages),
                |mut context| {
                    let prompts = vec![Message::user("go")];
                    let token = CancellationToken::new();
                    let outcome =
                        tokio.block_on(run(&mut context, prompts, &config, &EventWatchers::default(), &token));
                    assert_eq!(outcome.turns, 2);
                    context
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Measures the same run with a watcher that counts the letters of the reply.
fn watched(c: &mut Criterion) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let config = config();
    c.bench_function("two turns, watched", |b| {
        b.iter_batched(
            || history(10),
            |mut context| {
                let events = EventWatchers::default();
                let mut watcher = events.subscribe(64);
                let token = CancellationToken::new();
                let watching = async {
                    let mut letters = 0;
                    while let Some(Event { kind, .. }) = watcher.recv().await {
                        match kind {
                            EventKind::MessageEnd { message } => letters += text_bytes(&message),
                            EventKind::AgentEnd { .. } => break,
                            _ => {}
                        }
                    }
                    letters
                };
                let running = run(&mut context, vec![Message::user("go")], &config, &events, &token);
                tokio.block_on(async { tokio::join!(running, watching) })
            },
            BatchSize::LargeInput,
        );
    });
}

fn text_bytes(message: &Message) -> usize {
    let Message::Assistant(message) = message else { return 0 };
    message.content.iter().filter_map(Content::as_text).map(str::len).sum()
}

criterion_group!(benches, two_turns, watched);
criterion_main!(benches);
