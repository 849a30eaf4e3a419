//! The full-screen UI on a real terminal.

mod actions;
mod agents;
mod commands;
mod forms;
mod questions;
mod reports;
mod sessions;
mod terminal;

use pinion_tests::{Pinion, Terminal};
use rustix::process::Pid;
use serde_json::{Value, json};

const SIZE: (u16, u16) = (80, 24);
/// The keys of a question, which are named once they count.
const KEYS: &str = "[y] yes";
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// Words of the greeting in a conversation by lines.
const LINES: &str = "/help lists commands";

fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] })
}

/// Starts a conversation in the full-screen UI with this model, and with `typed` as type-ahead.
fn conversation(pinion: &Pinion, replies: &[Value], typed: &str) -> Terminal {
    let script = pinion.script(replies);
    let command = pinion.command(["--ui", "full", "--approve", "ask", "--replay", script.to_str().unwrap(), "go"]);
    Terminal::start(&command, SIZE, typed)
}

/// Starts a conversation whose user has allowed a program that runs for minutes.
fn running(pinion: &Pinion) -> Terminal {
    let mut terminal = conversation(pinion, &[bash("sleep 600")], "");
    terminal.wait_for(KEYS);
    terminal.keys("y");
    terminal.wait_for("running bash");
    terminal
}

/// Returns the content of the main screen after the UI has left.
fn main_screen(seen: &str) -> &str {
    seen.rsplit_once(LEAVE).expect("the UI did not leave").1
}

fn process(terminal: &Terminal) -> Pid {
    Pid::from_raw(terminal.pid().cast_signed()).unwrap()
}

/// Returns the last session as text.
fn last_session(pinion: &Pinion) -> String {
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    pinion.run(["session", "show", &id]).stdout
}
