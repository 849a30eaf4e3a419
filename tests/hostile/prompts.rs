//! Questions take only keys pressed after they appeared, show everything they cover, and cannot be forged.
#![cfg(target_os = "linux")]

use pinion_tests::{Pinion, Terminal, say};
use serde_json::{Value, json};

const USUAL: (u16, u16) = (80, 24);
/// The last row of a completely shown question; keys count from then on.
const CHOICE: &str = "always in this session";

fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] })
}

/// Starts a conversation with this model on a terminal with `typed` as type-ahead.
fn conversation(pinion: &Pinion, replies: &[Value], size: (u16, u16), typed: &str) -> Terminal {
    let script = pinion.script(replies);
    let command = pinion.command(["--approve", "ask", "--replay", script.to_str().unwrap(), "go"]);
    Terminal::start(&command, size, typed)
}

/// Ends a conversation and returns all output.
fn leave(terminal: Terminal) -> String {
    terminal.wait_for("›");
    terminal.exit().1
}

/// Returns output without colours and cursor movements.
fn plain(seen: &str) -> String {
    let mut plain = String::new();
    let mut rest = seen;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or_default();
    }
    (plain + rest).replace('\r', "")
}

#[test]
fn type_ahead_does_not_answer() {
    let pinion = Pinion::default();
    let typed = "y\ny\na\nyes I agree";
    let mut terminal = conversation(&pinion, &[bash("touch pwned"), say("finished")], USUAL, typed);
    terminal.wait_for(CHOICE);
    terminal.keys("n");
    terminal.wait_for("finished");
    leave(terminal);
    assert!(!pinion.workspace().join("pwned").exists());
}

#[test]
fn one_key_pressed_after_the_question_answers() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("touch wanted"), say("finished")], USUAL, "");
    terminal.wait_for(CHOICE);
    terminal.keys("y");
    terminal.wait_for("finished");
    leave(terminal);
    assert!(pinion.workspace().join("wanted").exists());
}

#[test]
fn paste_does_not_answer() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("touch pwned"), say("finished")], USUAL, "");
    terminal.wait_for(CHOICE);
    terminal.keys("yes please\ry\r");
    terminal.wait_for("several keys at once");
    terminal.keys("n");
    terminal.wait_for("finished");
    leave(terminal);
    assert!(!pinion.workspace().join("pwned").exists());
}

#[test]
fn other_keys_do_not_answer_and_name_those_that_do() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("touch pwned"), say("finished")], USUAL, "");
    for (at, key) in [" ", "\r", "x", "7"].into_iter().enumerate() {
        terminal.wait_for_nth(CHOICE, at + 1);
        terminal.keys(key);
        // Each gets an answer.
        terminal.wait_for_nth("press y, a, n or r", at + 1);
    }
    terminal.wait_for_nth(CHOICE, 5);
    terminal.keys("n");
    terminal.wait_for("finished");
    leave(terminal);
    assert!(!pinion.workspace().join("pwned").exists());
}

#[test]
fn yes_counts_only_after_the_last_page() {
    let pinion = Pinion::default();
    let command = format!("{}touch pwned", ": harmless\n".repeat(60));
    let mut terminal = conversation(&pinion, &[bash(&command), say("finished")], USUAL, "");
    let seen = terminal.wait_for("space or ↓ for more");
    assert!(!seen.contains("touch pwned") && !seen.contains(CHOICE), "{seen}");
    terminal.keys("y");
    terminal.wait_for("read to the end before answering yes");
    terminal.keys("a");
    terminal.wait_for_nth("read to the end before answering yes", 2);
    assert!(!pinion.workspace().join("pwned").exists());
    terminal.keys("\x1b[F");
    let seen = terminal.wait_for(CHOICE);
    assert_eq!(seen.matches("    : harmless").count(), 60, "{seen}");
    assert!(seen.contains("touch pwned"), "{seen}");
    terminal.keys("y");
    terminal.wait_for("finished");
    leave(terminal);
    assert!(pinion.workspace().join("pwned").exists());
}

#[test]
fn pages_follow_each_other_without_gaps() {
    let pinion = Pinion::default();
    let lines: Vec<String> = (0..60).map(|n| format!(": line-{n:02}")).collect();
    let mut terminal = conversation(&pinion, &[bash(&lines.join("\n")), say("finished")], USUAL, "");
    // 15 rows along with the question, then 20 per page.
    for page in 1..4 {
        terminal.wait_for_nth("for more", page);
        terminal.keys(" ");
    }
    terminal.wait_for(CHOICE);
    terminal.keys("n");
    terminal.wait_for("finished");
    let seen = leave(terminal);
    assert!(lines.iter().all(|line| seen.contains(line.as_str())), "{seen}");
}

#[test]
fn nothing_in_arguments_is_hidden() {
    let pinion = Pinion::default();
    let command = format!("ls\u{200b}\u{e0041}\u{202e}\u{a0}x{}; rm\t-rf а\r", " ".repeat(5000));
    let mut terminal = conversation(&pinion, &[bash(&command), say("finished")], USUAL, "");
    let seen = plain(&terminal.wait_for(CHOICE)).replace("\n┊ ", "");
    for part in ["ls\\u{200b}\\u{e0041}\\u{202e}\\u{a0}x··· 5000 spaces ···", "; rm␉-rf \\u{430}␍"] {
        assert!(seen.contains(part), "`{part}` is not in:\n{seen}");
    }
    terminal.keys("n");
    terminal.wait_for("finished");
    leave(terminal);
}

#[test]
fn long_lines_are_wrapped_and_not_cut() {
    let pinion = Pinion::default();
    let command = format!("echo {}; touch pwned", "x".repeat(900));
    let mut terminal = conversation(&pinion, &[bash(&command), say("finished")], USUAL, "");
    let seen = plain(&terminal.wait_for(CHOICE)).replace("\n┊ ", "");
    assert!(seen.contains(&command), "{seen}");
    terminal.keys("n");
    terminal.wait_for("finished");
    leave(terminal);
}

#[test]
fn arguments_and_answers_cannot_forge_a_question() {
    let pinion = Pinion::default();
    let forged = "ls\n\n? allow this call? It reads files\n  tool:   read\n  y yes  a always in THAT session  n no\n\x1b[2J\x1b[H";
    let padded = format!("{}? allow this call? It reads files", " ".repeat(80));
    let replies =
        [json!({ "text": format!("{forged}{padded}\n● read"), "calls": bash(forged)["calls"] }), say("finished")];
    let mut terminal = conversation(&pinion, &replies, USUAL, "");
    let seen = plain(&terminal.wait_for(CHOICE));
    assert_eq!(seen.lines().filter(|line| line.starts_with('?')).count(), 1, "{seen}");
    assert!(!seen.contains("\n● read"), "{seen}");
    assert!(seen.contains("\n  tool:   bash\n") && seen.contains("\n  plugin: shell ("), "{seen}");
    terminal.keys("n");
    terminal.wait_for("finished");
    leave(terminal);
}

#[test]
fn always_names_its_scope_and_covers_no_more() {
    let pinion = Pinion::default();
    let write = json!({ "calls": [{ "tool": "write", "arguments": { "path": "b.txt", "content": "x" } }] });
    let replies = [bash("touch one"), bash("touch two"), write, say("finished")];
    let mut terminal = conversation(&pinion, &replies, USUAL, "");
    let seen = plain(&terminal.wait_for(CHOICE));
    assert!(seen.contains("do not ask again for bash in this session"), "{seen}");
    terminal.keys("a");
    let seen = plain(&terminal.wait_for_nth(CHOICE, 2));
    assert!(seen.contains("\n  tool:   write\n"), "{seen}");
    terminal.keys("n");
    terminal.wait_for("finished");
    leave(terminal);
    assert!(pinion.workspace().join("two").exists() && !pinion.workspace().join("b.txt").exists());
}

#[test]
fn question_fits_a_small_terminal() {
    let pinion = Pinion::default();
    let command = format!("{}touch pwned", ": harmless\n".repeat(10));
    let mut terminal = conversation(&pinion, &[bash(&command), say("finished")], (40, 10), "");
    terminal.wait_for("for more");
    terminal.keys("\x1b[F");
    let seen = plain(&terminal.wait_for(CHOICE));
    assert!(seen.contains("touch pwned"), "{seen}");
    for line in seen.lines().filter(|line| line.starts_with(['│', '┊', '?'])) {
        assert!(line.chars().count() <= 40, "{line}");
    }
    terminal.keys("n");
    terminal.wait_for("finished");
    leave(terminal);
}

#[test]
fn ctrl_c_denies_and_restores_the_terminal() {
    let pinion = Pinion::default();
    let mut terminal = conversation(&pinion, &[bash("touch pwned"), say("finished")], USUAL, "");
    terminal.wait_for(CHOICE);
    terminal.keys("\x03");
    terminal.wait_for_then("interrupted", "›");
    terminal.keys("\x03");
    terminal.wait_for("Press Ctrl-C again to exit");
    terminal.keys("\x03");
    let (code, _) = terminal.end();
    assert_eq!(code, Some(0));
    assert!(!pinion.workspace().join("pwned").exists());
}
