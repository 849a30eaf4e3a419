//! Estimates against the counts of vendors whose tokens differ from ours.

use crate::byte_pairs::{BytePairs, words_of};
use crate::requests::{call, reply, request, result, user};
use pinion_attribution::RequestLedger;
use pinion_protocol::{ByteCounter, Content, Message, Request, Usage};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

/// A vendor: its count of a text, and the tokens that it adds to the text of each message, of each tool, and of all tools.
struct ScriptedVendor {
    name: &'static str,
    count: fn(&mut VendorTexts, &str) -> u64,
    message: u64,
    tool: u64,
    tools: u64,
}

const VENDORS: &[ScriptedVendor] = &[
    ScriptedVendor { name: "words and marks", count: |_, text| words_and_marks(text), message: 6, tool: 9, tools: 0 },
    ScriptedVendor { name: "byte pairs", count: VendorTexts::byte_pairs, message: 4, tool: 12, tools: 346 },
    ScriptedVendor { name: "bytes", count: |_, text| text.len().div_ceil(3) as u64, message: 3, tool: 30, tools: 20 },
    ScriptedVendor { name: "whole words", count: |_, text| whole_words(text), message: 8, tool: 4, tools: 500 },
];

/// Counts marks, and pieces of words.
fn words_and_marks(text: &str) -> u64 {
    let marks = text.chars().filter(char::is_ascii_punctuation).count() as u64;
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    marks + words.map(|word| word.len().div_ceil(6) as u64).sum::<u64>()
}

/// Counts words with the marks at them, as a large vocabulary does.
fn whole_words(text: &str) -> u64 {
    text.split_whitespace().map(|word| word.len().div_ceil(8) as u64).sum()
}

/// The state of a vendor's counts.
struct VendorTexts {
    byte_pairs: BytePairs,
    /// The counts of words that were split already.
    known: HashMap<String, u64>,
}

impl VendorTexts {
    fn byte_pairs(&mut self, text: &str) -> u64 {
        let counts = words_of(text).map(|word| match self.known.get(word) {
            Some(count) => *count,
            None => {
                let count = self.byte_pairs.split(word).len() as u64;
                self.known.insert(word.to_owned(), count);
                count
            }
        });
        counts.sum()
    }

    fn of_request(&mut self, vendor: &ScriptedVendor, request: &Request) -> u64 {
        let mut sum = (vendor.count)(self, &request.system) + vendor.tools;
        for tool in &request.tools {
            sum += vendor.tool + (vendor.count)(self, &format!("{}{}", tool.description, tool.input_schema));
        }
        for message in &request.messages {
            let text = serde_json::to_string(message_text(message)).unwrap();
            sum += vendor.message + (vendor.count)(self, &text);
        }
        sum
    }
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
fn sum_of_segments_is_within_three_percent_of_each_vendors_count() {
    let byte_pairs = BytePairs::trained(concat!(include_str!("../../DESIGN.md"), include_str!("../../src/ledger.rs")));
    let mut texts = VendorTexts { byte_pairs, known: HashMap::new() };
    for vendor in VENDORS {
        let errors = errors_of_estimates(vendor, &mut texts);
        // The first report calibrates.
        let worst = errors.iter().copied().fold(0.0, f64::max);
        assert!(errors.len() >= 38 && worst < 0.03, "{}: worst error {worst}: {errors:?}", vendor.name);
    }
}

/// Sends a conversation of 40 requests to a vendor. Returns the errors of the estimates before its reports.
fn errors_of_estimates(vendor: &ScriptedVendor, texts: &mut VendorTexts) -> Vec<f64> {
    let ledger = RequestLedger::new(Arc::new(ByteCounter::DEFAULT));
    let mut request = request();
    // About as long as the system prompt and the tools of the command.
    request.system = format!("{}{}", request.system, "> Leave no stubs, and no debris.\n".repeat(200)).into();
    let mut errors = Vec::new();
    for turn in 0..40_usize {
        let context = texts.of_request(vendor, &request);
        let said = format!("I read the file number {turn} and found {} problems in its functions.", turn % 7);
        let answer =
            reply(vec![Content::text(said), call(&format!("c{turn}"), "read", "src/lib.rs")], Usage::default(), None);
        let with_answer =
            Request { messages: [request.messages.clone(), vec![answer.clone()]].concat(), ..request.clone() };
        let usage =
            Usage { input: context, output: texts.of_request(vendor, &with_answer) - context, ..Usage::default() };
        let ticket = ledger.begin("vendor", &request, None);
        ledger.finish(ticket, "large", &usage, SystemTime::UNIX_EPOCH);
        errors.extend(ledger.estimate_error("s"));
        let sum: u64 = ledger.segments("s").iter().map(|(_, tokens)| tokens).sum();
        assert!((sum as f64 - context as f64).abs() / (context as f64) < 0.03, "{}: {sum} of {context}", vendor.name);
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
    errors
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
