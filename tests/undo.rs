//! Undo of what components and programs changed, through the command.

use crate::command::assert_error;
use pinion_tests::{Ended, Pinion, Terminal, call, say, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command};

/// The last row of a completely shown question; keys count from then on.
const CHOICE: &str = "always in this session";

fn run(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Ended {
    let script = pinion.script(replies);
    let ended = pinion.run(["-p", "--approve", "all", "--replay", script.to_str().unwrap()].iter().chain(more));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

fn rewind(pinion: &Pinion, more: &[&str]) -> String {
    let ended = pinion.run(["session", "rewind"].iter().chain(more));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

fn write(path: &str, content: &str) -> Value {
    call("write", json!({ "path": path, "content": content }))
}

fn bash(command: &str) -> Value {
    call("bash", json!({ "command": command }))
}

fn read(pinion: &Pinion, path: &str) -> String {
    fs::read_to_string(pinion.workspace().join(path)).unwrap_or_else(|error| error.kind().to_string())
}

/// Describes everything in a directory but its repository.
fn state(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if metadata.is_dir() {
                directories.extend(Some(path.clone()).filter(|path| !path.ends_with(".git")));
                format!("directory {:o}", metadata.mode())
            } else {
                format!("{:o} {:?}", metadata.mode(), fs::read(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), content);
        }
    }
    found
}

/// Returns the last session as text.
fn shown(pinion: &Pinion) -> String {
    let id = pinion.run(["session", "list"]).stdout[..8].to_owned();
    pinion.run(["session", "show", &id]).stdout
}

/// A workspace with files of all kinds.
fn workspace() -> Pinion {
    let pinion = Pinion::default();
    pinion.write("a.txt", "one\n");
    pinion.write("bin", [0, 255, 1]);
    pinion.write("script.sh", "true\n");
    pinion.write("gone/deep/file", "1");
    symlink("a.txt", pinion.workspace().join("link")).unwrap();
    fs::create_dir(pinion.workspace().join("empty")).unwrap();
    fs::set_permissions(pinion.workspace().join("script.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    pinion
}

const CHANGES: &str = "rm -rf gone empty; printf '\\000\\001' > bin; chmod 600 script.sh; ln -sf bin link; \
                       mkdir -p new/deep; echo x > new/deep/file; mv a.txt b.txt";

#[test]
fn work_of_components_and_programs_is_undone_and_redone() {
    let pinion = workspace();
    let before = state(&pinion.workspace());
    run(&pinion, &[write("a.txt", "two\n"), write("c/d.txt", "new\n"), bash(CHANGES), say("done")], &["do it"]);
    let after = state(&pinion.workspace());
    assert_ne!(before, after);
    let preview = rewind(&pinion, &["--dry-run"]);
    assert!(preview.contains("would undo 1 turn") && preview.contains("restore gone/deep/file"), "{preview}");
    assert_eq!(state(&pinion.workspace()), after);

    let report = rewind(&pinion, &[]);
    assert_eq!(state(&pinion.workspace()), before);
    assert!(
        report.contains("undone: 1 turn (files and conversation)") && report.contains("not undone: `.git`"),
        "{report}"
    );
    assert!(!shown(&pinion).contains("do it"));

    rewind(&pinion, &["--redo"]);
    assert_eq!(state(&pinion.workspace()), after);
    assert!(shown(&pinion).contains("do it"));
    assert_error(&pinion.run(["session", "rewind", "--redo"]), 1, &["nothing to redo"]);
}

#[test]
fn turns_are_undone_one_by_one_or_together() {
    let pinion = Pinion::default();
    run(&pinion, &[write("a", "1"), say("done")], &["first"]);
    run(&pinion, &[write("a", "2"), write("b", "2"), say("done")], &["-c", "second"]);
    run(&pinion, &[say("only talk")], &["-c", "third"]);
    rewind(&pinion, &["--turns", "2"]);
    assert_eq!((read(&pinion, "a"), pinion.workspace().join("b").exists()), ("1".to_owned(), false));
    let kept = shown(&pinion);
    assert!(kept.contains("first") && !kept.contains("second"), "{kept}");
    run(&pinion, &[write("a", "3"), say("done")], &["-c", "instead"]);
    rewind(&pinion, &[]);
    rewind(&pinion, &[]);
    assert!(!pinion.workspace().join("a").exists());
    assert_error(&pinion.run(["session", "rewind"]), 1, &["nothing to undo"]);
    // Nothing is deleted: the branches are still in the session.
    let id = pinion.run(["session", "list"]).stdout[..8].to_owned();
    let exported = pinion.run(["session", "export", &id, "--format", "markdown"]).stdout;
    assert!(["first", "second", "third", "instead"].iter().all(|prompt| exported.contains(prompt)), "{exported}");
}

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
fn ignored_files_that_components_write_are_undone() {
    let pinion = Pinion::default();
    pinion.write(".gitignore", ".env\nbuild/\n");
    pinion.write(".env", "KEY=1\n");
    pinion.write("build/kept", "1");
    let before = state(&pinion.workspace());
    let replies = [
        write("a", "1"),
        write(".env", "KEY=2\n"),
        write("build/new", "1"),
        write("build/kept", "2"),
        bash("rm .env"),
        say("done"),
    ];
    run(&pinion, &replies, &["go"]);
    assert_eq!(read(&pinion, "build/kept"), "2");
    rewind(&pinion, &[]);
    assert_eq!(state(&pinion.workspace()), before);
}

#[test]
fn conversation_alone_leaves_files() {
    let pinion = Pinion::default();
    run(&pinion, &[write("a", "1"), say("done")], &["go"]);
    rewind(&pinion, &["--conversation-only"]);
    assert_eq!(read(&pinion, "a"), "1");
    assert!(!shown(&pinion).contains("go"));
}

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
fn work_of_a_killed_host_is_undone() {
    let pinion = workspace();
    let before = state(&pinion.workspace());
    let script = pinion.script(&[bash(&format!("{CHANGES}; touch begun; exec sleep 1000"))]);
    let mut child = pinion.start(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    wait_until("the program runs", || pinion.workspace().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // Nobody knows which changes came after the kill.
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
        seen.contains("not be undone completely: undo does not cover `a.txt` and 1 oth")
            && !seen.contains("asked because"),
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
    // The prompt comes back into the line.
    terminal.wait_for_then("undone: 1 turn", "› first");
    terminal.keys("\u{15}");
    terminal.exit();
    assert!(!pinion.workspace().join("a").exists());
    assert!(fs::read_to_string(pinion.workspace().join("s.jsonl")).unwrap().lines().count() > lines);
}

#[test]
fn conversation_undoes_lists_and_compares() {
    let pinion = workspace();
    let script =
        pinion.script(&[write("a.txt", "two\n"), say("reply 1"), bash(CHANGES), say("reply 2"), say("reply 3")]);
    let command = pinion.command(["--approve", "all", "--replay", script.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, (100, 40), "");
    terminal.wait_for("› ");
    let mut enter = |line: &str, shown: &str| {
        terminal.keys(&format!("{line}\r"));
        terminal.wait_for_then(shown, "› ");
    };
    let before = state(&pinion.workspace());
    enter("change a", "reply 1");
    let middle = state(&pinion.workspace());
    enter("/diff", "+two");
    enter("change all", "reply 2");
    let after = state(&pinion.workspace());
    enter("/diff session", "new/deep/file");
    enter("/rewind", "1 file  change a");
    enter("/rewind 7", "cannot undo 7 turns");
    // The prompt comes back into the line, and is discarded.
    enter("/undo", "undone: 1 turn");
    assert_eq!(state(&pinion.workspace()), middle);
    enter("\u{15}/redo", "redone: 1 turn");
    assert_eq!(state(&pinion.workspace()), after);
    enter("/rewind 2", "undone: 2 turns");
    assert_eq!(state(&pinion.workspace()), before);
    enter("\u{15}from here", "reply 3");
    terminal.exit();
    let shown = shown(&pinion);
    assert!(shown.contains("from here") && !shown.contains("change a"), "{shown}");
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

/// Runs the command in another directory.
fn run_in(pinion: &Pinion, directory: &Path, arguments: &[&str]) -> Ended {
    let output = pinion.command(arguments).current_dir(directory).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn ids(pinion: &Pinion) -> Vec<String> {
    let listed = pinion.run(["session", "list"]).stdout;
    listed.lines().filter_map(|line| line.get(..8).map(str::to_owned)).collect()
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
