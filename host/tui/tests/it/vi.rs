//! Keys of vi in the editor.

use crate::ui::Ui;
use crossterm::event::KeyCode;
use pinion_tui::{App, Request, Settings};

fn vi() -> Ui {
    let mut ui = Ui::new(60, 16);
    ui.app = App::new(Settings { has_vi_keys: true, ..Settings::default() });
    ui
}

/// Types a text, then commands, and returns the message that is sent.
fn edited(text: &str, commands: &str) -> String {
    let mut ui = vi();
    ui.paste(text);
    ui.key(KeyCode::Esc);
    ui.types(commands);
    let sent =
        ui.key(KeyCode::Enter).into_iter().find_map(|r| if let Request::Submit(text) = r { Some(text) } else { None });
    sent.unwrap_or_default()
}

#[test]
fn commands_edit_the_message() {
    assert_eq!(edited("one two three", "0dw"), "two three");
    assert_eq!(edited("one two three", "02dw"), "three");
    assert_eq!(edited("one two three", "0wcwTWO"), "one TWO three");
    assert_eq!(edited("one two", "bD"), "one ");
    assert_eq!(edited("one\ntwo\nthree", "ggdd"), "two\nthree");
    assert_eq!(edited("one\ntwo", "ggyyGo"), "one\ntwo\n");
    assert_eq!(edited("ab", "0xp"), "ba");
    assert_eq!(edited("abc", "03xu"), "c");
    assert_eq!(edited("one", "Izero A four"), "zero A fourone");
    assert_eq!(edited("one(two)", "0wx"), "onetwo)");
    assert_eq!(edited("one two", "0ywP"), "one one two");
}

#[test]
fn mode_is_shown_and_escape_interrupts_in_it() {
    let mut ui = vi();
    ui.start("go");
    ui.types("text");
    assert_eq!(ui.key(KeyCode::Esc), []);
    assert!(ui.screen().contains("\n‹ text") && ui.screen().contains("\nnormal"), "{}", ui.screen());
    assert_eq!(ui.key(KeyCode::Esc), [Request::Interrupt]);
    ui.types("i");
    assert!(ui.screen().contains("\n› text") && !ui.screen().contains("normal"), "{}", ui.screen());
}

#[test]
fn colon_begins_a_command_on_the_empty_editor() {
    let mut ui = vi();
    ui.key(KeyCode::Esc);
    assert_eq!(ui.send(":keys"), [Request::Remember("/keys".into())]);
    assert_eq!(edited("text", ":"), "text");
}
