//! The UI in GNU screen, which has its own scrollback, keys and alternate screen, and cuts off rows.

use crate::terminal::tmux::{SIZE, STATUS, WORDS, change_sizes, conversation, edit_with_every_key, paragraphs};
use pinion_tests::{Pinion, Tmux, say};

#[test]
fn screen_passes_every_key_of_the_editor() {
    let pinion = Pinion::default();
    let command = conversation(&pinion, "full", &[say("finished")], &["go"]);
    let Some(screen) = Tmux::start_in_screen(&command, SIZE) else { return };
    screen.wait_for_text("finished");
    edit_with_every_key(&screen);
}

#[test]
fn new_sizes_of_screen_wrap_everything_again() {
    let pinion = Pinion::default();
    let command = conversation(&pinion, "full", &[paragraphs()], &["go"]);
    let Some(screen) = Tmux::start_in_screen(&command, SIZE) else { return };
    screen.wait_for_text("end of 11.");
    change_sizes(&screen);
    let rows = screen.screen();
    assert!(rows.iter().any(|row| row == &format!("  Paragraph 11: {WORDS}, end of")), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row.starts_with(STATUS)).count(), 1, "{rows:?}");
}

#[test]
fn new_sizes_of_screen_leave_every_row_of_the_inline_form_once() {
    let pinion = Pinion::default();
    let command = conversation(&pinion, "inline", &[paragraphs(), say("the last answer")], &["go"]);
    let Some(screen) = Tmux::start_in_screen(&command, SIZE) else { return };
    screen.wait_for_text("end of 11.");
    change_sizes(&screen);
    screen.types("next\r");
    screen.wait_for_text("the last answer");
    let text = screen.scrollback_of_screen().join("\n");
    let ends = (0..12).map(|n| format!("end of {n}.")).chain(["the last answer".to_owned()]);
    let at: Vec<_> = ends.map(|end| text.match_indices(&end).map(|(at, _)| at).collect::<Vec<_>>()).collect();
    assert!(at.iter().all(|at| at.len() == 1) && at.is_sorted(), "{at:?} in {text}");
}
