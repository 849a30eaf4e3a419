//! Files that undo leaves alone or does not cover, and its reports of them.

use super::{CHOICE, bash, ids, read, rewind, run, state, workspace, write};
use crate::product::command::assert_error;
use pinion_tests::{Ended, Pinion, Terminal, call, say};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=n", "-c", "user.email=e@example.com", "-C", directory.to_str().unwrap()]);
    let output = git.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn repository_of_a_worktree_stays_as_it_is() {
    let pinion = Pinion::default();
    let main = pinion.workspace().join("../main");
    fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q"]);
    fs::write(main.join("tracked"), "1\n").unwrap();
    fs::write(main.join(".gitignore"), "target/\n").unwrap();
    git(&main, &["add", "."]);
    git(&main, &["commit", "-qm", "first"]);
    git(&main, &["worktree", "add", "-q", pinion.workspace().to_str().unwrap()]);
    pinion.write("untracked", "1\n");
    pinion.write("target/out", "1\n");
    let before = state(&pinion.workspace());
    run(&pinion, &[bash("echo 2 > tracked; rm untracked; echo 2 > target/out; echo 2 > added"), say("done")], &["go"]);
    git(&pinion.workspace(), &["add", "added"]);
    let repository = main.join(".git/worktrees/work");
    let git_state =
        || (state(&repository), state(&main.join(".git/refs")), fs::read(pinion.workspace().join(".git")).unwrap());
    let of_git = git_state();
    rewind(&pinion, &[]);
    assert_eq!(git_state(), of_git);
    assert_eq!(read(&pinion, "target/out"), "2\n");
    pinion.write("target/out", "1\n");
    assert_eq!(state(&pinion.workspace()), before);
}

#[test]
fn refs_that_the_agent_moved_are_named_with_the_commands() {
    let pinion = Pinion::default();
    let work = pinion.workspace();
    git(&work, &["init", "-q", "-b", "main"]);
    git(&work, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&work, &["branch", "other"]);
    let old = git(&work, &["rev-parse", "main"]).trim().to_owned();
    let change = "git -c user.name=n -c user.email=e commit -q --allow-empty -m x; git branch -D other";
    let script = pinion.script(&[bash(change), say("reply 1")]);
    let command = pinion.command(["--approve", "all", "--replay", script.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, (120, 40), "");
    terminal.wait_for("› ");
    for (line, shown) in [("change refs", "reply 1"), ("/diff", "→ nothing"), ("/rewind", "0 files, 2 refs of git")] {
        terminal.keys(&format!("{line}\r"));
        terminal.wait_for_then(shown, "› ");
    }
    terminal.exit();
    let report = rewind(&pinion, &[]);
    for (name, verb) in [("main", "moved"), ("other", "removed")] {
        let named = format!("! refs/heads/{name} was {verb}; to restore it: git update-ref refs/heads/{name} {old}\n");
        assert!(report.contains(&named), "{report}");
    }
    for name in ["main", "other"] {
        git(&work, &["update-ref", &format!("refs/heads/{name}"), &old]);
    }
    assert!(!rewind(&pinion, &["--redo"]).contains("update-ref"));
}

#[test]
fn missing_checkpoints_are_named() {
    let pinion = workspace();
    pinion.config("[undo]\nmax-files = 2\n");
    let ended = run(&pinion, &[write("a.txt", "two\n"), say("done")], &["go"]);
    assert!(ended.stderr.contains("this turn cannot be undone: more than 2 files"), "{ended:?}");
    pinion.config("");
    let ended = pinion.run(["session", "rewind", "--files-only"]);
    assert_error(&ended, 1, &["not all files could be restored"]);
    assert!(ended.stdout.contains("! a turn has no checkpoint: more than 2 files"), "{ended:?}");
    assert!(ended.stdout.contains("undone: 1 turn (not all files)"), "{ended:?}");
    pinion.config("[undo]\nmax-file-bytes = 3\n");
    let ended = run(&pinion, &[write("a.txt", "three\n"), say("done")], &["go"]);
    assert!(ended.stderr.contains("undo does not cover `a.txt` and 1 other file: larger than"), "{ended:?}");
}

#[test]
fn call_that_cannot_be_undone_is_asked_about_once_in_a_turn() {
    let pinion = workspace();
    pinion.config("[undo]\nmax-files = 2\n");
    let replies = [write("a.txt", "two\n"), write("c.txt", "new\n"), say("done")];
    let script = pinion.script(&replies);
    let smart = ["--approve", "smart", "--replay", script.to_str().unwrap()];
    let ended = pinion.run(["-p", "go"].iter().chain(&smart));
    assert!(ended.stderr.contains("this call cannot be undone, because there is no checkpoint"), "{ended:?}");
    assert_eq!((read(&pinion, "a.txt").as_str(), read(&pinion, "c.txt").as_str()), ("one\n", "entity not found"));

    let mut terminal = Terminal::start(&pinion.command(smart.iter().chain(&["go"])), (80, 24), "");
    let seen = terminal.wait_for(CHOICE);
    assert!(seen.contains("cannot be undone, because there is no checkpoint: more than 2"), "{seen}");
    terminal.keys("y");
    terminal.wait_for_then("done", "› ");
    let (_, seen) = terminal.exit();
    assert_eq!(seen.matches(CHOICE).count(), 1, "{seen}");
    assert_eq!((read(&pinion, "a.txt").as_str(), read(&pinion, "c.txt").as_str()), ("two\n", "new\n"));
}

#[test]
fn program_that_can_change_what_undo_does_not_cover_is_asked_about_once() {
    let pinion = workspace();
    pinion.config("[undo]\nmax-file-bytes = 3\n");
    let script = pinion.script(&[bash("true"), bash("echo 2 > d"), say("reply 1"), bash("true"), say("reply 2")]);
    let command = pinion.command(["--approve", "smart", "--replay", script.to_str().unwrap(), "go"]);
    let mut terminal = Terminal::start(&command, (80, 24), "");
    let seen = terminal.wait_for(CHOICE);
    assert!(
        // The rest of the sentence is in the next row.
        seen.contains("not be undone completely: undo does not cover `a.txt` and 1") && !seen.contains("asked because"),
        "{seen}"
    );
    terminal.keys("y");
    terminal.wait_for_then("reply 1", "› ");
    terminal.keys("again\r");
    terminal.wait_for_then("reply 2", "› ");
    let (_, seen) = terminal.exit();
    assert_eq!(seen.matches(CHOICE).count(), 1, "{seen}");
    assert_eq!(read(&pinion, "d"), "2\n");
}

#[test]
fn checkpoints_can_be_turned_off() {
    let pinion = workspace();
    pinion.config("[undo]\nenabled = false\n");
    run(&pinion, &[write("a.txt", "two\n"), say("done")], &["go"]);
    assert!(!pinion.home().join("checkpoints").exists());
    assert_error(&pinion.run(["session", "rewind"]), 1, &["checkpoints are off", "--conversation-only"]);
}

#[test]
fn turns_without_changes_take_no_checkpoint() {
    let pinion = workspace();
    run(&pinion, &[call("read", json!({ "path": "a.txt" })), say("done")], &["go"]);
    assert!(!pinion.home().join("checkpoints").exists());
}

#[test]
fn session_file_in_the_workspace_is_not_restored() {
    let pinion = Pinion::default();
    run(&pinion, &[write("a", "1"), say("done")], &["--session", "s.jsonl", "first"]);
    let lines = fs::read_to_string(pinion.workspace().join("s.jsonl")).unwrap().lines().count();
    let script = pinion.script(&[]);
    let resumed = ["--approve", "all", "--replay", script.to_str().unwrap(), "--session", "s.jsonl"];
    let mut terminal = Terminal::start(&pinion.command(resumed), (80, 24), "");
    terminal.wait_for("› ");
    terminal.keys("/undo\r");
    terminal.wait_for_then("undone: 1 turn", "↑ brings the message back");
    terminal.exit();
    assert!(!pinion.workspace().join("a").exists());
    assert!(fs::read_to_string(pinion.workspace().join("s.jsonl")).unwrap().lines().count() > lines);
}

/// Runs the command in another directory.
fn run_in(pinion: &Pinion, directory: &Path, arguments: &[&str]) -> Ended {
    let output = pinion.command(arguments).current_dir(directory).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn moved_workspace_is_named_with_a_hint() {
    let pinion = workspace();
    run(&pinion, &[write("a.txt", "two\n"), say("done")], &["go"]);
    let id = ids(&pinion).remove(0);
    let (here, there) = (pinion.workspace(), pinion.workspace().with_extension("moved"));
    fs::rename(&here, &there).unwrap();
    let moved = run_in(&pinion, &there, &["session", "rewind", &id]);
    assert_error(&moved, 1, &["does not exist, so files cannot be restored", "move it back", "--conversation-only"]);
    let unnamed = run_in(&pinion, &there, &["session", "rewind"]);
    assert_error(&unnamed, 2, &["no session in this directory", "if the directory was moved"]);
    // Another directory is in its place.
    fs::create_dir(&here).unwrap();
    pinion.write("a.txt", "two\n");
    let replaced = pinion.run(["session", "rewind", &id, "--files-only"]);
    assert_error(&replaced, 1, &["not all files could be restored"]);
    assert!(replaced.stdout.contains("was moved or removed since") && replaced.stdout.contains("hint: move it back"));
    assert_eq!(read(&pinion, "a.txt"), "two\n");
    fs::remove_dir_all(&here).unwrap();
    fs::rename(&there, &here).unwrap();
    rewind(&pinion, &[&id]);
    assert_eq!(read(&pinion, "a.txt"), "one\n");
}
