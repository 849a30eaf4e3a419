//! Estimates against the count of a vendor whose tokens differ from ours.

use crate::requests::{call, reply, request, result, user};
use pinion_attribution::RequestLedger;
use pinion_protocol::{ByteCounter, Content, Message, Request, Usage};
use std::sync::Arc;
use std::time::SystemTime;

/// Counts like a vendor: words and marks, with a frame around each message.
fn vendor_count(request: &Request) -> u64 {
    let pieces = |text: &str| -> u64 {
        let marks = text.chars().filter(|c| c.is_ascii_punctuation()).count() as u64;
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        marks + words.map(|word| word.len().div_ceil(6) as u64).sum::<u64>()
    };
    let tools = request.tools.iter();
    let tools: u64 = tools.map(|tool| pieces(&tool.description) + pieces(&tool.input_schema.to_string()) + 9).sum();
    let messages =
        request.messages.iter().map(|message| 6 + pieces(&serde_json::to_string(message_text(message)).unwrap()));
    pieces(&request.system) + tools + messages.sum::<u64>()
}

fn message_text(message: &Message) -> &[Content] {
    match message {
        Message::User(user) => &user.content,
        Message::Assistant(reply) => &reply.content,
        Message::ToolResult(result) => &result.content,
        Message::Extension(_) => &[],
    }
}

#[test]
fn sum_of_segments_is_within_three_percent_of_the_vendors_count() {
    let ledger = RequestLedger::new(Arc::new(ByteCounter::DEFAULT));
    let mut request = request();
    // About as long as the system prompt and the tools of the command.
    request.system = format!("{}{}", request.system, "> Leave no stubs, and no debris.\n".repeat(200)).into();
    let mut errors = Vec::new();
    for turn in 0..40_usize {
        let context = vendor_count(&request);
        let said = format!("I read the file number {turn} and found {} problems in its functions.", turn % 7);
        let answer =
            reply(vec![Content::text(said), call(&format!("c{turn}"), "read", "src/lib.rs")], Usage::default(), None);
        let with_answer =
            Request { messages: [request.messages.clone(), vec![answer.clone()]].concat(), ..request.clone() };
        let usage = Usage { input: context, output: vendor_count(&with_answer) - context, ..Usage::default() };
        let ticket = ledger.begin("vendor", &request, None);
        ledger.finish(ticket, "large", &usage, SystemTime::UNIX_EPOCH);
        errors.extend(ledger.estimate_error("s"));
        let sum: u64 = ledger.segments("s").iter().map(|(_, tokens)| tokens).sum();
        assert!((sum as f64 - context as f64).abs() / (context as f64) < 0.03, "{sum} of {context}");
        request.messages.push(answer);
        let text = match turn % 3 {
            0 => "fn check(value: &str) -> Option<usize> { value.parse().ok() }\n".repeat(turn % 5 + 1),
            1 => "The quick brown fox jumps over the lazy dog, again and again.\n".repeat(turn % 4 + 1),
            _ => "{\"name\":\"pinion\",\"version\":\"0.1.0\",\"files\":[1,2,3]}\n".repeat(turn % 3 + 1),
        };
        request.messages.push(result(&format!("c{turn}"), "read", &text));
        if turn % 4 == 3 {
            request.messages.push(user("Go on with the next file, please, and tell me about all problems."));
        }
    }
    // The first report calibrates.
    let worst = errors.iter().copied().fold(0.0, f64::max);
    assert!(errors.len() >= 38 && worst < 0.03, "worst error {worst}: {errors:?}");
}

#[test]
fn forecast_and_turns_follow_the_reports() {
    let ledger = RequestLedger::new(Arc::new(ByteCounter::DEFAULT));
    assert_eq!(ledger.forecast("s"), None);
    let request = request();
    for _ in 0..3 {
        let mark = ledger.mark("s");
        for session in ["s", "s", "child"] {
            let mut sent = request.clone();
            sent.options.session_id = Some(session.into());
            let ticket = ledger.begin("vendor", &sent, None);
            let usage = Usage { input: 100, output: 50, cache_read: 900, cache_write: 0 };
            ledger.finish(ticket, "large", &usage, SystemTime::UNIX_EPOCH);
        }
        let counts = ledger.end_turn("s", &mark);
        assert_eq!((counts.all, counts.by_others), (3, 1));
    }
    // Two requests a turn, each with 150 new tokens and 50 of the reply.
    assert_eq!(ledger.mark("s").forecast, Some((None, 400)));
    assert_eq!(ledger.forecast("s").unwrap().input, 1_050);
    assert_eq!(ledger.mark("child").forecast, None);
}
