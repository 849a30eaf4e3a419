//! The wheel and clicks, where the terminal reports them.

use crate::ui::{Ui, assistant, end_of};
use crossterm::event::{Event as TerminalEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use pinion_protocol::Content;
use pinion_tui::{Choice, Input, Pick, Request};
use serde_json::json;

fn mouse(ui: &mut Ui, kind: MouseEventKind, row: u16) -> Vec<Request> {
    ui.input(Input::Terminal(TerminalEvent::Mouse(MouseEvent { kind, column: 3, row, modifiers: KeyModifiers::NONE })))
}

/// Clicks into the row with this text.
fn click(ui: &mut Ui, text: &str) -> Vec<Request> {
    let screen = ui.screen();
    let row = screen.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text:?} in {screen}"));
    mouse(ui, MouseEventKind::Down(MouseButton::Left), u16::try_from(row).unwrap())
}

fn with_call() -> Ui {
    let mut ui = Ui::new(60, 20);
    ui.start("go");
    ui.call("1", "bash", json!({ "command": "seq 3" }));
    ui.result("1", "bash", false, "the result");
    ui
}

#[test]
fn wheel_scrolls_three_rows() {
    let mut ui = Ui::new(60, 20);
    let text: String = (0..100).map(|n| format!("line {n}\n\n")).collect();
    ui.event(end_of(assistant(vec![Content::text(text)])));
    let first = |ui: &mut Ui| {
        let screen = ui.screen();
        let number = screen.lines().find_map(|line| line.trim().strip_prefix("line ")?.parse::<i32>().ok());
        number.unwrap_or_else(|| panic!("{screen}"))
    };
    let end = first(&mut ui);
    (0..4).for_each(|_| drop(mouse(&mut ui, MouseEventKind::ScrollUp, 2)));
    assert_eq!(first(&mut ui), end - 6);
    assert!(ui.screen().contains("scrolled up"));
    (0..5).for_each(|_| drop(mouse(&mut ui, MouseEventKind::ScrollDown, 2)));
    assert_eq!(first(&mut ui), end);
    assert!(!ui.screen().contains("scrolled up"));
}

#[test]
fn click_unfolds_and_folds_a_result() {
    let mut ui = with_call();
    assert!(!ui.screen().contains("the result"));
    assert!(click(&mut ui, "seq 3").is_empty());
    assert!(ui.screen().contains("the result"));
    click(&mut ui, "the result");
    assert!(!ui.screen().contains("the result"));
    // What cannot be folded, the editor and the status line stay as they are.
    let before = ui.screen();
    for text in ["go", "anthropic/claude", "›"] {
        click(&mut ui, text);
        assert_eq!(ui.screen(), before, "{text}");
    }
}

#[test]
fn mouse_answers_no_question() {
    let mut ui = with_call();
    ui.ask("bash", json!({ "command": "rm -r /" }));
    ui.wait(2_000);
    for row in 0..20 {
        for kind in [MouseEventKind::Down(MouseButton::Left), MouseEventKind::Up(MouseButton::Left)] {
            assert!(mouse(&mut ui, kind, row).is_empty());
        }
        assert!(mouse(&mut ui, MouseEventKind::ScrollDown, row).is_empty());
    }
    assert!(ui.screen().contains("rm -r /"), "{}", ui.screen());
}

#[test]
fn wheel_moves_in_lists() {
    let mut ui = Ui::new(60, 20);
    let choice = |name: &str| Choice { value: name.into(), label: name.into(), detail: String::new() };
    ui.input(Input::Choices(Pick::Model, vec![choice("one"), choice("two"), choice("three")]));
    mouse(&mut ui, MouseEventKind::ScrollDown, 2);
    assert_eq!(ui.key(crossterm::event::KeyCode::Enter), [Request::Submit("/model two".into())]);
}
