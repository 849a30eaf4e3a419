//! Changes of the user and of other sessions, which undo keeps.

use super::{CHOICE, bash, ids, read, rewind, run, shown, state, workspace, write};
use pinion_tests::{Pinion, Terminal, say, wait_until};
use std::process::{Child, Command};

#[test]
fn edits_of_the_user_are_kept_unless_forced_and_come_back() {
    let pinion = workspace();
    run(&pinion, &[write("a.txt", "two\n"), write("c.txt", "new\n"), say("done")], &["go"]);
    pinion.write("a.txt", "mine\n");
    pinion.write("mine.txt", "mine\n");
    let report = rewind(&pinion, &["--files-only"]);
    assert!(
        report.contains("! a.txt: changed by someone else") && report.contains("(--force restores it)"),
        "{report}"
    );
    let contents = || ["a.txt", "mine.txt", "c.txt"].map(|path| read(&pinion, path));
    assert_eq!(contents(), ["mine\n", "mine\n", "entity not found"]);
    rewind(&pinion, &["--files-only", "--force"]);
    assert_eq!(contents(), ["one\n", "mine\n", "entity not found"]);
    rewind(&pinion, &["--redo"]);
    assert_eq!(contents(), ["mine\n", "mine\n", "entity not found"]);
    assert!(shown(&pinion).contains("go"));
}

#[test]
fn edits_of_the_user_during_a_turn_are_kept() {
    let pinion = workspace();
    let before = state(&pinion.workspace());
    let script = pinion.script(&[write("a.txt", "two\n"), write("c.txt", "new\n"), bash("echo 2 > d"), say("done")]);
    let command = pinion.command(["--approve", "ask", "--replay", script.to_str().unwrap(), "go"]);
    let mut terminal = Terminal::start(&command, (80, 24), "");
    terminal.wait_for(CHOICE);
    terminal.keys("y");
    terminal.wait_for_nth(CHOICE, 2);
    // The agent waits for an answer.
    pinion.write("a.txt", "mine\n");
    pinion.write("mine.txt", "mine\n");
    terminal.keys("y");
    terminal.wait_for_nth(CHOICE, 3);
    terminal.keys("y");
    terminal.wait_for_then("done", "› ");
    let enter = |terminal: &mut Terminal, line: &str, shown: &str| {
        terminal.keys(&format!("{line}\r"));
        terminal.wait_for_then(shown, "› ");
    };
    enter(&mut terminal, "/diff", "+++ b/d");
    let (_, seen) = terminal.exit();
    assert!(seen.contains("+two") && !seen.contains("+mine"), "{seen}");
    assert!(seen.contains("Also changed by someone else"), "{seen}");
    let report = rewind(&pinion, &["--files-only"]);
    for part in ["! a.txt: changed by someone else", "! mine.txt: changed by someone else"] {
        assert!(report.contains(part), "{report}");
    }
    let contents = || ["a.txt", "mine.txt", "c.txt", "d"].map(|path| read(&pinion, path));
    assert_eq!(contents(), ["mine\n", "mine\n", "entity not found", "entity not found"]);
    rewind(&pinion, &["--redo"]);
    rewind(&pinion, &["--force"]);
    assert_eq!(state(&pinion.workspace()), before);
}

/// Starts a run whose program waits until [`go`] is called.
fn waiting(pinion: &Pinion, command: &str) -> Child {
    assert!(Command::new("mkfifo").arg(pinion.workspace().join("wait")).status().unwrap().success());
    let script = pinion.script(&[bash(&format!("{command}; touch begun; cat wait")), say("done")]);
    let child = pinion.start(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "wait"]);
    wait_until("the program runs", || pinion.workspace().join("begun").exists());
    child
}

/// Lets the program of a run go on, and waits for the end of the run.
fn go(pinion: &Pinion, mut child: Child) {
    pinion.write("wait", "");
    assert!(child.wait().unwrap().success());
}

#[test]
fn changes_of_another_session_at_the_same_time_are_conflicts() {
    let pinion = workspace();
    let child = waiting(&pinion, "echo before > own");
    let other = run(&pinion, &[write("a.txt", "other\n"), write("both", "other\n"), say("done")], &["other"]);
    assert!(other.stderr.contains("another session changed files of this directory"), "{other:?}");
    go(&pinion, child);
    let is_waiting = |id: &String| pinion.run(["session", "show", id]).stdout.contains("wait");
    let waiting = ids(&pinion).into_iter().find(is_waiting).unwrap();
    let report = rewind(&pinion, &[&waiting, "--files-only"]);
    for part in ["! a.txt: changed by someone else", "! both: changed by someone else", "remove  own"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let contents = || ["a.txt", "both", "own"].map(|path| read(&pinion, path));
    assert_eq!(contents(), ["other\n", "other\n", "entity not found"]);
    // Forced, it is undone, and comes back.
    rewind(&pinion, &[&waiting, "--redo"]);
    rewind(&pinion, &[&waiting, "--files-only", "--force"]);
    assert_eq!(contents(), ["one\n", "entity not found", "entity not found"]);
    rewind(&pinion, &[&waiting, "--redo"]);
    assert_eq!(contents(), ["other\n", "other\n", "before\n"]);
}

#[test]
fn undo_of_another_session_at_the_same_time_stays_undone() {
    let pinion = workspace();
    run(&pinion, &[write("a.txt", "first\n"), say("done")], &["first"]);
    let first = ids(&pinion).remove(0);
    let child = waiting(&pinion, "echo x > own");
    rewind(&pinion, &[&first]);
    go(&pinion, child);
    let report = rewind(&pinion, &["--files-only"]);
    assert!(report.contains("! a.txt: changed by someone else") && report.contains("remove  own"), "{report}");
    assert_eq!(["a.txt", "own"].map(|path| read(&pinion, path)), ["one\n", "entity not found"]);
}

#[test]
fn session_that_was_killed_does_not_work_at_the_same_time_for_ever() {
    let pinion = workspace();
    let mut child = waiting(&pinion, "echo x > own");
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = run(&pinion, &[write("a.txt", "two\n"), say("done")], &["next"]);
    assert!(!ended.stderr.contains("another session"), "{ended:?}");
    let report = rewind(&pinion, &[]);
    assert!(!report.contains("changed by someone else"), "{report}");
    assert_eq!(read(&pinion, "a.txt"), "one\n");
}
