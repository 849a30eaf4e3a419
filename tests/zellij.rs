//! The UI in Zellij, which reads its keys and draws its screens itself. The tests pass without it: it is in few package
//! registries, and `cargo install zellij --locked` takes several minutes.

use crate::tmux::{SIZE, STATUS, WORDS, change_sizes, conversation, edit_with_every_key, paragraphs};
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
