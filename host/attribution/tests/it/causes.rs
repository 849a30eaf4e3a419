//! Causes of broken caches, and the owner that is named for each.

use crate::requests::{call, continued, reply, request, result, text_reply, tool, user};
use pinion_attribution::{CacheBreak, RequestLedger, RequestParts, SegmentChange, find_break};
use pinion_protocol::{
    ByteCounter, Content, Message, Prices, Request, SUMMARY_FRAME, ThinkingLevel, ToolChoice, Usage,
};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A cause: the change to the next request, the owner that is named, and the change that is named.
type Cause = (&'static str, fn(&mut Request), &'static str, SegmentChange);

fn replace(request: &mut Request, old: &str, new: &str) {
    assert!(request.system.contains(old), "{old}");
    request.system = request.system.replace(old, new).into();
}

fn change_tool(request: &mut Request, at: usize, change: impl FnOnce(&mut pinion_protocol::ToolDefinition)) {
    let mut changed = (*request.tools[at]).clone();
    change(&mut changed);
    request.tools[at] = Arc::new(changed);
}

/// Replaces messages with a summary, as a compaction does.
fn compact(request: &mut Request, range: std::ops::Range<usize>) {
    request.messages.splice(range, [user(&format!("{SUMMARY_FRAME}They fixed a bug."))]);
}

const CAUSES: &[Cause] = &[
    ("model switch", |r| r.model = "small".into(), "the model `vendor/small`", SegmentChange::Switched),
    (
        "edited project file",
        |r| replace(r, "Run the tests.", "Run all tests."),
        "the context file `AGENTS.md`",
        SegmentChange::Edited,
    ),
    (
        "edited file of a directory",
        |r| replace(r, "Write docs.", "No docs."),
        "the context file `docs/AGENTS.md`",
        SegmentChange::Edited,
    ),
    (
        "edited user's file",
        |r| replace(r, "Be brief.", "Be long."),
        "the context file `~/.config/pinion/AGENTS.md`",
        SegmentChange::Edited,
    ),
    (
        "new context file",
        |r| {
            replace(
                r,
                "</project_context>",
                "<project_instructions path=\"NEW.md\">\n> New.\n</project_instructions>\n\n</project_context>",
            )
        },
        "the context file `NEW.md`",
        SegmentChange::Added,
    ),
    (
        "removed context file",
        |r| {
            replace(r, "<project_instructions path=\"docs/AGENTS.md\">\n> Write docs.\n</project_instructions>\n\n", "")
        },
        "the context file `docs/AGENTS.md`",
        SegmentChange::Removed,
    ),
    ("date", |r| replace(r, "2026-01-02", "2026-01-03"), "the date in the system prompt", SegmentChange::Clock),
    (
        "other directory",
        |r| replace(r, "Directory: /src", "Directory: /other"),
        "the surroundings in the system prompt",
        SegmentChange::Edited,
    ),
    (
        "other system prompt",
        |r| replace(r, "You are Pinion.", "You are a fox."),
        "the system prompt",
        SegmentChange::Edited,
    ),
    (
        "appended text",
        |r| replace(r, "be kind", "be strict"),
        "the text appended to the system prompt",
        SegmentChange::Edited,
    ),
    ("edited skill", |r| replace(r, "reads PDF", "writes PDF"), "the list of skills", SegmentChange::Edited),
    (
        "new skill",
        |r| replace(r, "> - pdf: reads PDF", "> - pdf: reads PDF\n> - csv: reads CSV"),
        "the list of skills",
        SegmentChange::Edited,
    ),
    (
        "no more skills",
        |r| replace(r, "The plugin `skills` says about its tools:\n\n> - pdf: reads PDF\n\n", ""),
        "the list of skills",
        SegmentChange::Removed,
    ),
    (
        "instructions of a plugin",
        |r| replace(r, "Note decisions.", "Note all."),
        "the instructions of the plugin `notes`",
        SegmentChange::Edited,
    ),
    (
        "instructions of a new plugin",
        |r| {
            let begin = r.system.trim_end();
            r.system = format!("{begin}\n\nThe plugin `late` says about its tools:\n\n> x").into();
        },
        "the instructions of the plugin `late`",
        SegmentChange::Added,
    ),
    (
        "guideline",
        |r| replace(r, "Be careful.", "Be bold."),
        "the guidelines of the tool `bash`",
        SegmentChange::Edited,
    ),
    (
        "removed guideline",
        |r| replace(r, "- `bash`: Be careful.\n", ""),
        "the guidelines of the tool `bash`",
        SegmentChange::Removed,
    ),
    (
        "counter in instructions",
        |r| replace(r, "Note decisions.", "Note decisions.1"),
        "the instructions of the plugin `notes`",
        SegmentChange::Clock,
    ),
    (
        "longer appended text",
        |r| replace(r, "be kind", "be kind at 10:15"),
        "the text appended to the system prompt",
        SegmentChange::Edited,
    ),
    (
        "clock in a context file",
        |r| replace(r, "Run the tests.", "Run the tests.7"),
        "the context file `AGENTS.md`",
        SegmentChange::Clock,
    ),
    ("reordered tools", |r| r.tools.swap(0, 1), "the tool `edit` of the plugin `fs`", SegmentChange::Reordered),
    (
        "tools sorted by another key",
        |r| r.tools.reverse(),
        "the tool `skill` of the plugin `skills`",
        SegmentChange::Reordered,
    ),
    (
        "changed schema",
        |r| change_tool(r, 2, |tool| tool.input_schema = json!({ "type": "object" })),
        "the tool `bash` of the plugin `shell`",
        SegmentChange::Schema,
    ),
    (
        "changed schema of a server's tool",
        |r| change_tool(r, 4, |tool| tool.input_schema = json!({ "type": "object" })),
        "the tool `issues__close` of the MCP server `issues`",
        SegmentChange::Schema,
    ),
    (
        "changed description",
        |r| change_tool(r, 1, |tool| tool.description = "Changes a file.".into()),
        "the tool `edit` of the plugin `fs`",
        SegmentChange::Edited,
    ),
    (
        "clock in a description",
        |r| change_tool(r, 5, |tool| tool.description = "Returns a skill.12".into()),
        "the tool `skill` of the plugin `skills`",
        SegmentChange::Clock,
    ),
    (
        "new tool of a plugin",
        |r| r.tools.insert(3, Arc::new(tool("notify", "notes", "Notifies."))),
        "the tool `notify` of the plugin `notes`",
        SegmentChange::Added,
    ),
    (
        "new server",
        |r| r.tools.insert(5, Arc::new(tool("wiki__find", "mcp", "Finds."))),
        "the MCP server `wiki`",
        SegmentChange::Added,
    ),
    (
        "new tool of a server",
        |r| r.tools.insert(4, Arc::new(tool("issues__edit", "mcp", "Edits."))),
        "the tool `issues__edit` of the MCP server `issues`",
        SegmentChange::Added,
    ),
    ("removed server", |r| drop(r.tools.drain(3..5)), "the MCP server `issues`", SegmentChange::Removed),
    ("removed tool", |r| drop(r.tools.remove(1)), "the tool `edit` of the plugin `fs`", SegmentChange::Removed),
    (
        "removed tool of a server",
        |r| drop(r.tools.remove(3)),
        "the tool `issues__list` of the MCP server `issues`",
        SegmentChange::Removed,
    ),
    ("thinking level", |r| r.options.thinking = ThinkingLevel::High, "the setting `thinking`", SegmentChange::Edited),
    ("thinking budget", |r| r.options.thinking_budget = Some(9_000), "the setting `thinking`", SegmentChange::Edited),
    ("tool choice", |r| r.tool_choice = ToolChoice::Any, "the setting `tool choice`", SegmentChange::Edited),
    ("compaction", |r| compact(r, 0..4), "the summary of a compaction", SegmentChange::Compacted),
    ("compaction that keeps the task", |r| compact(r, 1..4), "the summary of a compaction", SegmentChange::Compacted),
    (
        "shortened result",
        |r| r.messages[2] = result("1", "read", "fn main() {}"),
        "the result of `read` on `src/a.rs`",
        SegmentChange::Shortened,
    ),
    (
        "rewound turn",
        |r| drop(r.messages.splice(4.., [user("something else")])),
        "your message 2",
        SegmentChange::Rewound,
    ),
    (
        "clock in a message",
        |r| r.messages[4] = user("and now the tests at 10:16:02"),
        "your message 2",
        SegmentChange::Clock,
    ),
    ("rewritten message", |r| r.messages[0] = user("fix another bug"), "your message 1", SegmentChange::Edited),
    ("inserted message", |r| r.messages.insert(0, user("reminder")), "your message 1", SegmentChange::Added),
    ("dropped message", |r| drop(r.messages.drain(1..3)), "reply 1", SegmentChange::Removed),
    ("rewritten reply", |r| r.messages[3] = text_reply("It is not fixed."), "reply 2", SegmentChange::Edited),
    (
        "dropped thinking",
        |r| r.messages[1] = reply(vec![Content::text("hm"), call("1", "read", "src/a.rs")], Usage::default(), None),
        "reply 1",
        SegmentChange::Edited,
    ),
];

fn parts(request: &Request, before: Option<&RequestParts>) -> RequestParts {
    RequestParts::divide("vendor", request, before, &ByteCounter::DEFAULT)
}

#[test]
fn forty_causes_are_attributed_to_their_owners() {
    assert!(CAUSES.len() >= 40, "{}", CAUSES.len());
    let before = parts(&request(), None);
    let mut wrong = Vec::new();
    for (name, change, owner, expected) in CAUSES {
        let mut after = continued(request());
        change(&mut after);
        let found = find_break(&before, &parts(&after, Some(&before)));
        let from_scratch = find_break(&before, &parts(&after, None));
        assert_eq!(found, from_scratch, "{name}: segments that were taken over");
        let is_right = |found: &CacheBreak| found.owner.to_string() == *owner && found.change == *expected;
        if !found.as_ref().is_some_and(is_right) {
            wrong.push(format!("{name}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn request_that_continues_the_one_before_breaks_nothing() {
    let before = parts(&request(), None);
    assert_eq!(find_break(&before, &parts(&request(), Some(&before))), None);
    assert_eq!(find_break(&before, &parts(&continued(request()), Some(&before))), None);
    let mut same = continued(request());
    // The same texts in other allocations, and details that no vendor gets.
    same.system = same.system.to_string().into();
    same.tools = same.tools.iter().map(|tool| Arc::new((**tool).clone())).collect();
    same.messages = same.messages.iter().map(|message| Arc::new(Message::clone(message))).collect();
    same.options.max_output_tokens = Some(9);
    assert_eq!(find_break(&before, &parts(&same, Some(&before))), None);
}

#[test]
fn everything_behind_a_break_is_lost_but_the_changed_segment() {
    let before = parts(&request(), None);
    let mut after = continued(request());
    replace(&mut after, "Run the tests.", "Run all tests.");
    let after = parts(&after, Some(&before));
    let found = find_break(&before, &after).unwrap();
    let at = after.segments().iter().position(|segment| segment.owner == found.owner).unwrap();
    let known: u64 = after.segments()[at + 1..after.segments().len() - 2].iter().map(|segment| segment.tokens).sum();
    assert_eq!(found.lost, known);
    assert!(found.lost > 150, "{found:?}");
}

fn usage(cache_read: u64, cache_write: u64) -> Usage {
    Usage { input: 0, output: 10, cache_read, cache_write }
}

/// Sends two requests and returns the breaks that the ledger names.
fn noted(after: &Request, second: Usage, pause: Duration) -> Vec<(String, u64, Option<f64>)> {
    let ledger = RequestLedger::new(Arc::new(ByteCounter::DEFAULT));
    let prices = Prices { input: 10.0, output: 0.0, cache_read: 1.0, cache_write: 11.0 };
    let start = SystemTime::UNIX_EPOCH;
    for (request, usage, now) in [(&request(), usage(0, 9_000), start), (after, second, start + pause)] {
        let ticket = ledger.begin("vendor", request, Some(Arc::new(prices)));
        ledger.finish(ticket, "large", &usage, now);
    }
    ledger.breaks("s").into_iter().map(|noted| (noted.found.to_string(), noted.found.lost, noted.cost)).collect()
}

#[test]
fn loss_is_bounded_by_the_tokens_that_the_vendor_did_not_read() {
    let mut after = continued(request());
    replace(&mut after, "Run the tests.", "Run all tests.");
    let minute = Duration::from_secs(60);
    let found = noted(&after, usage(8_900, 200), minute);
    assert_eq!((found[0].1, found.len()), (100, 1), "{found:?}");
    assert!((found[0].2.unwrap() - 100.0 * 10.0 / 1e6).abs() < 1e-9, "{found:?}");
    assert!(found[0].0.contains("AGENTS.md"), "{found:?}");
}

#[test]
fn cache_that_vanished_without_a_change_expired_or_was_evicted() {
    let after = continued(request());
    assert!(noted(&after, usage(9_000, 100), Duration::from_secs(9_999)).is_empty());
    let found = noted(&after, usage(0, 9_100), Duration::from_secs(301));
    assert!(found[0].0.contains("expired") && found[0].1 == 9_000, "{found:?}");
    let found = noted(&after, usage(0, 9_100), Duration::from_secs(2));
    assert!(found[0].0.contains("was empty"), "{found:?}");
}

#[test]
fn question_for_a_summary_is_no_part_of_the_conversation() {
    let ledger = RequestLedger::new(Arc::new(ByteCounter::DEFAULT));
    let aside = Request { tool_choice: ToolChoice::None, messages: vec![user("Summarize.")], ..request() };
    let now = SystemTime::UNIX_EPOCH;
    let mark = ledger.mark("s");
    for request in [request(), aside, continued(request())] {
        let ticket = ledger.begin("vendor", &request, None);
        ledger.finish(ticket, "large", &usage(0, 9_000), now);
    }
    // Only the last request could be compared, and the vendor's cache was empty then.
    assert_eq!(ledger.breaks("s").len(), 1);
    assert_eq!(ledger.end_turn("s", &mark).all, 3);
}

#[test]
fn other_tools_are_previewed_before_they_are_sent() {
    let ledger = RequestLedger::new(Arc::new(ByteCounter::DEFAULT));
    let sent = request();
    let ticket = ledger.begin("vendor", &sent, None);
    ledger.finish(ticket, "large", &usage(0, 9_000), SystemTime::UNIX_EPOCH);
    assert_eq!(ledger.preview_tools("s", &sent.tools), None);
    let mut changed = request();
    change_tool(&mut changed, 2, |tool| tool.input_schema = json!({ "type": "object" }));
    let found = ledger.preview_tools("s", &changed.tools).unwrap();
    assert!(found.to_string().contains("`bash`") && found.lost > 0, "{found}");
    assert_eq!(ledger.preview_tools("other", &changed.tools), None);
}
