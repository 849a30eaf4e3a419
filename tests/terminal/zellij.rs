//! The UI in Zellij, which reads its keys and draws its screens itself. The tests pass without it: it is in few package
//! registries, and `cargo install zellij --locked` takes several minutes.

use crate::terminal::tmux::{SIZE, STATUS, WORDS, change_sizes, conversation, edit_with_every_key, paragraphs};
use pinion_tests::{Pinion, Tmux, say};

#[test]
fn zellij_passes_every_key_of_the_editor() {
    let pinion = Pinion::default();
    let command = conversation(&pinion, "full", &[say("finished")], &["go"]);
    let Some(zellij) = Tmux::start_in_zellij(&command, SIZE) else { return };
    zellij.wait_for_text("finished");
    edit_with_every_key(&zellij);
}

#[test]
fn new_sizes_of_zellij_wrap_everything_again() {
    let pinion = Pinion::default();
    let command = conversation(&pinion, "full", &[paragraphs()], &["go"]);
    let Some(zellij) = Tmux::start_in_zellij(&command, SIZE) else { return };
    zellij.wait_for_text("end of 11.");
    change_sizes(&zellij);
    let rows = zellij.screen();
    assert!(rows.iter().any(|row| row == &format!("  Paragraph 11: {WORDS}, end of")), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row.starts_with(STATUS)).count(), 1, "{rows:?}");
}

#[test]
fn new_sizes_of_zellij_leave_every_row_of_the_inline_form_once() {
    let pinion = Pinion::default();
    let command = conversation(&pinion, "inline", &[paragraphs(), say("the last answer")], &["go"]);
    let Some(zellij) = Tmux::start_in_zellij(&command, SIZE) else { return };
    zellij.wait_for_text("end of 11.");
    zellij.wait_for_text(STATUS);
    // Its rows are above the cursor.
    zellij.types(&format!("first line, {WORDS}"));
    zellij.press("M-Enter");
    zellij.types(&format!("second line, {WORDS}"));
    change_sizes(&zellij);
    zellij.types("\r");
    zellij.wait_for_text("the last answer");
    let text = zellij.scrollback_of_zellij().join("\n");
    let ends = (0..12).map(|n| format!("end of {n}.")).chain(["the last answer".to_owned()]);
    let at: Vec<_> = ends.map(|end| text.match_indices(&end).map(|(at, _)| at).collect::<Vec<_>>()).collect();
    assert!(at.iter().all(|at| at.len() == 1) && at.is_sorted(), "{at:?} in {text}");
}
