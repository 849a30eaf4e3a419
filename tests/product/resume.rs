//! Conversations that continue in the full-screen UI: all that was said and done is there again.

use pinion_tests::{Pinion, Terminal, call, say};
use serde_json::{Value, json};

const SIZE: (u16, u16) = (100, 40);
const ALT_L: &str = "\x1bl";

fn start(pinion: &Pinion, replies: &[Value], arguments: &[&str]) -> Terminal {
    let script = pinion.script(replies);
    let usual = ["--ui", "full", "--approve", "all", "--replay", script.to_str().unwrap()];
    Terminal::start(&pinion.default_command(usual.iter().chain(arguments)), SIZE, "")
}

#[test]
fn continued_session_shows_what_was_compacted_and_what_was_spent() {
    let pinion = Pinion::default();
    let counted = |text: &str| json!({ "text": text, "usage": { "input": 1_000, "output": 200 } });
    let replies = [counted("the first answer"), say("the second answer"), counted("a summary of it")];
    let mut terminal = start(&pinion, &replies, &["the first question"]);
    terminal.wait_for("the first answer");
    terminal.keys("the second question\r");
    terminal.wait_for("the second answer");
    terminal.keys("/compact\r");
    terminal.wait_for("with a summary");
    assert_eq!(terminal.exit().0, Some(0));
    let mut terminal = start(&pinion, &[say("the third answer")], &["-c"]);
    terminal.wait_for("the first question");
    terminal.wait_for("the first answer");
    // The status line has the tokens of both requests.
    terminal.wait_for("2.4 k tokens");
    terminal.keys("/cost\r");
    terminal.wait_for("2,000");
    terminal.keys("the third question\r");
    terminal.wait_for("the third answer");
    let (status, seen) = terminal.exit();
    assert!(status == Some(0) && !seen.contains("a summary of it"), "{seen}");
}

#[test]
fn continued_session_has_its_ledgers_and_sub_agents() {
    let pinion = Pinion::default();
    pinion.write("a.rs", "fn main() {}\n");
    let replies = [
        call("task", json!({ "prompt": "Look at the file." })),
        call("read", json!({ "path": "a.rs" })),
        say("It is short."),
        say("All is said."),
    ];
    let terminal = start(&pinion, &replies, &["look"]);
    terminal.wait_for("All is said.");
    assert_eq!(terminal.exit().0, Some(0));
    let mut terminal = start(&pinion, &[], &["-c"]);
    terminal.wait_for("All is said.");
    terminal.wait_for_then("“Look at the file.”", "done");
    terminal.keys(ALT_L);
    terminal.wait_for("task #1 · ");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn conversation_is_shown_as_it_is_after_an_undo() {
    let pinion = Pinion::default();
    let mut terminal = start(&pinion, &[say("the first answer"), say("the second answer")], &["the first question"]);
    terminal.wait_for("the first answer");
    terminal.keys("the second question\r");
    terminal.wait_for("the second answer");
    terminal.keys("/undo\r");
    terminal.wait_for("undone:");
    // The message is one key away, and the editor is free for a command.
    terminal.wait_for("↑ brings the message back");
    let (status, seen) = terminal.exit();
    let main = seen.rsplit_once("\x1b[?1049l").unwrap().1;
    assert!(status == Some(0) && main.contains("the first answer") && !main.contains("the second answer"), "{main}");
}

#[test]
fn undone_prompt_is_one_key_away_and_a_redo_is_no_part_of_it() {
    let pinion = Pinion::default();
    let replies = [say("the first answer"), say("the second answer"), say("the third answer")];
    let mut terminal = start(&pinion, &replies, &["the first question"]);
    terminal.wait_for("the first answer");
    terminal.keys("the second question\r");
    terminal.wait_for("the second answer");
    terminal.keys("/undo\r");
    terminal.wait_for("↑ brings the message back");
    terminal.keys("/redo\r");
    terminal.wait_for("redone:");
    terminal.keys("/undo\r");
    terminal.wait_for_nth("↑ brings the message back", 2);
    terminal.keys("\x1b[A");
    terminal.wait_until("the message in the editor", |seen| {
        let mut screen = vt100::Parser::new(SIZE.1.try_into().unwrap(), SIZE.0.try_into().unwrap(), 0);
        screen.process(seen.as_bytes());
        screen.screen().contents().contains("› the second question")
    });
    terminal.keys("\r");
    terminal.wait_for("the third answer");
    assert_eq!(terminal.exit().0, Some(0));
}
