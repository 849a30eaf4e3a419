//! Tests of [`crate::render`].

use crate::render::{Detail, Renderer};
use pinion_agent::event::ContentDelta;
use pinion_agent::step::StepStatus;
use pinion_agent::{Content, Event, EventKind, RunEnd, RunErrorKind, Usage};
use pinion_console::output::terminal::Style;
use serde_json::{Value, json};

fn rendered(detail: Detail, events: Vec<EventKind>) -> String {
    let mut out = Vec::new();
    let mut renderer = Renderer::new(&mut out, Style::Plain, detail);
    for kind in events {
        renderer.event(&Event { run_id: "l".into(), kind }).unwrap();
    }
    String::from_utf8(out).unwrap()
}

fn said_now(delta: &str) -> EventKind {
    EventKind::MessageUpdate { index: 0, delta: ContentDelta::Text { delta: delta.into() } }
}

fn message_end() -> EventKind {
    let message = json!({ "role": "user", "content": [], "timestamp": "2026-01-02T03:04:05Z" });
    EventKind::MessageEnd { message: serde_json::from_value(message).unwrap() }
}

fn called(arguments: Value) -> EventKind {
    EventKind::ToolExecutionStart { call_id: "c".into(), tool: "read".into(), arguments }
}

#[test]
fn text_streams_and_each_call_has_its_own_line() {
    let shown =
        rendered(Detail::Conversation, vec![said_now("I "), said_now("look."), called(json!({ "path": "a.rs" }))]);
    assert_eq!(shown, "  I look.\n● read a.rs\n");
}

#[test]
fn answer_is_laid_out_block_by_block() {
    let pieces = ["**Two** files:\n\n| na", "me |\n|---|\n| `a` |\n\nEnd", "."].map(said_now).into_iter();
    let shown =
        rendered(Detail::Conversation, pieces.chain([message_end(), said_now("Next."), message_end()]).collect());
    assert_eq!(shown, "  Two files:\n\n  name\n  ────\n  a\n\n  End.\n  Next.\n");
}

#[test]
fn control_sequences_of_a_model_do_not_reach_the_terminal() {
    let shown =
        rendered(Detail::Conversation, vec![said_now("\x1b[2J\x07hi"), called(json!({ "path": "\x1b]0;x\x07" }))]);
    assert!(!shown.contains('\x1b') && !shown.contains('\x07'), "{shown:?}");
}

fn step(status: StepStatus) -> EventKind {
    EventKind::PlanStep { step: 2, steps: 5, title: "Fix\x07 it".into(), status }
}

#[test]
fn plan_step_is_one_line_unless_other_rows_come_in_between() {
    use StepStatus::{Done, Failed, Running};
    let shown = |events| rendered(Detail::Conversation, events);
    assert_eq!(shown(vec![step(Running), step(Done)]), "step 2 of 5: Fix␇ it … done\n");
    assert_eq!(shown(vec![step(Running), step(Running)]), "step 2 of 5: Fix␇ it … interrupted\n");
    assert_eq!(
        shown(vec![step(Running), said_now("Hm."), step(Failed), step(Running), step(Done)]),
        "step 2 of 5: Fix␇ it … \n  Hm.\nstep 2 of 5: Fix␇ it … failed\nstep 2 of 5: Fix␇ it … done\n"
    );
    assert_eq!(
        shown(vec![step(Running), called(json!({})), step(Running)]),
        "step 2 of 5: Fix␇ it … \n● read \nstep 2 of 5: Fix␇ it … interrupted\n"
    );
}

#[test]
fn refused_background_run_shows_the_reason() {
    let mut out = Vec::new();
    let mut renderer = Renderer::new(&mut out, Style::Plain, Detail::Notices);
    let mut say = |run_id: &str, kind| renderer.event(&Event { run_id: run_id.into(), kind }).unwrap();
    say("main", called(json!({})));
    say("sub", EventKind::InputRejected { reason: "not\x1b today".into() });
    assert_eq!(String::from_utf8(out).unwrap(), "  1│ ! refused: not␛ today\n");
}

#[test]
fn failed_background_run_shows_the_reason() {
    let mut out = Vec::new();
    let mut renderer = Renderer::new(&mut out, Style::Plain, Detail::Progress);
    let mut say = |run_id: &str, kind| renderer.event(&Event { run_id: run_id.into(), kind }).unwrap();
    say("main", called(json!({})));
    for end in [RunEnd::failed(RunErrorKind::Other, "no\x1b key"), RunEnd::Aborted] {
        say("sub", EventKind::AgentEnd { end, messages: Vec::new(), usage: Usage::default(), cost: None, turns: 1 });
    }
    let shown = String::from_utf8(out).unwrap();
    assert_eq!(shown, "● read \n  1│ ✗ no␛ key: 1 turn, 0 tokens\n  1│ ✗ aborted: 1 turn, 0 tokens\n");
}

#[test]
fn background_calls_are_numbered_and_only_the_chosen_text_is_shown() {
    let mut out = Vec::new();
    let mut renderer = Renderer::new(&mut out, Style::Plain, Detail::Conversation);
    let mut say = |run_id: &str, kind| renderer.event(&Event { run_id: run_id.into(), kind }).unwrap();
    let said = |text: &str| {
        let message = serde_json::json!({
            "role": "assistant", "content": [{ "type": "text", "text": text }], "stop_reason": "stop",
            "provider": "p", "model": "m", "usage": { "input": 0, "output": 0 }, "timestamp": "2026-01-02T03:04:05Z"
        });
        EventKind::MessageEnd { message: serde_json::from_value(message).unwrap() }
    };
    say("g", EventKind::ParallelStart { group_id: "g".into(), run_ids: vec!["a".into(), "b".into()] });
    say("a", called(json!({ "path": "one" })));
    say("b", called(json!({ "path": "two" })));
    say("b", said_now("not shown as it comes"));
    say("a", said("answer of a"));
    say("b", said("answer of b"));
    let (chosen, note) = (Some("b".into()), Some("the judge was silent".to_owned()));
    say("g", EventKind::ParallelEnd { group_id: "g".into(), chosen, note, usage: Default::default() });
    say("next", said_now("main again\n"));
    say("next", message_end());
    let shown = String::from_utf8(out).unwrap();
    assert_eq!(
        shown,
        "running 2 branches\n  1│ ● read one\n  2│ ● read two\n! the judge was silent\n  answer of b\n  main again\n"
    );
}

#[test]
fn notices_alone_hide_text_and_calls() {
    let retry = EventKind::Retry { attempt: 1, max_attempts: 3, delay_ms: 1500, cause: "busy".into() };
    let shown = rendered(Detail::Notices, vec![said_now("hi"), called(json!({})), retry]);
    assert_eq!(shown, "! busy (attempt 1 of 3 in 1.5 s)\n");
}

fn ended(call_id: &str, text: &str, details: Option<Value>) -> EventKind {
    EventKind::ToolExecutionEnd {
        call_id: call_id.into(),
        tool: "read".into(),
        is_error: false,
        content: vec![Content::text(text)],
        details,
        display: Default::default(),
        ledger: None,
        child_run_id: None,
    }
}

fn began(call_id: &str, path: &str) -> EventKind {
    let arguments = json!({ "path": path });
    EventKind::ToolExecutionStart { call_id: call_id.into(), tool: "read".into(), arguments }
}

#[test]
fn results_of_parallel_calls_are_labelled() {
    let events = vec![began("1", "a"), began("2", "b"), ended("1", "A", None), ended("2", "B", None)];
    let shown = rendered(Detail::Conversation, events);
    assert_eq!(shown, "● read a\n● read b\n  ✓ read a\n    A\n  ✓ read b\n    B\n");
    let alone = rendered(Detail::Conversation, vec![began("1", "a"), ended("1", "A", None)]);
    assert_eq!(alone, "● read a\n  ✓ A\n");
}

#[test]
fn failed_program_is_not_shown_as_a_success() {
    let failed = ended("1", "[exit code 3]", Some(json!({ "success": false })));
    let shown = rendered(Detail::Conversation, vec![began("1", "a"), failed]);
    assert_eq!(shown, "● read a\n  ✗ [exit code 3]\n");
}

#[test]
fn progress_shows_calls_and_failures_only() {
    let failed = ended("2", "why\nmore", Some(json!({ "success": false })));
    let events = vec![said_now("hi"), began("1", "a"), ended("1", "A", None), began("2", "b"), failed];
    assert_eq!(rendered(Detail::Progress, events), "● read a\n● read b\n  ✗ why\n");
}

#[test]
fn thinking_is_separated_from_the_answer() {
    let thought =
        |delta: &str| EventKind::MessageUpdate { index: 0, delta: ContentDelta::Thinking { delta: delta.into() } };
    let shown = rendered(Detail::Conversation, vec![thought("Hm"), thought("m."), said_now("42\n"), message_end()]);
    assert_eq!(shown, "thinking:\n  Hmm.\n\n  42\n");
}

#[test]
fn long_results_and_arguments_are_clipped() {
    let ended = ended("c", &(0..100).map(|n| format!("{n}\n")).collect::<String>(), None);
    let shown = rendered(Detail::Conversation, vec![called(json!({ "text": "y".repeat(10_000) })), ended]);
    assert!(shown.len() < 600 && shown.contains("… 94 more lines"), "{shown}");
}
