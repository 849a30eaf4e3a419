//! Kills of the host, of a run and of an undo, and a disk that is full.

use super::{CHANGES, bash, read, rewind, run, shown, state, workspace, write};
use crate::product::command::assert_error;
use pinion_tests::{Pinion, say, wait_until};
use std::fs;
use std::process::Command;

#[test]
fn work_of_a_killed_host_is_undone() {
    let pinion = workspace();
    let before = state(&pinion.workspace());
    let script = pinion.script(&[bash(&format!("{CHANGES}; touch begun; exec sleep 1000"))]);
    let mut child = pinion.start(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    wait_until("the program runs", || pinion.workspace().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // It is unknown which changes came after the kill.
    pinion.write("mine.txt", "mine\n");
    let ended = pinion.run(["session", "rewind"]);
    assert_error(&ended, 1, &["not all files could be restored"]);
    for part in ["! mine.txt: changed by someone else", "`/redo`, then `/undo --force`", "the agent was interrupted"] {
        assert!(ended.stdout.contains(part), "{ended:?}");
    }
    assert_eq!(read(&pinion, "mine.txt"), "mine\n");
    rewind(&pinion, &["--redo"]);
    fs::remove_file(pinion.workspace().join("mine.txt")).unwrap();
    rewind(&pinion, &["--force"]);
    assert_eq!(state(&pinion.workspace()), before);
}

#[test]
fn protected_path_that_a_program_of_a_killed_host_created_is_moved_away() {
    let pinion = workspace();
    let script = pinion.script(&[bash("mkdir .vscode; echo x > .vscode/tasks.json; touch begun; exec sleep 1000")]);
    let mut child = pinion.start(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    wait_until("the program runs", || pinion.workspace().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let reports = || {
        let notes = fs::read_dir(pinion.home().join("removed/running")).into_iter().flatten().flatten();
        notes.filter(|note| note.file_name().to_string_lossy().starts_with("report-")).count()
    };
    wait_until("the guard has cleaned up", || reports() == 1);
    assert!(!pinion.workspace().join(".vscode").exists());
    // The user's own, from now on.
    pinion.write(".vscode/tasks.json", "mine");
    let ended = run(&pinion, &[say("done")], &["next"]);
    assert!(ended.stderr.contains("/.vscode` is protected, and what the program created there is now"), "{ended:?}");
    assert!(pinion.workspace().join(".vscode/tasks.json").exists());
    assert!(!run(&pinion, &[say("done")], &["next"]).stderr.contains("protected"));
}

#[test]
fn edits_after_an_interrupted_turn_are_kept_by_later_undos() {
    let pinion = workspace();
    let script = pinion.script(&[bash("echo x > agent; touch begun; exec sleep 1000")]);
    let mut child = pinion.start(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    wait_until("the program runs", || pinion.workspace().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    run(&pinion, &[write("next", "1"), say("done")], &["-c", "next"]);
    pinion.write("mine.txt", "mine\n");
    rewind(&pinion, &["--turns", "2", "--force"]);
    let contents = ["agent", "next", "mine.txt"].map(|path| read(&pinion, path));
    assert_eq!(contents, ["entity not found", "entity not found", "mine\n"]);
}

#[test]
fn undo_that_is_killed_is_completed_by_the_next_start() {
    let pinion = Pinion::default();
    for number in 0..300 {
        pinion.write(&format!("many/{number}"), "1");
    }
    let before = state(&pinion.workspace());
    run(&pinion, &[bash("rm -rf many; echo x > new"), say("done")], &["do it"]);
    let after = state(&pinion.workspace());
    let checkpoints = pinion.home().join("checkpoints");
    let is_restoring = || {
        let mut stores = fs::read_dir(&checkpoints).unwrap();
        stores.any(|store| store.unwrap().path().join("restoration").exists())
    };
    let mut child = pinion.start(["session", "rewind"]);
    // Watched without a pause, because a restoration takes a few milliseconds.
    while !is_restoring() && child.try_wait().unwrap().is_none() {}
    child.kill().unwrap();
    child.wait().unwrap();
    let was_killed = is_restoring();
    // A preview completes nothing.
    let was_pending = was_killed && pinion.run(["session", "rewind", "--dry-run"]).code == Some(1);
    assert_eq!((was_pending, is_restoring()), (was_killed, was_killed));
    let next = run(&pinion, &[say("hello")], &["-c", "next"]);
    let was_completed = next.stderr.contains("completed an undo that was interrupted");
    assert!(was_killed || !was_completed, "{next:?}");
    // Either all of it happened or, if the conversation had not moved yet, nothing.
    let is_undone = state(&pinion.workspace()) == before;
    assert!(is_undone || state(&pinion.workspace()) == after, "{next:?}");
    assert_eq!((shown(&pinion).contains("do it"), was_completed), (!is_undone, was_killed && is_undone));
    assert_ne!(before, after);
}

#[test]
fn full_disk_changes_nothing_and_the_undo_can_be_repeated() {
    let pinion = Pinion::default();
    pinion.write("large", vec![b'x'; 50_000]);
    let before = state(&pinion.workspace());
    run(&pinion, &[bash("rm large; head -c 40000 /dev/zero > other"), say("done")], &["go"]);
    let after = state(&pinion.workspace());
    pinion.write("other", vec![b'y'; 40_000]);
    let mut limited = Command::new("prlimit");
    let command = pinion.command(["session", "rewind"]);
    limited.arg("--fsize=20000").arg(command.get_program()).args(command.get_args()).current_dir(pinion.workspace());
    limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && error.contains("cannot restore files"), "{output:?}");
    assert_eq!(read(&pinion, "large"), "entity not found");
    fs::write(pinion.workspace().join("other"), vec![0; 40_000]).unwrap();
    assert_eq!(state(&pinion.workspace()), after);
    rewind(&pinion, &[]);
    assert_eq!(state(&pinion.workspace()), before);
}
