//! The wheel, clicks and drags, where the terminal reports them.

use crate::ui::{Ui, assistant, end_of};
use crossterm::event::{Event as TerminalEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use pinion_protocol::Content;
use pinion_tui::{Input, Pick, PickChoice, UiRequest};
use serde_json::json;

pub(crate) fn mouse(ui: &mut Ui, kind: MouseEventKind, row: u16) -> Vec<UiRequest> {
    mouse_at(ui, kind, (3, row))
}

fn mouse_at(ui: &mut Ui, kind: MouseEventKind, (column, row): (u16, u16)) -> Vec<UiRequest> {
    ui.input(Input::Terminal(TerminalEvent::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })))
}

/// Returns the place of a text on the screen, with columns of one character each.
fn place(ui: &mut Ui, text: &str) -> (u16, u16) {
    let screen = ui.screen();
    let found =
        screen.lines().enumerate().find_map(|(row, line)| Some((line[..line.find(text)?].chars().count(), row)));
    let (column, row) = found.unwrap_or_else(|| panic!("no {text:?} in {screen}"));
    (u16::try_from(column).unwrap(), u16::try_from(row).unwrap())
}

/// Drags from one cell to another and returns the copied text.
fn drag(ui: &mut Ui, from: (u16, u16), to: (u16, u16)) -> Option<String> {
    mouse_at(ui, MouseEventKind::Down(MouseButton::Left), from);
    mouse_at(ui, MouseEventKind::Drag(MouseButton::Left), to);
    copied(mouse_at(ui, MouseEventKind::Up(MouseButton::Left), to))
}

fn copied(requests: Vec<UiRequest>) -> Option<String> {
    requests.into_iter().find_map(|request| if let UiRequest::Copy(text) = request { Some(text) } else { None })
}

/// Clicks into the row with this text.
fn click(ui: &mut Ui, text: &str) -> Vec<UiRequest> {
    let screen = ui.screen();
    let row = screen.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text:?} in {screen}"));
    let row = u16::try_from(row).unwrap();
    mouse(ui, MouseEventKind::Down(MouseButton::Left), row);
    mouse(ui, MouseEventKind::Up(MouseButton::Left), row)
}

fn with_call() -> Ui {
    let mut ui = Ui::new(60, 20);
    ui.start("go");
    ui.call("1", "bash", json!({ "command": "seq 3" }));
    ui.result("1", "bash", false, "all of\nthe result");
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
    // Items that cannot be folded, the editor and the status line stay as they are.
    let before = ui.screen();
    for text in ["go", "anthropic/claude", "›"] {
        click(&mut ui, text);
        assert_eq!(ui.screen(), before, "{text}");
    }
}

#[test]
fn key_folds_the_last_block_that_folds() {
    let mut ui = with_call();
    for is_unfolded in [true, false] {
        ui.key(crossterm::event::KeyCode::F(2));
        assert_eq!(ui.screen().contains("the result"), is_unfolded, "{}", ui.screen());
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
    let choice = |name: &str| PickChoice { value: name.into(), label: name.into(), detail: String::new() };
    ui.input(Input::Choices(Pick::Model, vec![choice("one"), choice("two"), choice("three")]));
    mouse(&mut ui, MouseEventKind::ScrollDown, 2);
    assert_eq!(ui.key(crossterm::event::KeyCode::Enter), [UiRequest::Submit("/model two".into())]);
}

#[test]
fn copied_text_has_no_indent_and_no_wrap() {
    let mut ui = Ui::new(30, 40);
    ui.start("go");
    let answer = "A paragraph that is longer than one row of this screen.\n\n- an item that also needs more than a row\n  - nested\n\n\
                  > a quotation that needs more than one row\n\n```rust\nfn main() {\n    let total = first + second;\n}\n```\n\nEnd.";
    ui.event(end_of(assistant(vec![Content::text(answer)])));
    let (from, to) = (place(&mut ui, "A paragraph"), place(&mut ui, "End."));
    let expected = "A paragraph that is longer than one row of this screen.\n\n• an item that also needs more than a row\n  • nested\n\n\
                  a quotation that needs more than one row\n\nrust\nfn main() {\n    let total = first + second;\n}\n\nEnd.";
    assert_eq!(drag(&mut ui, (0, from.1), (29, to.1)).as_deref(), Some(expected));
    assert!(ui.screen().contains("copied"), "{}", ui.screen());
    // Upwards, within words, and behind the end of a row.
    let (paragraph, longer) = (place(&mut ui, "paragraph"), place(&mut ui, "longer"));
    assert_eq!(drag(&mut ui, longer, paragraph).as_deref(), Some("paragraph that is l"));
}

#[test]
fn copied_table_has_tabs_in_place_of_borders() {
    let mut ui = Ui::new(40, 30);
    let answer = "Before.\n\n| file | change |\n|---|--:|\n| total.sh | `-` becomes `+`, and nothing else changes |\n\
                  | total.sh | none |\n| total.sh | none |\n\n> | a | b |\n> |---|---|\n> | c | |\n\nAfter.";
    ui.event(end_of(assistant(vec![Content::text(answer)])));
    let (from, to) = (place(&mut ui, "Before."), place(&mut ui, "After."));
    let lines = "total.sh\t- becomes +, and nothing else changes\ntotal.sh\tnone\ntotal.sh\tnone";
    let expected = format!("Before.\n\nfile\tchange\n{lines}\n\na\tb\nc\t\n\nAfter.");
    assert_eq!(drag(&mut ui, (0, from.1), (39, to.1)), Some(expected));
    // From a row that continues a line, to the middle of another one.
    let (from, to) = (place(&mut ui, "else changes"), place(&mut ui, "none"));
    let expected = "total.sh\t- becomes +, and nothing else changes\ntotal.sh\tnone";
    assert_eq!(drag(&mut ui, from, to).as_deref(), Some(expected));
    // Within one row, cells are parted, too.
    let (column, row) = place(&mut ui, "none");
    assert_eq!(drag(&mut ui, (8, row), (column + 1, row)).as_deref(), Some("sh\tno"));
    assert_eq!(drag(&mut ui, (2, row), (6, row)).as_deref(), Some("total"));
}

#[test]
fn copied_sides_of_a_diff_are_the_new_lines() {
    let mut ui = Ui::new(80, 30);
    ui.start("go");
    ui.call("1", "edit", json!({ "path": "a" }));
    let long = "word ".repeat(10);
    let diff = format!("--- a\n+++ a\n@@ -1,3 +1,2 @@\n same\n-old = {long}1\n+new = 1\n \n-gone\n end");
    ui.result("1", "edit", false, &diff);
    click(&mut ui, "edit");
    ui.press(crossterm::event::KeyCode::Char('v'), KeyModifiers::ALT);
    let (from, to) = (place(&mut ui, " same"), place(&mut ui, " end"));
    let expected = " same\n+new = 1\n\n-gone\n end";
    assert_eq!(drag(&mut ui, (from.0, from.1), (79, to.1)).as_deref(), Some(expected));
    let old = place(&mut ui, "-old");
    assert_eq!(drag(&mut ui, old, (old.0 + 3, old.1)).as_deref(), Some("-old"));
}

#[test]
fn copied_output_of_a_program_has_no_indent() {
    let mut ui = with_call();
    click(&mut ui, "seq 3");
    let (head, result) = (place(&mut ui, "bash seq"), place(&mut ui, "the result"));
    assert_eq!(drag(&mut ui, (0, head.1), (59, result.1)).as_deref(), Some("bash seq 3\nall of\nthe result"));
    // The drag has folded nothing.
    assert!(ui.screen().contains("the result"));
}

#[test]
fn marked_text_stays_while_the_conversation_grows() {
    let mut ui = Ui::new(60, 12);
    ui.start("go");
    ui.text("first line\n\nsecond line\n\n");
    let (from, to) = (place(&mut ui, "first"), place(&mut ui, "second"));
    mouse_at(&mut ui, MouseEventKind::Down(MouseButton::Left), from);
    mouse_at(&mut ui, MouseEventKind::Drag(MouseButton::Left), (to.0 + 5, to.1));
    (0..6).for_each(|n| ui.text(&format!("later {n}\n\n")));
    assert!(!ui.screen().contains("first line"), "{}", ui.screen());
    assert_eq!(
        copied(mouse(&mut ui, MouseEventKind::Up(MouseButton::Left), 0)).as_deref(),
        Some("first line\n\nsecond")
    );
}

#[test]
fn drag_beyond_the_rows_of_the_conversation_scrolls() {
    let mut ui = Ui::new(60, 12);
    let text: String = (0..40).map(|n| format!("line {n}\n\n")).collect();
    ui.event(end_of(assistant(vec![Content::text(text)])));
    let last = place(&mut ui, "line 39");
    mouse_at(&mut ui, MouseEventKind::Down(MouseButton::Left), (20, last.1));
    (0..40).for_each(|n| drop(mouse_at(&mut ui, MouseEventKind::Drag(MouseButton::Left), (2 + n % 2, 0))));
    let copied = copied(mouse(&mut ui, MouseEventKind::Up(MouseButton::Left), 0)).unwrap();
    assert!(copied.ends_with("\n\nline 39") && copied.lines().count() > 40, "{copied}");
}

#[test]
fn marked_text_is_shown_until_a_key_is_pressed() {
    let mut ui = Ui::new(60, 12);
    ui.event(end_of(assistant(vec![Content::text("some words")])));
    let (x, y) = place(&mut ui, "words");
    let is_marked = |ui: &mut Ui, x: u16| {
        let (buffer, _) = ui.buffer();
        buffer[(x, y)].modifier.contains(ratatui_core::style::Modifier::REVERSED)
    };
    drag(&mut ui, (x, y), (50, y));
    assert_eq!([x - 1, x, x + 4, x + 5].map(|x| is_marked(&mut ui, x)), [false, true, true, false]);
    ui.types("a");
    assert!(!is_marked(&mut ui, x));
}

#[test]
fn key_gives_the_mouse_to_the_ui_and_back() {
    let mut ui = Ui::new(100, 12);
    let alt_w = |ui: &mut Ui| ui.press(crossterm::event::KeyCode::Char('w'), KeyModifiers::ALT);
    assert_eq!(alt_w(&mut ui), [UiRequest::Mouse(true)]);
    assert!(
        ui.screen().contains("a drag copies, a click folds, the wheel scrolls; alt+w changes that"),
        "{}",
        ui.screen()
    );
    assert_eq!(alt_w(&mut ui), [UiRequest::Mouse(false)]);
    assert!(alt_w(&mut Ui::inline(100, 12)).is_empty());
}
