//! Hostile text in every event, in lines: only text and our own sequences come out.

use crate::render::{Detail, Renderer};
use pinion_agent::dialog::Severity;
use pinion_agent::drawing::{DrawingBlock, DrawnPart, Span, SpanStyle};
use pinion_agent::event::{CompactionReason, ContentDelta, Role};
use pinion_agent::hook::{HookAnswer, HookCall, HookPoint};
use pinion_agent::identity::TurnTrigger;
use pinion_agent::message::StopReason;
use pinion_agent::step::StepStatus;
use pinion_agent::tool::{Display, Ledger};
use pinion_agent::usage::Spend;
use pinion_agent::{Authority, Content, Event, EventKind, Message, RunEnd, RunErrorKind, Usage};
use pinion_console::output::terminal::Style;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

/// Returns an event of each kind, with this text wherever it has any.
fn events(text: &str) -> Vec<EventKind> {
    let (own, content) = (|| text.to_owned(), || vec![Content::text(text)]);
    let (id, usage) = (text.len().to_string(), Usage::default);
    let arguments = json!({ "path": text, text: text });
    let message = |value: serde_json::Value| EventKind::MessageEnd { message: serde_json::from_value(value).unwrap() };
    let of_user = |message| EventKind::MessageEnd { message: std::sync::Arc::new(message) };
    let timestamp = "2026-01-02T03:04:05Z";
    let delta = |delta| EventKind::MessageUpdate { index: 0, delta };
    let end = |end| EventKind::AgentEnd { end, messages: Vec::new(), usage: usage(), cost: None, turns: 1 };
    let ended = |display, is_error| EventKind::ToolExecutionEnd {
        call_id: id.clone(),
        tool: own(),
        is_error,
        content: content(),
        details: None,
        display,
        ledger: Some(Ledger { plugin: own(), granted: vec![own()], ..Ledger::default() }),
        child_run_id: None,
    };
    let hook = |answer| {
        let hook = HookCall { point: HookPoint::BeforePrompt, plugin: own(), answer, text: own(), ledger: None };
        EventKind::Hook { call_id: Some(id.clone()), hook }
    };
    let blocks = vec![
        DrawingBlock::Lines { lines: vec![vec![Span::new(own(), SpanStyle::Plain)]] },
        DrawingBlock::Table { header: vec![own()], rows: vec![vec![own(); 2]] },
        DrawingBlock::Diff { text: own() },
        DrawingBlock::Markdown { text: own() },
        DrawingBlock::Bar { label: own(), done: 1, total: None },
    ];
    let mut events = vec![
        EventKind::PlanMade { title: own(), steps: 2 },
        EventKind::AgentStart {
            agent_id: text.into(),
            session_id: text.into(),
            parent_run_id: None,
            call_id: None,
            continuation: None,
            trigger: TurnTrigger::User,
            provider: own(),
            model: own(),
            directory: Default::default(),
        },
        EventKind::TurnStart { turn: 1, trigger: TurnTrigger::User },
        EventKind::TurnEnd {
            turn: 1,
            stop_reason: StopReason::Stop,
            reply: None,
            results: Vec::new(),
            usage: usage(),
            cost: None,
        },
        EventKind::MessageStart { role: Role::Assistant },
        delta(ContentDelta::Text { delta: own() }),
        delta(ContentDelta::Thinking { delta: own() }),
        delta(ContentDelta::ToolCallStart { call_id: id.clone(), tool: own() }),
        delta(ContentDelta::ToolCallArguments { delta: own() }),
        message(json!({
            "role": "assistant", "stop_reason": "stop", "provider": text, "model": text, "timestamp": timestamp,
            "usage": { "input": 0, "output": 0 },
            "content": [
                { "type": "thinking", "text": text }, { "type": "text", "text": text },
                { "type": "tool_call", "id": id, "name": text, "arguments": arguments }
            ]
        })),
        message(json!({
            "role": "tool_result", "call_id": id, "tool_name": text, "is_error": true, "timestamp": timestamp,
            "content": [{ "type": "text", "text": text }]
        })),
        of_user(Message::user(text)),
        of_user(Message::labelled(text, text)),
        EventKind::ToolExecutionStart { call_id: id.clone(), tool: own(), arguments },
        EventKind::ToolExecutionUpdate { call_id: id.clone(), partial: content() },
        EventKind::Progress { call_id: id.clone(), text: own() },
        EventKind::PluginNotice { plugin: own(), severity: Severity::Warning, text: own() },
        EventKind::Drawing { call_id: id.clone(), plugin: own(), part: DrawnPart::Call, blocks },
        EventKind::ApprovalRequested { call_id: id.clone(), tool: own(), authority: Authority::ALL },
        EventKind::ApprovalResolved { call_id: id.clone(), allowed: false, unanswered: Some(own()) },
        EventKind::Retry { attempt: 1, max_attempts: 2, delay_ms: 100, cause: own() },
        EventKind::Compaction {
            reason: CompactionReason::Asked,
            dropped: 2,
            summary: own(),
            failure: None,
            before: 2,
            after: 1,
            spend: Spend::default(),
        },
        EventKind::ParallelStart { group_id: text.into(), run_ids: vec!["a".into(), "b".into()] },
        EventKind::ParallelEnd { group_id: text.into(), chosen: Some("a".into()), note: Some(own()), usage: usage() },
        EventKind::InputRejected { reason: own() },
        end(RunEnd::Rejected { reason: own() }),
        end(RunEnd::failed(RunErrorKind::Other, text)),
        ended(Display::Code(own()), false),
        ended(Display::Plain, true),
    ];
    events.extend([HookAnswer::Warned, HookAnswer::Failed, HookAnswer::Added].map(hook));
    events.extend(StepStatus::ALL.map(|status| EventKind::PlanStep { step: 1, steps: 2, title: own(), status }));
    events
}

/// Text with everything that a terminal could interpret.
fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        3 => "[a-z]{1,8} ",
        2 => "[\\x00-\\x1f\\x7f-\\x9f]",
        2 => prop::sample::select(vec![
            "\x1b[2J", "\x1b]52;c;aGk=\x07", "\x1b]0;x\x1b\\", "\x1bP0;1|17/ab\x1b\\", "\u{9b}31m", "\x1b[31m", "\x1b[8m",
            "\u{202e}abc", "\u{200b}", "\u{e0041}", "\r! ", "\n● ", "\n\n", "```\n", "| a | b |\n|---|---|\n", "- ", "# ",
            "[a](https://b.example/x) ", "https://c.example/\x1b]8;;x\x07 ", "--- a\n@@ -1 +1 @@\n+\x1b[2J\n",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..10).prop_map(|parts| parts.concat())
}

/// Returns a text without our colours.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix('m') {
            Some(text) => rest.push_str(text),
            None => rest.extend(["\x1b[", part]),
        }
    }
    rest
}

fn is_hidden(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(u32::from(c), 0x200b | 0x200e | 0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xe0000..=0xe0fff)
}

#[test]
fn hostile_text_is_in_every_event() {
    // The error for an unknown type names all others.
    let error = serde_json::from_value::<EventKind>(json!({ "type": "none" })).unwrap_err().to_string();
    let known: BTreeSet<String> = error.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    let type_of = |event: &EventKind| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
    assert_eq!(events("text").iter().map(type_of).collect::<BTreeSet<_>>(), known);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lines_are_text_with_our_colours(
        steps in prop::collection::vec((prop::sample::select(vec!["run", "run", "a"]), any::<prop::sample::Index>(), hostile()), 1..40),
    ) {
        for detail in [Detail::Notices, Detail::Progress, Detail::Conversation, Detail::Ledgers] {
            for style in [Style::Plain, Style::Colour] {
                let mut out = Vec::new();
                let mut renderer = Renderer::new(&mut out, style, detail).with_turn_headings();
                for (run, at, text) in &steps {
                    renderer.event(&Event { run_id: (*run).into(), kind: at.get(&events(text)).clone() }).unwrap();
                }
                let written = String::from_utf8(out).unwrap();
                let text = if style == Style::Colour { without_colours(&written) } else { written };
                prop_assert!(!text.contains(is_hidden), "{text:?}");
            }
        }
    }
}
