//! The search for words in the conversation.

use crate::ui::{Ui, agent_start, done};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::{Content, DrawingBlock, DrawnPart, EventKind, Span, SpanStyle};
use ratatui_core::buffer::Cell;
use ratatui_core::style::Modifier;
use serde_json::json;

/// Returns a UI with something far above the window.
fn below(state: impl Fn(&mut Ui)) -> Ui {
    let mut ui = Ui::new(60, 12);
    ui.start("go");
    state(&mut ui);
    ui.reply(vec![Content::text("hay\n\n".repeat(50))]);
    ui.end(done());
    ui
}

/// Searches upwards from the end and returns the screen.
fn search(ui: &mut Ui, text: &str) -> String {
    ui.key(KeyCode::Esc);
    ui.press(KeyCode::End, KeyModifiers::CONTROL);
    ui.ctrl('s');
    ui.types(text);
    ui.key(KeyCode::Enter);
    ui.screen()
}

/// Returns the text on the screen that is marked as found.
fn marked(ui: &mut Ui) -> String {
    let (buffer, _) = ui.buffer();
    let is_marked = |cell: &&Cell| cell.modifier.contains(Modifier::REVERSED);
    buffer.content().iter().filter(is_marked).map(Cell::symbol).collect()
}

#[test]
fn phrases_are_found_across_marks_and_soft_breaks() {
    let text = "The **fix** is simple: `total`\nadds.\n\n| a *b* c |\n|---|\n| d |\n\nSee [the manual](https://a.example) first.";
    let mut ui = below(|ui| ui.reply(vec![Content::text(text)]));
    for phrase in ["The fix is simple", "a b c", "the manual (https://a.example) first"] {
        let screen = search(&mut ui, phrase);
        assert_eq!(marked(&mut ui), phrase, "{screen}");
    }
    assert!(search(&mut ui, "simple: total adds").contains("The fix is simple: total\n"), "{}", ui.screen());
    // The source is found as well.
    assert!(search(&mut ui, "**fix**").contains("The fix is simple"), "{}", ui.screen());
    assert!(search(&mut ui, "fix simple").contains("no match above"));
}

#[test]
fn phrase_that_is_parted_by_the_end_of_a_row_is_shown() {
    let text = format!("{}one two three {}", "word ".repeat(300), "word ".repeat(300));
    let mut ui = below(|ui| ui.reply(vec![Content::text(&text)]));
    for columns in 50..70 {
        ui.size.0 = columns;
        ui.screen();
        let screen = search(&mut ui, "one two three");
        let shown = screen.split('─').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("one two three"), "{columns}: {screen}");
    }
}

#[test]
fn arguments_of_calls_are_found_as_they_are_shown() {
    let arguments = json!({
        "path": "a.rs",
        "content": "first line\nsecond \"quoted\" line",
        "options": { "deep": ["say \"this\""], "count": 42 },
    });
    let mut ui = below(|ui| {
        ui.call("1", "write", arguments.clone());
        ui.result("1", "write", false, "written");
        // The diff shows the change.
        let edits = json!([{ "old_text": "one", "new_text": "two" }]);
        ui.call("2", "edit", json!({ "path": "b.rs", "edits": edits }));
        ui.result("2", "edit", false, "--- b.rs\n+++ b.rs\n@@ -1 +1 @@\n-one\n+two\n");
    });
    for text in ["second \"quoted\" line", "\"count\":42", "say \"this\"", "content: first"] {
        assert!(search(&mut ui, text).contains("│ content: first line"), "{text}: {}", ui.screen());
    }
    assert!(search(&mut ui, "old_text").contains("no match above"), "{}", ui.screen());
}

#[test]
fn drawings_of_plugins_are_found_in_the_form_that_shows_them() {
    let drawing = |part, blocks| EventKind::Drawing { call_id: "1".into(), plugin: "painter".into(), part, blocks };
    let mut ui = below(|ui| {
        ui.call("1", "paint", json!({ "colour": "blue" }));
        let spans = [("drawn ", SpanStyle::Plain), ("call", SpanStyle::Strong)];
        let line = spans.map(|(text, style)| Span::new(text, style)).to_vec();
        ui.event(drawing(DrawnPart::Call, vec![DrawingBlock::Lines { lines: vec![line] }]));
        ui.event(drawing(DrawnPart::Result, vec![DrawingBlock::Markdown { text: "drawn **result**".into() }]));
        ui.result("1", "paint", false, "the plain result");
    });
    for text in ["drawn call", "drawn result", "the plain result", "drawn result"] {
        assert!(search(&mut ui, text).contains(text), "{}", ui.screen());
        assert_eq!(marked(&mut ui), text);
    }
}

#[test]
fn calls_of_sub_agents_are_found_with_their_failures() {
    let mut ui = below(|ui| {
        ui.event_of("a", agent_start("builder"));
        let arguments = json!({ "command": "make" });
        ui.event_of("a", EventKind::ToolExecutionStart { call_id: "1".into(), tool: "bash".into(), arguments });
        let failure = EventKind::ToolExecutionEnd {
            call_id: "1".into(),
            tool: "bash".into(),
            is_error: true,
            content: vec![Content::text("no \x1b[31mrule\x1b[m to make it")],
            details: None,
            display: pinion_protocol::Display::Plain,
            ledger: None,
            child_run_id: None,
        };
        ui.event_of("a", failure);
    });
    for text in ["bash make", "no rule to make", "anthropic/claude"] {
        assert!(search(&mut ui, text).contains("├ ✗ bash make"), "{text}: {}", ui.screen());
    }
}
