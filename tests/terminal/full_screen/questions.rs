//! Approvals and dialogs of plugins.

use crate::terminal::full_screen::{KEYS, SIZE, bash, conversation, last_session, main_screen};
use pinion_tests::{Pinion, Terminal, guest, say};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn type_ahead_and_paste_do_not_answer() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("touch pwned"), say("finished")], "y\ry\ra\r");
    terminal.wait_for(KEYS);
    terminal.keys("yes\ry\r");
    terminal.wait_for("several keys at once");
    terminal.wait_for_nth(KEYS, 2);
    terminal.keys("n");
    terminal.wait_for("finished");
    // Keys that were read before the question are in the editor; those after it are gone.
    terminal.keys("\x03");
    terminal.wait_for_any(&["cleared", "ctrl+c again to exit"]);
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0), "{seen}");
    assert!(!pinion.workspace().join("pwned").exists());
}

#[test]
fn one_key_pressed_after_the_question_answers() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("touch wanted"), say("finished")], "");
    terminal.wait_for(KEYS);
    terminal.keys("y");
    terminal.wait_for("finished");
    let (_, seen) = terminal.exit();
    assert!(pinion.workspace().join("wanted").exists());
    let left = main_screen(&seen);
    assert!(left.contains("touch wanted") && left.contains("finished") && left.contains("Resume with"), "{left}");
}

/// Starts a conversation with the plugin `talker`, whose tool follows these steps. Its grants were bound by an earlier run.
fn talking(pinion: &Pinion, steps: &Value) -> Terminal {
    pinion.config("[plugins.talker.grants]\nui = true\n");
    let plugin = guest("talker");
    let with = |mode: &[&str], script: &Path| {
        let arguments = ["--plugin", plugin.to_str().unwrap(), "--replay", script.to_str().unwrap(), "go"];
        pinion.command(mode.iter().chain(&arguments))
    };
    assert!(with(&["-p"], &pinion.script(&[say("bound")])).output().unwrap().status.success());
    let call = json!({ "calls": [{ "tool": "talk", "arguments": { "steps": steps } }] });
    Terminal::start(&with(&["--ui", "full"], &pinion.script(&[call, say("finished")])), SIZE, "")
}

#[test]
fn dialog_of_a_plugin_is_answered_by_one_key() {
    let pinion = Pinion::default();
    let mut terminal = talking(&pinion, &json!([{ "confirm": "shall I go on?" }]));
    terminal.wait_for("the plugin talker asks you");
    terminal.wait_for(KEYS);
    terminal.keys("y");
    terminal.wait_for("finished");
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0), "{seen}");
    let session = last_session(&pinion);
    assert!(session.contains("Ok(true)"), "{session}");
}

#[test]
fn dialog_of_a_plugin_is_closed_by_escape() {
    let pinion = Pinion::default();
    let mut terminal = talking(&pinion, &json!([{ "confirm": "shall I go on?" }]));
    terminal.wait_for(KEYS);
    terminal.keys("\x1b");
    terminal.wait_for("finished");
    assert_eq!(terminal.exit().0, Some(0));
    let session = last_session(&pinion);
    assert!(session.contains("Dismissed"), "{session}");
}
