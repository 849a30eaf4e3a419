//! A run killed at any moment leaves a loadable session with everything that was reported as done.

use pinion_tests::Pinion;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};

/// Lines that a run prints, or a few more.
const LINES: usize = 300;

/// Returns the number of kills, spread over the run: a sample, or more with `PINION_LONG=1`.
fn moments() -> usize {
    if std::env::var_os("PINION_LONG").is_some() { 200 } else { 40 }
}

fn script(pinion: &Pinion) -> std::path::PathBuf {
    let mut replies: Vec<Value> = (0..12)
        .map(|n| {
            json!({
                "text": format!("step {n}"),
                "chunk": 3,
                "calls": [
                    { "tool": "write", "arguments": { "path": format!("{n}.txt"), "content": "x" } },
                    { "tool": "read", "arguments": { "path": format!("{n}.txt") } },
                ],
            })
        })
        .collect();
    replies.push(json!({ "text": "done" }));
    pinion.script(&replies)
}

/// Runs, kills after `lines` lines, and returns the events reported until then; `None` if the run had ended.
fn run_and_kill(pinion: &Pinion, lines: usize) -> Option<Vec<Value>> {
    let script = script(pinion);
    let file = pinion.home().join("session.jsonl");
    let mut child = pinion.start([
        "-p",
        "--approve",
        "all",
        "--output-format",
        "stream-json",
        "--replay",
        script.to_str().unwrap(),
        "--session",
        file.to_str().unwrap(),
        "go",
    ]);
    let mut shown = Vec::new();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in out.by_ref().take(lines) {
        shown.push(line.unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Includes the lines that were written before the kill. The last line may be incomplete.
    shown.extend(out.map_while(Result::ok));
    let events: Vec<Value> = shown.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_over = events.iter().any(|event| event["type"] == "result");
    let done = events.into_iter().filter(|event| event["type"] == "message_end").map(|event| event["message"].clone());
    (!is_over).then(|| done.collect())
}

#[test]
fn killed_run_loses_nothing_reported_and_session_continues() {
    let mut killed = 0;
    let moments = moments();
    for moment in 0..moments {
        let pinion = Pinion::default();
        // From before the first message to near the end.
        let Some(done) = run_and_kill(&pinion, 1 + moment * LINES / moments) else { continue };
        killed += 1;
        let file = pinion.home().join("session.jsonl");
        let script = pinion.script(&[json!({ "text": "going on" })]);
        let ended =
            pinion.run(["-p", "--replay", script.to_str().unwrap(), "--session", file.to_str().unwrap(), "go on"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "going on\n"), "moment {moment}: {ended:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        let kept: HashSet<String> =
            text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap()["data"].to_string()).collect();
        for message in done {
            assert!(kept.contains(&message.to_string()), "moment {moment} lost {message}");
        }
    }
    assert!(killed > moments / 2, "only {killed} runs were killed before their end");
}
