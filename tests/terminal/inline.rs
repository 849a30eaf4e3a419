//! The inline form on real terminals: the conversation is in the terminal's own scrollback, also after changes of its size.

use pinion_tests::{Pinion, Terminal, say};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Command;

const SIZE: (u16, u16) = (80, 24);
const ALTERNATE: &str = "\x1b[?1049h";
const LEFT_ALTERNATE: &str = "\x1b[?1049l";
/// The end of the sequences that restore the terminal.
const LEFT: &str = "\x1b[?2004l";
/// Words of the status line.
const STATUS: &str = "replay/script";

fn inline(pinion: &Pinion, replies: &[Value], options: &[&str]) -> Command {
    let script = pinion.script(replies);
    pinion.default_command(["--inline", "--replay", script.to_str().unwrap()].iter().chain(options))
}

#[test]
fn form_is_chosen_by_option_environment_or_config() {
    let forms: [(&[&str], &str, &str); 4] = [
        (&["--inline"], "full", "full"),
        (&["--ui", "inline"], "line", "line"),
        (&[], "inline", "full"),
        (&[], "", "inline"),
    ];
    for (options, environment, config) in forms {
        let pinion = Pinion::default();
        pinion.config(&format!("ui = \"{config}\"\n"));
        let script = pinion.script(&[say("finished")]);
        let arguments = ["--replay", script.to_str().unwrap(), "go"];
        let mut command = pinion.default_command(options.iter().chain(&arguments));
        command.env("PINION_UI", environment);
        let terminal = Terminal::start(&command, SIZE, "");
        terminal.wait_for("finished");
        let (status, seen) = terminal.exit();
        assert!(status == Some(0) && seen.contains(LEFT) && !seen.contains(ALTERNATE), "{options:?}: {seen}");
    }
}

#[test]
fn call_is_allowed_by_a_key_and_everything_stays_in_the_scrollback() {
    let pinion = Pinion::default();
    let call = json!({ "calls": [{ "tool": "bash", "arguments": { "command": "echo made > made" } }] });
    let command = inline(&pinion, &[say("first answer"), call, say("second answer")], &["--approve", "ask"]);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for(STATUS);
    terminal.keys("the question\r");
    terminal.wait_for("first answer");
    terminal.keys("another\r");
    terminal.wait_for("[y] yes");
    terminal.keys("y");
    terminal.wait_for("second answer");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && pinion.workspace().join("made").exists(), "{seen}");
    let shown = on_terminal(&seen);
    let order = ["› the question", "first answer", "› another", "✓ bash echo made", "second answer", "Resume with"];
    let places: Vec<_> = order.iter().map(|words| shown.find(words)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {shown}");
    assert!(order.iter().all(|words| shown.matches(words).count() == 1), "{shown}");
    // Neither the editor nor the status line is left.
    assert!(!shown.contains(STATUS) && !shown.contains("─") && !shown.contains("[y] yes"), "{shown}");
}

/// Returns the content of a terminal, with its scrollback.
fn on_terminal(bytes: &str) -> String {
    let mut terminal = vt100::Parser::new(1_000.try_into().unwrap(), SIZE.0.try_into().unwrap(), 0);
    terminal.process(bytes.as_bytes());
    terminal.screen().contents()
}

#[test]
fn key_that_scrolls_shows_the_conversation_on_a_screen_of_its_own() {
    let pinion = Pinion::default();
    let answer = (0..40).map(|n| format!("paragraph {n}\n\n")).collect::<String>();
    let mut terminal = Terminal::start(&inline(&pinion, &[say(&answer)], &["go"]), SIZE, "");
    terminal.wait_for("paragraph 39");
    terminal.keys("\x1b[5~");
    terminal.wait_for_then(ALTERNATE, "esc returns");
    terminal.keys("\x1b");
    terminal.wait_for(LEFT_ALTERNATE);
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0), "{seen}");
    let (before, after) = (seen.split_once(ALTERNATE).unwrap().0, seen.split_once(LEFT_ALTERNATE).unwrap().1);
    let main = on_terminal(&format!("{before}{after}"));
    assert!((0..40).all(|n| main.lines().filter(|row| row.trim() == format!("paragraph {n}")).count() == 1), "{main}");
}

#[test]
fn terminal_is_restored_below_the_conversation_after_a_signal() {
    let pinion = Pinion::default();
    let terminal = Terminal::start(&inline(&pinion, &[say("finished")], &["go"]), SIZE, "");
    terminal.wait_for_then("finished", "of 100 k?");
    kill_process(Pid::from_raw(terminal.pid().cast_signed()).unwrap(), Signal::TERM).unwrap();
    terminal.wait_for(LEFT);
    assert!(terminal.is_restored());
    let (status, seen) = terminal.end();
    assert!(status == Some(143) && !seen.contains(LEFT_ALTERNATE), "{seen}");
    // The shell's next output does not overwrite the status line.
    let shown = on_terminal(&format!("{seen}$ next"));
    let rows: Vec<&str> = shown.lines().filter(|row| !row.is_empty()).collect();
    assert!(rows[rows.len() - 2].contains(STATUS) && rows[rows.len() - 1] == "$ next", "{shown}");
}

#[test]
fn text_of_models_cannot_leave_its_rows() {
    let pinion = Pinion::default();
    let hostile = "a\x1b]52;c;cHduZWQ=\x07b\x1b[2Jc\u{9b}31m\u{202e}\x1b[?1049h\x1b[5A\r\nend";
    let terminal = Terminal::start(&inline(&pinion, &[say(hostile)], &["go"]), SIZE, "");
    terminal.wait_for("end");
    let (_, seen) = terminal.exit();
    let is_own = !seen.contains("\x1b]52") && !seen.contains(ALTERNATE) && !seen.contains("\x1b[2J");
    assert!(is_own && !seen.contains(['\u{9b}', '\u{202e}', '\x07']), "{seen:?}");
    assert!(seen.contains("a␛]52;c;cHduZWQ=␇b␛[2Jc"), "{seen:?}");
}
