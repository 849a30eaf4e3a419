//! Several models on one prompt.

use crate::ui::{Ui, agent_start, assistant, done, end_of};
use pinion_protocol::{Content, EventKind, Message, RunEnd, RunErrorKind, Usage};

fn start(ui: &mut Ui, run: &str, name: &str) {
    let mut start = agent_start("pinion");
    if let EventKind::AgentStart { model, .. } = &mut start {
        *model = name.into();
    }
    ui.event_of(run, start);
}

fn end(ui: &mut Ui, run: &str, end: RunEnd) {
    let usage = Usage::default();
    ui.event_of(run, EventKind::AgentEnd { end, messages: Vec::new(), usage, cost: None, turns: 1 });
}

/// Runs two branches, one of which fails, and draws between all events.
fn compare(ui: &mut Ui, mut draw: impl FnMut(&mut Ui)) {
    ui.send("compare");
    let run_ids = vec!["a".into(), "b".into()];
    ui.event_of("group", EventKind::ParallelStart { group_id: "group".into(), run_ids });
    draw(ui);
    start(ui, "a", "large");
    start(ui, "b", "small");
    draw(ui);
    for run in ["a", "b"] {
        ui.event_of(run, end_of(Message::user("compare")));
        draw(ui);
    }
    ui.event_of("a", end_of(assistant(vec![Content::text("The answer.")])));
    end(ui, "b", RunEnd::failed(RunErrorKind::Other, "overloaded"));
    end(ui, "a", done());
    draw(ui);
    let (chosen, usage) = (Some("a".into()), Usage::default());
    ui.event_of("group", EventKind::ParallelEnd { group_id: "group".into(), chosen, note: None, usage });
    draw(ui);
}

const SHOWN: &str = "› compare\n\n· running 2 branches\n\n  ◆ anthropic/large · kept · done, 1 turn, 0 tokens\n  \
    ✗ anthropic/small · overloaded, 1 turn, 0 tokens\n\n  The answer.\n";

#[test]
fn prompt_of_branches_stands_above_them() {
    let mut ui = Ui::new(80, 24);
    compare(&mut ui, |_| {});
    let screen = ui.screen();
    assert!(screen.starts_with(SHOWN), "{screen}");
}

#[test]
fn prompt_of_branches_is_given_to_the_scrollback_once() {
    let mut ui = Ui::inline(80, 24);
    let mut settled = String::new();
    compare(&mut ui, |ui| {
        let frame = ui.app.draw_inline(80, 24, ui.now);
        let text = pinion_tui::text_of(&frame.settled);
        settled.extend(text.split('\n').take(frame.settled.area().height.into()).map(|row| format!("{row}\n")));
    });
    assert_eq!(settled, SHOWN);
}

#[test]
fn later_messages_of_a_branch_are_its_own() {
    let mut ui = Ui::new(80, 24);
    compare(&mut ui, |_| {});
    ui.start("again");
    let run_ids = vec!["c".into()];
    ui.end(done());
    ui.event_of("group", EventKind::ParallelStart { group_id: "group".into(), run_ids });
    start(&mut ui, "c", "large");
    ui.event_of("c", end_of(assistant(vec![Content::text("Hm.")])));
    ui.event_of("c", end_of(Message::user("steering")));
    assert!(!ui.screen().contains("steering"), "{}", ui.screen());
}
