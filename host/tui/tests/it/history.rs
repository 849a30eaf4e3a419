//! Conversations that continue: their past looks as it did.

use crate::ui::{Ui, agent_start, assistant, done, end_of, ended, tool_result};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::{
    CompactionReason, Content, Display, Event, EventKind, Message, RunEnd, Spend, StepStatus, ToolCall, Usage,
};
use pinion_tui::Input;
use serde_json::json;

fn build_event(run: &str, kind: EventKind) -> Event {
    Event { run_id: run.into(), kind }
}

fn started_for(agent: &str, call: &str) -> EventKind {
    let mut start = agent_start(agent);
    let EventKind::AgentStart { call_id, parent_run_id, .. } = &mut start else { unreachable!() };
    (*call_id, *parent_run_id) = (Some(call.into()), Some("run".into()));
    start
}

fn end(end: RunEnd) -> EventKind {
    EventKind::AgentEnd { end, messages: Vec::new(), usage: Usage::default(), cost: None, turns: 1 }
}

fn calls(ids: &[&str]) -> EventKind {
    let call = |id: &&str| Content::ToolCall(ToolCall::new(*id, "task", json!({ "prompt": format!("part {id}") })));
    end_of(assistant(ids.iter().map(call).collect()))
}

fn compaction(dropped: usize, summary: &str) -> EventKind {
    let (summary, spend) = (summary.to_owned(), Spend::default());
    EventKind::Compaction {
        reason: CompactionReason::Asked,
        dropped,
        summary,
        failure: None,
        before: 9_000,
        after: 1_200,
        spend,
    }
}

#[test]
fn refused_runs_without_a_start_have_their_reason_and_leave_no_run_behind() {
    let mut ui = Ui::new(80, 24);
    ui.event_of("run", agent_start("agent"));
    ui.event_of("child", EventKind::InputRejected { reason: "no helpers".into() });
    ui.event_of("child", end(RunEnd::Rejected { reason: "no helpers".into() }));
    ui.event_of("run", end(done()));
    ui.event_of("run2", EventKind::InputRejected { reason: "not today".into() });
    ui.event_of("run2", end(RunEnd::Rejected { reason: "not today".into() }));
    // The next run is the foreground run.
    ui.event_of("run3", end_of(assistant(vec![Content::text("Here I am.")])));
    let screen = ui.screen();
    assert!(screen.contains("✗ refused · no helpers, 1 turn"), "{screen}");
    assert!(screen.contains("refused: not today") && screen.contains("Here I am."), "{screen}");
}

#[test]
fn past_has_its_calls_with_ledgers_and_its_sub_agents() {
    let mut ui = Ui::new(80, 24);
    let past = vec![
        build_event("run", agent_start("agent")),
        build_event("run", end_of(Message::user("compare"))),
        build_event("run", calls(&["1", "2"])),
        build_event("child", started_for("sub-agent", "1")),
        build_event("child", end_of(Message::user("Read one.rs.\nReport."))),
        build_event("child", end_of(assistant(vec![Content::text("It is short.")]))),
        build_event("child", end(done())),
        build_event("run", ended("1", "short", Display::Plain, vec!["read src/".into()])),
        build_event("run", end_of(tool_result("1", "task", "short"))),
        build_event("run", end_of(tool_result("2", "task", "skipped"))),
        build_event("run", end(done())),
        build_event("run2", agent_start("agent")),
        build_event("run2", end_of(Message::user("and now?"))),
    ];
    ui.input(Input::Session(past));
    let expected = "› compare\n\n✓ task part 1  → short\n  ◆ sub-agent “Read one.rs.” · done, 1 turn, 0 tokens\n✓ task part 2  → skipped\n\n› and now?";
    assert!(ui.screen().starts_with(expected), "{}", ui.screen());
    ui.press(KeyCode::Char('l'), KeyModifiers::ALT);
    assert!(ui.screen().contains("\n    short #0") && ui.screen().contains("read src/"), "{}", ui.screen());
    // The next run is the foreground run, although the last one has no end.
    ui.event_of("run3", agent_start("agent"));
    ui.event_of("run3", end_of(Message::user("go on")));
    assert!(ui.screen().contains("\n› go on"), "{}", ui.screen());
}

#[test]
fn sub_agents_stand_below_their_calls_with_their_tasks() {
    let mut ui = Ui::new(80, 24);
    ui.start("compare");
    ui.event(calls(&["1", "2"]));
    for (run, call, task) in [("b", "2", "Read two.rs"), ("a", "1", "Read one.rs"), ("c", "1", "Read it again")] {
        ui.event_of(run, started_for("reader", call));
        ui.event_of(run, end_of(Message::user(task)));
    }
    let screen = ui.screen();
    let expected = "○ task part 1\n  ◇ reader “Read one.rs” · starting\n  ◇ reader “Read it again” · starting\n○ task part 2\n  ◇ reader “Read two.rs” · starting\n";
    assert!(screen.contains(expected), "{screen}");
}

#[test]
fn prompts_of_a_plan_are_lines_that_unfold() {
    let mut ui = Ui::new(60, 24);
    let title = "Read the test".to_owned();
    ui.event(EventKind::PlanStep { step: 1, steps: 2, title, status: StepStatus::Running });
    ui.event(agent_start("agent"));
    ui.event(end_of(Message::labelled("instructions for step 1 of 2", "The user has approved this plan.")));
    let screen = ui.screen();
    assert!(screen.contains("\n· instructions for step 1 of 2\n") && !screen.contains("approved"), "{screen}");
    ui.press(KeyCode::Up, KeyModifiers::SHIFT);
    ui.key(KeyCode::Enter);
    assert!(ui.screen().contains("\n  │ The user has approved this plan.\n"), "{}", ui.screen());
}

#[test]
fn compaction_is_a_line_that_unfolds_to_its_summary() {
    let mut ui = Ui::new(80, 24);
    ui.start("go");
    ui.reply(vec![Content::text("the answer")]);
    ui.end(done());
    ui.event_of("compaction", compaction(16, "# So far\n\nAll is well."));
    ui.start("next");
    let screen = ui.screen();
    assert!(screen.contains("  the answer\n\n· replaced 16 messages with a summary: about 9.0 k tokens before, 1.2 k"));
    assert!(!screen.contains("All is well") && screen.contains("\n› next\n"), "{screen}");
    ui.ctrl('o');
    assert!(ui.screen().contains("\n  │ All is well.\n"), "{}", ui.screen());
}
