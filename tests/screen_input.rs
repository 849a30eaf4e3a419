//! Input in the full-screen UI: what takes effect in the middle of a run.

use pinion_tests::{Pinion, Terminal, say};
use serde_json::{Value, json};
use std::process::Command;

const SIZE: (u16, u16) = (80, 24);

fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] })
}

/// A call that works until there is a file `go`.
fn waiting() -> Value {
    bash("until [ -e go ]; do sleep 0.05; done")
}

/// Returns the command of a conversation that begins with a prompt.
fn conversation(pinion: &Pinion, mode: &str, replies: &[Value]) -> Command {
    let script = pinion.script(replies);
    pinion.default_command(["--approve", mode, "--replay", script.to_str().unwrap(), "go"])
}

fn last_session(pinion: &Pinion) -> String {
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    pinion.run(["session", "show", &id]).stdout
}

#[test]
fn plan_mode_binds_the_run_in_progress() {
    let pinion = Pinion::default();
    let replies = [waiting(), bash("touch planned"), say("finished"), bash("touch later"), say("again")];
    let mut terminal = Terminal::start(&conversation(&pinion, "all", &replies), SIZE, "");
    terminal.wait_for("running bash");
    terminal.keys("/plan\r");
    terminal.wait_for("plan mode: from its next call on, the agent only reads");
    pinion.write("go", "");
    terminal.wait_for("finished");
    assert!(!pinion.workspace().join("planned").exists());
    // The mode of before is back, and applies once plan mode is off.
    terminal.keys("/plan\r");
    terminal.wait_for("plan mode is off");
    terminal.keys("and now\r");
    terminal.wait_for("again");
    assert!(pinion.workspace().join("later").exists());
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn message_that_steers_takes_its_pictures_along() {
    let pinion = Pinion::default();
    let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 0, 2, 0, 0, 0, 3]].concat();
    pinion.write("shot.png", png);
    let mut terminal = Terminal::start(&conversation(&pinion, "all", &[waiting(), say("finished")]), SIZE, "");
    terminal.wait_for("running bash");
    // The first Enter lets it wait, the second one sends it at once.
    terminal.keys("see @\"shot.png\" now\r");
    terminal.wait_for("enter sends now");
    terminal.keys("\r");
    terminal.wait_for("finished");
    assert_eq!(terminal.exit().0, Some(0));
    let session = last_session(&pinion);
    assert!(session.contains("see @\"shot.png\" now") && session.contains("image/png"), "{session}");
}

#[test]
fn own_command_changes_the_mode_while_the_agent_works() {
    let pinion = Pinion::default();
    let replies = [waiting(), bash("touch asked"), say("finished")];
    let mut terminal = Terminal::start(&conversation(&pinion, "all", &replies), SIZE, "");
    terminal.wait_for("running bash");
    terminal.keys("/mode ask\r");
    terminal.wait_for("→ ask");
    pinion.write("go", "");
    terminal.wait_for("[y] yes");
    terminal.keys("n");
    terminal.wait_for("finished");
    assert!(!pinion.workspace().join("asked").exists());
    assert_eq!(terminal.exit().0, Some(0));
}
