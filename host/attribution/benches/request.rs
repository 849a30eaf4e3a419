//! The cost of attributing a request of a long conversation.

use criterion::{Criterion, criterion_group, criterion_main};
use pinion_attribution::RequestLedger;
use pinion_protocol::{
    Authority, ByteCounter, Execution, Message, Request, RequestOptions, ToolChoice, ToolDefinition, ToolSource, Usage,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::SystemTime;

/// A request with so many messages of 2 KiB, 40 tools and a system prompt of 20 KiB.
fn request(messages: usize) -> Request {
    let tool = |number: usize| ToolDefinition {
        name: format!("tool{number}"),
        label: String::new(),
        description: "Reads one or more files. ".repeat(20),
        input_schema: serde_json::json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
        guidelines: Vec::new(),
        authority: Authority::READ_ONLY,
        execution: Execution::default(),
        source: ToolSource::default(),
    };
    Request {
        model: "model".into(),
        system: "Do what the user asks: all of it, and no more.\n".repeat(400).into(),
        messages: (0..messages).map(|_| Arc::new(Message::user("x".repeat(2_048)))).collect(),
        tools: (0..40).map(|number| Arc::new(tool(number))).collect(),
        tool_choice: ToolChoice::Auto,
        options: RequestOptions { session_id: Some("s".into()), ..RequestOptions::default() },
    }
}

fn attribution(criterion: &mut Criterion) {
    let usage = Usage { input: 500_000, output: 100, ..Usage::default() };
    let long = request(1_000);
    let ledger = RequestLedger::new(Arc::new(ByteCounter::DEFAULT));
    let account = |request: &Request| {
        let ticket = ledger.begin("vendor", black_box(request), None);
        ledger.finish(ticket, "model", &usage, SystemTime::UNIX_EPOCH);
    };
    criterion.bench_function("next request of 1,000 messages", |bencher| {
        account(&long);
        let mut next = long.clone();
        // Tools and the system prompt are built again for each request.
        next.tools = next.tools.iter().map(|tool| Arc::new((**tool).clone())).collect();
        next.messages.push(Arc::new(Message::user("y".repeat(2_048))));
        let mut is_next = false;
        bencher.iter(|| {
            is_next = !is_next;
            account(if is_next { &next } else { &long });
        });
    });
    criterion.bench_function("first request of 1,000 messages", |bencher| {
        bencher.iter(|| {
            let ledger = RequestLedger::new(Arc::new(ByteCounter::DEFAULT));
            black_box(ledger.begin("vendor", black_box(&long), None));
        });
    });
}

criterion_group!(benches, attribution);
criterion_main!(benches);
