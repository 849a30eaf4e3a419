//! The full-screen UI on a real terminal: approvals, interrupts, commands, and the terminal afterwards.

use pinion_tests::{Pinion, Terminal, say};
use serde_json::{Value, json};

const SIZE: (u16, u16) = (80, 24);
/// The keys of a question, which are named once they count.
const KEYS: &str = "[y] yes";
const LEAVE: &str = "\x1b[?1049l";

fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] })
}

/// Starts a conversation in the full-screen UI with this model, and with `typed` as type-ahead.
fn conversation(pinion: &Pinion, replies: &[Value], typed: &str) -> Terminal {
    let script = pinion.script(replies);
    let command = pinion.command(["--tui", "--replay", script.to_str().unwrap(), "go"]);
    Terminal::start(&command, SIZE, typed)
}

/// Returns what is on the main screen after the UI has left.
fn main_screen(seen: &str) -> &str {
    seen.rsplit_once(LEAVE).expect("the UI did not leave").1
}

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
    // What was typed ahead is in the editor.
    terminal.keys("\x03");
    terminal.wait_for("cleared");
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

#[test]
fn escape_interrupts_a_running_program() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("sleep 600")], "");
    terminal.wait_for(KEYS);
    terminal.keys("y");
    terminal.wait_for("running bash");
    terminal.keys("\x1b");
    terminal.wait_for("interrupted");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn commands_of_plugins_work() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    terminal.keys("/help\r");
    terminal.wait_for("/tools");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn terminal_is_restored_after_a_signal() {
    let pinion = Pinion::default();
    let terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    let process = rustix::process::Pid::from_raw(terminal.pid().cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    terminal.wait_for(LEAVE);
    assert!(terminal.is_restored());
    assert_eq!(terminal.end().0, Some(143));
}

#[test]
fn escape_sequences_of_models_and_programs_stay_text() {
    let pinion = Pinion::default();
    let hostile = "a\x1b]52;c;cHduZWQ=\x07b\x1b[2Jc\u{9b}31m\u{202e}";
    let terminal = conversation(&pinion, &[say(hostile)], "");
    terminal.wait_for("cHduZWQ=");
    let (_, seen) = terminal.exit();
    assert!(!seen.contains("\x1b]52") && !seen.contains(['\u{9b}', '\u{202e}', '\x07']), "{seen:?}");
    assert!(seen.contains("a␛]52;c;cHduZWQ=␇b␛[2Jc"), "{seen:?}");
}

#[test]
fn command_of_the_user_runs_and_reaches_the_model_with_the_next_message() {
    let pinion = Pinion::default();
    std::fs::write(pinion.workspace().join("found-by-ls"), "").unwrap();
    let mut terminal = conversation(&pinion, &[say("finished"), say("understood")], "");
    terminal.wait_for("finished");
    terminal.keys("!ls\r");
    terminal.wait_for("found-by-ls");
    terminal.keys("!!echo private-$((1 + 1))\r");
    terminal.wait_for("private-2");
    terminal.keys("what is there?\r");
    terminal.wait_for("understood");
    assert_eq!(terminal.exit().0, Some(0));
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    let session = pinion.run(["session", "show", &id]).stdout;
    assert!(session.contains("I ran this command") && session.contains("found-by-ls"), "{session}");
    assert!(!session.contains("private-2"), "{session}");
}

#[test]
fn plan_is_made_and_executed_in_the_conversation() {
    let answer = |arguments: Value| json!({ "calls": [{ "tool": "final_answer", "arguments": arguments }] });
    let step =
        |title: &str| json!({ "title": title, "description": "As said.", "files": [], "acceptance": ["It works."] });
    let plan = json!({ "title": "Fix it", "summary": "Short.", "steps": [step("Look"), step("Change")] });
    let report = |text: &str| answer(json!({ "done": true, "report": text }));
    let pinion = Pinion::default();
    let replies = [say("finished"), answer(plan), report("looked"), report("changed")];
    let mut terminal = conversation(&pinion, &replies, "");
    terminal.wait_for("finished");
    terminal.keys("\x1b[Z");
    terminal.wait_for("plan mode");
    terminal.keys("fix it\r");
    terminal.wait_for("execute the plan");
    terminal.keys("\r");
    terminal.wait_for("all steps of");
    let plan = std::fs::read_to_string(pinion.workspace().join(".pinion/plans/fix-it.md")).unwrap();
    assert_eq!(plan.matches("Status: done").count(), 2, "{plan}");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && main_screen(&seen).contains("step 2 of 2: Change: done"), "{seen}");
    assert!(pinion.run(["session", "list"]).stdout.contains("plan: Fix it"));
}

#[test]
fn context_and_copies_are_shown() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    terminal.keys("/context\r");
    terminal.wait_for("your messages");
    terminal.keys("/copy\r");
    // The base64 form of the answer.
    terminal.wait_for("\x1b]52;c;ZmluaXNoZWQ=\x07");
    assert_eq!(terminal.exit().0, Some(0));
}
