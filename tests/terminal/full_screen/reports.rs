//! Reports of the terminal, pastes that it does not mark, and keys typed before the UI is there.

use crate::terminal::full_screen::{SIZE, conversation, last_session};
use pinion_tests::{Pinion, Terminal, say};

/// Reports that terminals send without a question of this program, or late.
const REPORTS: &[&str] = &[
    "\x1b[?2026;2$y",
    "\x1b[?997;1n",
    "\x1b[?5;5R",
    "\x1b[?1;0;256S",
    "\x1b[?62;4;22c",
    "\x1b[>1;4000;42c",
    "\x1b[?1u",
    "\x1b[8;24;80t",
    "\x1b[24;80R",
    "\x1b]10;rgb:ffff/ffff/ffff\x07",
    "\x1b]4;1;rgb:cc/00/00\x07",
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1bP>|kitty(0.42.1)\x1b\\",
    "\x1b_Gi=31;OK\x1b\\",
];

#[test]
fn reports_type_nothing_and_keep_no_key() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("first"), say("second")]);
    let mut command = pinion.command(["--ui", "full", "--replay", script.to_str().unwrap(), "go"]);
    command.env("EDITOR", "touch edited;");
    let mut terminal = Terminal::start(&command, SIZE, "");
    terminal.wait_for("first");
    for report in REPORTS {
        // Whole, and in two parts behind its beginning.
        terminal.keys(&format!("[{report}"));
        terminal.lines(&[&report[..1], &report[1..]]);
        terminal.lines(&[&report[..4], &format!("{}]", &report[4..])]);
    }
    terminal.keys("end\r");
    terminal.wait_for("second");
    assert_eq!(terminal.exit().0, Some(0));
    let session = last_session(&pinion);
    let expected = format!("{}end", "[]".repeat(REPORTS.len()));
    assert!(session.contains(&expected), "{session}");
    assert!(!pinion.workspace().join("edited").exists());
}

#[test]
fn several_lines_at_once_are_not_sent() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[say("first"), say("second")], "");
    terminal.wait_for("first");
    terminal.lines(&["zebra\rquagga\rokapi"]);
    terminal.wait_for("okapi");
    terminal.keys("\r");
    terminal.wait_for("second");
    assert_eq!(terminal.exit().0, Some(0));
    let session = last_session(&pinion);
    let at = |words: &str| session.find(words).unwrap_or_else(|| panic!("no {words} in {session}"));
    assert!(at("zebra") < at("quagga") && at("quagga") < at("okapi") && at("okapi") < at("second"), "{session}");
}

#[test]
fn line_typed_before_the_ui_is_there_is_sent() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("the answer")]);
    let command = pinion.default_command(["--replay", script.to_str().unwrap()]);
    let terminal = Terminal::start(&command, SIZE, "hello\r");
    terminal.wait_for("the answer");
    assert_eq!(terminal.exit().0, Some(0));
}
