//! Terminal state around a conversation: its title, progress, marks in the scrollback, and the greeting.

use pinion_tests::{Pinion, Terminal, say};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const SIZE: (u16, u16) = (80, 24);
const SAVE_TITLE: &str = "\x1b[22;2t";
const RESTORE_TITLE: &str = "\x1b[23;2t";
const WORKING: &str = "\x1b]9;4;3\x1b\\";
const IDLE: &str = "\x1b]9;4;0\x1b\\";
const PROMPT: &str = "\x1b]133;A\x1b\\";

fn start(pinion: &Pinion, form: &str, replies: &[Value]) -> Terminal {
    let script = pinion.script(replies);
    let options = ["--ui", form, "--approve", "all", "--replay", script.to_str().unwrap(), "go"];
    Terminal::start(&pinion.default_command(options), SIZE, "")
}

fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] })
}

/// Returns how often a sequence is in the output.
fn count(seen: &str, sequence: &str) -> usize {
    seen.matches(sequence).count()
}

#[test]
fn title_and_progress_are_undone_at_the_end_and_after_a_signal() {
    for form in ["full", "inline"] {
        let pinion = Pinion::default();
        pinion.config("[tui]\nprogress = true\n");
        let ready = pinion.workspace().join("ready");
        let terminal = start(&pinion, form, &[bash("until [ -e ready ]; do sleep 0.05; done"), say("finished")]);
        terminal.wait_for(WORKING);
        std::fs::write(&ready, "").unwrap();
        terminal.wait_for("finished");
        terminal.wait_for(IDLE);
        let (status, seen) = terminal.exit();
        assert!(status == Some(0) && seen.contains("\x1b]2;● "), "{seen:?}");
        assert_eq!((count(&seen, SAVE_TITLE), count(&seen, RESTORE_TITLE)), (1, 1), "{form}: {seen:?}");
        assert_eq!((count(&seen, WORKING), count(&seen, IDLE)), (1, 1), "{form}: {seen:?}");
        let terminal = start(&pinion, form, &[bash("sleep 600")]);
        terminal.wait_for("running bash");
        kill_process(Pid::from_raw(terminal.pid().cast_signed()).unwrap(), Signal::TERM).unwrap();
        let (status, seen) = terminal.end();
        assert_eq!(status, Some(143));
        let undone = [RESTORE_TITLE, IDLE].map(|undoing| seen.rfind(undoing));
        assert!(undone.iter().all(|at| *at > seen.rfind("\x1b]2;")) && count(&seen, IDLE) == 1, "{form}: {seen:?}");
    }
}

#[test]
fn settings_leave_out_title_marks_and_greeting() {
    let pinion = Pinion::default();
    let terminal = start(&pinion, "inline", &[say("finished")]);
    terminal.wait_for("finished");
    let (_, seen) = terminal.exit();
    assert!(count(&seen, PROMPT) == 1 && seen.contains("lists commands") && !seen.contains("\x1b]9;4"), "{seen:?}");
    pinion.config("[tui]\ntitle = false\nmarks = false\ngreeting = false\n");
    for form in ["full", "inline"] {
        let terminal = start(&pinion, form, &[say("finished")]);
        terminal.wait_for("finished");
        let (status, seen) = terminal.exit();
        assert_eq!(status, Some(0));
        for absent in ["\x1b]2;", "\x1b]133", SAVE_TITLE, "lists commands"] {
            assert!(!seen.contains(absent), "{absent:?} in {seen:?}");
        }
    }
}
