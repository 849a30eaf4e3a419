//! The calls of a session one by one, and the search for the first call after which a command fails.

use crate::product::command::assert_error;
use pinion_tests::{Ended, Pinion, Terminal, call, say};
use serde_json::{Value, json};
use std::fs;

const RECORDED: &str = "journal = \"on\"\n";

/// Runs a prompt with scripted replies and returns the id of its session.
fn run(pinion: &Pinion, replies: &[Value]) -> String {
    let script = pinion.script(replies);
    let arguments = ["-p", "--approve", "all", "--max-turns", "0", "--output-format", "json", "--replay"];
    let ended = pinion.run(arguments.iter().copied().chain([script.to_str().unwrap(), "go"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    result["session_id"].as_str().unwrap().to_owned()
}

fn write(path: &str, content: &str) -> Value {
    call("write", json!({ "path": path, "content": content }))
}

fn bash(command: &str) -> Value {
    call("bash", json!({ "command": command }))
}

fn read(path: &str) -> Value {
    call("read", json!({ "path": path }))
}

fn bisect(pinion: &Pinion, session: &str, command: &[&str]) -> Ended {
    pinion.run(["session", "bisect", session, "--"].iter().chain(command))
}

/// A session in which the eighteenth of forty calls breaks a file.
fn session_of_forty_calls(pinion: &Pinion) -> String {
    pinion.config(RECORDED);
    pinion.write("total", "0\n");
    let reply = |number: usize| match number {
        18 => bash("echo broken > total; mkdir -p deep; chmod 700 deep; echo 1 > deep/file"),
        number if number % 3 == 0 => read("total"),
        number if number > 18 && number % 4 == 0 => bash(&format!("echo {number} > when")),
        number => write(&format!("files/{number}"), &format!("{number}\n")),
    };
    let replies: Vec<Value> = (1..=40).map(reply).chain([say("done")]).collect();
    run(pinion, &replies)
}

#[test]
fn first_failing_call_is_found_without_a_change_of_the_workspace() {
    let pinion = Pinion::default();
    let session = session_of_forty_calls(&pinion);
    pinion.write("total", "mine\n");
    // Each run leaves something that would mislead the next one.
    let test = "test ! -e left && touch left && grep -q '^[0-9]' total";
    let ended = pinion.run(["session", "bisect", &session, "--output-format", "json", "--", "sh", "-c", test]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["call"], &report["tool"]), (&json!(18), &json!("bash")), "{report:#}");
    assert!(report["runs"].as_u64().unwrap() <= 9, "{report:#}");
    assert!(report["arguments"].as_str().unwrap().contains("echo broken"), "{report:#}");
    let diff = report["diff"].as_str().unwrap();
    assert!(diff.contains("-0\n+broken") && diff.contains("+++ b/deep/file"), "{diff}");
    assert_eq!(fs::read_to_string(pinion.workspace().join("total")).unwrap(), "mine\n");
    assert!(!pinion.workspace().join("left").exists());
    let text = bisect(&pinion, &session, &["grep", "-q", "0", "total"]);
    assert!(text.code == Some(0) && text.stdout.starts_with("the command fails after call 18 ("), "{text:?}");
    assert!(text.stdout.contains("\n    +broken\n") && text.stderr.contains("run 1: fails after call 40"), "{text:?}");
}

#[test]
fn command_runs_in_the_sandbox_and_cannot_reach_the_workspace() {
    let pinion = Pinion::default();
    pinion.config(RECORDED);
    let session = run(&pinion, &[write("a", "1\n"), write("a", "2\n"), say("done")]);
    let workspace = pinion.workspace().canonicalize().unwrap();
    let test = format!("echo x > '{}/reached'; pwd; ! grep -q 2 a", workspace.display());
    let ended = bisect(&pinion, &session, &["sh", "-c", &test]);
    assert!(ended.code == Some(0) && ended.stdout.contains("after call 2"), "{ended:?}");
    assert!(!workspace.join("reached").exists() && ended.stderr.contains("pinion-bisect-"), "{ended:?}");
}

#[test]
fn search_without_a_result_says_why() {
    let pinion = Pinion::default();
    let replies = [write("a", "1\n"), write("a", "2\n"), read("a"), write("a", "3\n"), say("done")];
    let unrecorded = run(&pinion, &replies);
    let ended = bisect(&pinion, &unrecorded, &["true"]);
    assert_error(&ended, 2, &["has no snapshots around its calls", "pinion config set journal on"]);
    pinion.config(RECORDED);
    fs::remove_file(pinion.workspace().join("a")).unwrap();
    let session = run(&pinion, &replies);
    let cases: [(&[&str], &str); 5] = [
        (&["false"], "fails before the first call"),
        (&["true"], "succeeds after the last call"),
        (&["sh", "-c", "exit 125"], "cannot decide after the last call"),
        (&["sh", "-c", "grep -q 2 a && exit 125; ! grep -q 3 a"], "succeeds after call 1 and fails after call 4"),
        (&["no-such-program"], "`no-such-program` could not be run after call 4"),
    ];
    for (command, problem) in cases {
        assert_error(&bisect(&pinion, &session, command), 1, &[problem]);
    }
    let unchanged = run(&pinion, &[bash("true"), say("done")]);
    assert_error(&bisect(&pinion, &unchanged, &["true"]), 1, &["no call of the session changed files"]);
    let trees = pinion.home().join("checkpoints");
    for store in fs::read_dir(trees).unwrap() {
        fs::remove_dir_all(store.unwrap().path().join("trees")).unwrap();
    }
    assert_error(&bisect(&pinion, &session, &["true"]), 1, &["are not kept any more", "`days`"]);
}

#[test]
fn concurrent_calls_share_no_change() {
    let pinion = Pinion::default();
    pinion.config(RECORDED);
    let arguments = |name: &str| json!({ "path": name, "content": format!("{name}\n") });
    let calls: Vec<Value> =
        ["a", "b", "c"].iter().map(|name| json!({ "tool": "write", "arguments": arguments(name) })).collect();
    let session = run(&pinion, &[json!({ "calls": calls }), say("done")]);
    let ended = pinion.run(["session", "step", &session]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let counted = |part: &str| ended.stdout.matches(part).count();
    assert_eq!(counted(" changed:\n") + counted("  no files changed\n"), 3, "{ended:?}");
    for name in ["a", "b", "c"] {
        assert_eq!(counted(&format!("+++ b/{name}\n")), 1, "{ended:?}");
        let ended = bisect(&pinion, &session, &["test", "!", "-e", name]);
        assert!(ended.code == Some(0) && ended.stdout.contains(&format!("+++ b/{name}\n")), "{ended:?}");
    }
}

#[test]
fn changes_between_calls_belong_to_no_call() {
    let pinion = Pinion::default();
    pinion.config(RECORDED);
    let session = run(&pinion, &[write("a", "1\n"), say("done")]);
    pinion.write("mine", "broken\n");
    let script = pinion.script(&[write("b", "2\n"), say("done")]);
    let ended = pinion.run(["-p", "-c", "--approve", "all", "--replay", script.to_str().unwrap(), "more"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = bisect(&pinion, &session, &["test", "!", "-e", "mine"]);
    assert!(ended.code == Some(0) && ended.stdout.contains("fails before call 2"), "{ended:?}");
}

#[test]
fn calls_are_shown_with_their_imports_and_changes() {
    let pinion = Pinion::default();
    pinion.config(RECORDED);
    pinion.write("a.txt", "one\u{1b}[2J\n");
    let edit = call("edit", json!({ "path": "a.txt", "edits": [{ "old_text": "one", "new_text": "two" }] }));
    let task = call("task", json!({ "prompt": "Write." }));
    let session = run(&pinion, &[read("a.txt"), edit, task, write("b.txt", "2\n"), say("written"), say("done")]);
    let ended = pinion.run(["session", "step", &session]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let shown = &ended.stdout;
    for part in [
        "call 1: read {\"path\":\"a.txt\"}\n  result:\n",
        "of plugin fs:\n",
        "wasi:filesystem/types#",
        "call 2: edit ",
        "  1 path changed:\n    --- a/a.txt\n    +++ b/a.txt\n",
        "call 3: write {",
        "  call of a sub-agent or of another call\n",
        "call 4: task ",
    ] {
        assert!(shown.contains(part), "`{part}` is missing: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    let command = pinion.command(["session", "step", &session]);
    let mut terminal = Terminal::start(&command, (100, 40), "");
    terminal.wait_for_then("call 1: read", "[q]uit");
    terminal.keys("n\r");
    terminal.wait_for_then("call 2: edit", "[q]uit");
    terminal.keys("4\r");
    terminal.wait_for_then("call 4: task", "[q]uit");
    terminal.keys("\r");
    terminal.wait_for_then("this is the last call", "[q]uit");
    terminal.keys("p\r");
    terminal.wait_for_then("call 3: write", "[q]uit");
    terminal.keys("q\r");
    assert_eq!(terminal.exit().0, Some(0));
}

#[test]
fn session_without_a_journal_is_shown_without_imports() {
    let pinion = Pinion::default();
    let session = run(&pinion, &[write("a", "1\n"), say("done")]);
    let ended = pinion.run(["session", "step", &session]);
    assert!(ended.code == Some(0) && ended.stderr.contains("has no journal"), "{ended:?}");
    assert!(ended.stdout.starts_with("call 1: write ") && !ended.stdout.contains("import"), "{ended:?}");
}
