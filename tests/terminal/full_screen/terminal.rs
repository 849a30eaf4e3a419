//! Interrupts, and the terminal during the conversation and afterwards.

use crate::faults::{by_nobody, can_be_nobody};
use crate::terminal::full_screen::{LEAVE, SIZE, bash, conversation, main_screen, process, running};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinion_tests::{Pinion, Terminal, say};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

#[test]
fn escape_interrupts_a_running_program() {
    let pinion = Pinion::default();
    let mut terminal = running(&pinion);
    terminal.keys("\x1b");
    terminal.wait_for("interrupted");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn terminal_is_restored_after_a_signal() {
    let pinion = Pinion::default();
    let terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    rustix::process::kill_process(process(&terminal), rustix::process::Signal::TERM).unwrap();
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

/// Of a signal and an input that wake it up together, crossterm reports the input. Zellij reports the focus at every new size.
#[test]
fn new_size_that_comes_with_an_input_is_noticed() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("finished")], "");
    terminal.wait_for("finished");
    for columns in SIZE.0 + 1..SIZE.0 + 20 {
        terminal.resize_and_type((columns, SIZE.1), "\x1b[O\x1b[I");
        terminal.wait_for(&"─".repeat(columns.into()));
    }
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn mouse_is_reported_unless_the_user_does_not_want_it_and_until_the_end() {
    const ON: &str = "\x1b[?1002h\x1b[?1006h";
    const OFF: &str = "\x1b[?1006l\x1b[?1002l";
    let pinion = Pinion::default();
    pinion.config("[tui]\nmouse = false\n");
    let script = pinion.script(&[say("done")]);
    let command = pinion.default_command(["--replay", script.to_str().unwrap(), "--no-session", "go"]);
    let terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("done");
    assert!(!terminal.exit().1.contains("[?1002h"));
    pinion.config("");
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("done");
    terminal.keys("\x1bw");
    terminal.wait_for("the mouse is the terminal's");
    terminal.keys("\x1bw");
    terminal.wait_for("a drag copies");
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0));
    let found = |sequence: &str| seen.match_indices(sequence).map(|(at, _)| at).collect::<Vec<_>>();
    assert!(
        matches!((&found(ON)[..], &found(OFF)[..]), ([a, b], [off, end]) if a < off && off < b && b < end),
        "{seen}"
    );
}

#[test]
fn drag_copies_what_was_marked() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("the words to copy")], "");
    terminal.wait_for("the words to copy");
    // Over all rows of the conversation; columns and rows begin with 1.
    terminal.keys("\x1b[<0;1;1M\x1b[<32;40;12M\x1b[<32;80;18M\x1b[<0;80;18m");
    terminal.wait_for("of the marked text; with shift, the terminal selects");
    let (status, seen) = terminal.exit();
    let copied = seen.split("\x1b]52;c;").nth(1).and_then(|rest| rest.split('\x07').next()).expect("nothing copied");
    let copied = String::from_utf8(STANDARD.decode(copied).unwrap()).unwrap();
    assert!(status == Some(0) && copied.contains("\ngo\n\nthe words to copy"), "{copied}");
}

#[test]
fn run_continues_while_the_external_editor_is_open() {
    let pinion = Pinion::default();
    pinion.config("approve = \"all\"\n");
    // The second call begins after the first has ended, which waits for the editor; the editor waits for the second.
    let editor =
        "#!/bin/sh\ntouch editing\nuntil [ -e second ]; do sleep 0.05; done\necho 'from the editor' > \"$1\"\n";
    let editor = pinion.write("../editor", editor);
    std::fs::set_permissions(&editor, Permissions::from_mode(0o755)).unwrap();
    let replies =
        [bash("touch first; until [ -e editing ]; do sleep 0.05; done"), bash("touch second"), say("finished")];
    let script = pinion.script(&replies);
    let mut command = pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]);
    command.env("EDITOR", editor);
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("running bash");
    // The keys after the one that starts the editor are for the UI.
    terminal.keys("\x07, and more");
    terminal.wait_for_then("from the editor", ", and more");
    terminal.wait_for("finished");
    terminal.keys("\x03");
    terminal.wait_for("cleared");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn two_ctrl_c_end_the_program_while_the_ui_is_busy() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say(&"many words ".repeat(20_000)), say("unused")]);
    let command = pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]);
    // One frame exceeds the buffer of the terminal.
    let mut terminal = Terminal::start(&command, (500, 200), "");
    terminal.wait_for("of 100 k?");
    let took = terminal.time_to_end_while_stalled(&["\x0c", "\x03", "\x03"]);
    // A second, and more on a machine that does something else.
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn two_ctrl_c_quit_during_a_run() {
    let pinion = Pinion::default();
    let mut terminal = running(&pinion);
    terminal.keys("\x03\x03");
    let (status, seen) = terminal.end();
    assert!(matches!(status, Some(0 | 130)) && seen.contains(LEAVE), "{status:?}: {seen}");
}

/// Only root can limit the threads of a process that runs as someone else.
#[test]
fn terminal_is_restored_after_a_panic() {
    let pinion = Pinion::default();
    let has_threads = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    if !can_be_nobody(&pinion) || !has_threads {
        return;
    }
    std::fs::set_permissions(pinion.home(), Permissions::from_mode(0o777)).unwrap();
    // Directories enough to list them with several threads.
    for number in 0..64 {
        pinion.write(&format!("{number}/file"), "");
    }
    let script = pinion.script(&[say("finished")]);
    let command = by_nobody(&pinion, &pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]));
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("finished");
    let mut limit = Command::new("prlimit");
    limit.args(["--pid", &terminal.pid().to_string(), "--nproc=1:1"]).current_dir(pinion.workspace());
    limit.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    assert!(by_nobody(&pinion, &limit).status().unwrap().success());
    terminal.keys("@");
    terminal.wait_for("could not start a thread");
    assert!(terminal.is_restored());
    let (status, seen) = terminal.end();
    assert_eq!(status, Some(1), "{seen}");
    assert!(main_screen(&seen).contains("could not start a thread"), "{seen}");
}
