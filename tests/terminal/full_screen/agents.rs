//! Concurrent sub-agents of a scripted model, on a real terminal.

use crate::terminal::full_screen::{KEYS, bash};
use pinion_tests::{Pinion, Tmux, say};
use serde_json::{Value, json};

/// Room for ten agents above a question.
const SIZE: (u16, u16) = (100, 40);

/// Returns the rows of the tree for sub-agents.
fn agent_rows(screen: &[String]) -> Vec<&String> {
    screen.iter().filter(|row| row.contains("└ sub-agent ")).collect()
}

/// Starts ten agents, each of which asks for a program.
fn ten_agents(pinion: &Pinion) -> Option<Tmux> {
    pinion.config("[plugins.task.grants]\nagents = true\n");
    let task = |number: usize| json!({ "tool": "task", "arguments": { "prompt": format!("do job {number} of ten") } });
    let tasks: Vec<Value> = (1..=10).map(task).collect();
    let mut replies = vec![json!({ "calls": tasks })];
    replies.extend((0..10).map(|_| bash("true")));
    replies.extend((0..11).map(|_| say("finished")));
    let script = pinion.script(&replies);
    let options = ["--ui", "full", "--approve", "ask", "--replay", script.to_str().unwrap(), "go"];
    let tmux = Tmux::start(&pinion.default_command(options), SIZE)?;
    tmux.wait_for_text("tool: task");
    tmux.wait_for_text(KEYS);
    tmux.types("a");
    tmux.wait_for_text("tool: bash");
    Some(tmux)
}

#[test]
fn tree_shows_ten_concurrent_agents_and_which_one_waits() {
    let pinion = Pinion::default();
    let Some(tmux) = ten_agents(&pinion) else { return };
    tmux.press("M-a");
    tmux.wait_for("ten agents, one of which waits", |screen| {
        let rows = agent_rows(screen);
        let waiting = rows.iter().filter(|row| row.contains(" waits ")).count();
        // All have had their reply, whose turn counts.
        let has_turn = |row: &&&String| row.contains(" of ten") && row.contains(" 1 ");
        rows.len() == 10 && waiting == 1 && rows.iter().filter(has_turn).count() == 10
    });
    let screen = tmux.screen();
    let waiting = agent_rows(&screen).into_iter().find(|row| row.contains(" waits ")).unwrap();
    let name = waiting.split_once("└ ").unwrap().1.split("  ").next().unwrap();
    let asks = format!("{name} asks │ do job ");
    assert!(screen.iter().any(|row| row.contains(&asks)), "{asks}: {screen:#?}");
    assert!(screen.iter().any(|row| row.contains("asks: bash true")), "{screen:#?}");
    tmux.wait_for_text(KEYS);
    tmux.types("a");
    tmux.wait_for("all have ended", |screen| {
        let rows = agent_rows(screen);
        rows.len() == 10 && rows.iter().all(|row| row.contains(" done "))
    });
}
