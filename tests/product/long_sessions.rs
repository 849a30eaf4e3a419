//! Sessions that take a moment to read: their end is on the screen before.

use pinion_agent::message::{AssistantMessage, StopReason};
use pinion_agent::{Content, Message, SessionStore as _, Usage};
use pinion_session_store::SessionDirectory;
use pinion_tests::{Pinion, Terminal, say};
use std::path::PathBuf;
use std::sync::Arc;

const SIZE: (u16, u16) = (80, 24);
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

fn said_before() -> AssistantMessage {
    AssistantMessage {
        content: Vec::new(),
        stop_reason: StopReason::Stop,
        provider: "replay".into(),
        model: "script".into(),
        requested_model: None,
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: "2026-01-02T03:04:05Z".parse().unwrap(),
    }
}

/// Writes a session of more than a megabyte whose first prompt is `the origin`, and whose last reply contains `secret`.
fn long_session(pinion: &Pinion, secret: &str) -> PathBuf {
    let session = SessionDirectory::new(pinion.home().join("sessions")).begin(&pinion.workspace());
    let ask = |text: &str| session.append(&Arc::new(Message::user(text))).unwrap();
    ask("the origin");
    (0..3_000).for_each(|number| ask(&format!("number {number} {}", "words ".repeat(80))));
    let content = vec![Content::text(format!("the key is {secret}, over"))];
    session.append(&Arc::new(Message::Assistant(AssistantMessage { content, ..said_before() }))).unwrap();
    session.path().to_owned()
}

#[test]
fn end_of_a_long_session_is_shown_before_the_rest_is_read() {
    const SECRET: &str = "Yt6Re1Wq0Po9Iu8Lk7Jh";
    let pinion = Pinion::default();
    pinion.config("[compaction]\nautomatic = false\n");
    long_session(&pinion, SECRET);
    let script = pinion.script(&[say("an answer")]);
    let mut command = pinion.default_command(["-c", "--replay", script.to_str().unwrap()]);
    command.env("OPENAI_API_KEY", SECRET);
    // Keys that are typed before the session is read are not lost.
    let mut terminal = Terminal::start(&command, SIZE, "typed early");
    terminal.wait_for("reading the rest of the session");
    terminal.wait_for("lists commands");
    terminal.keys(" and late\r");
    terminal.wait_for("an answer");
    // The beginning is there, too.
    terminal.keys("\x1b[1;5H");
    terminal.wait_for("the origin");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && !seen.contains(SECRET), "{seen}");
    let at = |text: &str| seen.find(text).unwrap_or_else(|| panic!("no {text:?} in {seen}"));
    assert!(at("over") < at("reading the rest") && at("reading the rest") < at("lists commands"), "{seen}");
    assert_eq!(seen.matches(ENTER).count(), 1, "{seen}");
}

#[test]
fn slow_terminal_gets_the_whole_conversation_at_the_end() {
    let pinion = Pinion::default();
    long_session(&pinion, "none");
    let script = pinion.script(&[]);
    let terminal = Terminal::start(&pinion.default_command(["-c", "--replay", script.to_str().unwrap()]), SIZE, "");
    terminal.wait_for("lists commands");
    // 500 KB take more than a second, and so much more than the time that a terminal gets to take something.
    terminal.slow_down(10);
    let (status, seen) = terminal.exit();
    let printed = seen.rsplit_once(LEAVE).unwrap().1;
    assert!(status == Some(0) && printed.contains("the key is none") && printed.contains("Resume with"), "{seen}");
}

#[test]
fn session_that_cannot_be_read_returns_the_terminal_from_its_end() {
    let pinion = Pinion::default();
    let path = long_session(&pinion, "none");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"version\":1", "\"version\":99", 1)).unwrap();
    let script = pinion.script(&[]);
    let command = pinion.default_command(["--session", path.to_str().unwrap(), "--replay", script.to_str().unwrap()]);
    let (status, seen) = Terminal::start(&command, SIZE, "").end();
    assert!(status.is_some_and(|status| status != 0) && seen.contains("version"), "{seen}");
    assert!(seen.rfind(LEAVE) < seen.find("version") && seen.contains(LEAVE), "{seen}");
}
