//! Calls of a sub-agent in a copy of the directory that try to reach the original. Each part that depends on the
//! directory of a run has an attack: paths, links, rules, excluded files, programs, plugins, and the files that a kill
//! leaves.

use pinion_tests::{Ended, Pinion, call, say};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

const WRITER: &str = "[agents.kinds.writer]\ndescription = \"writes\"\ndirectory = \"copy\"\n";

fn writer() -> Value {
    call("task", json!({ "prompt": "do it", "agent": "writer" }))
}

fn write(path: &str, content: &str) -> Value {
    call("write", json!({ "path": path, "content": content }))
}

fn bash(command: &str) -> Value {
    call("bash", json!({ "command": command }))
}

/// Runs a sub-agent that makes calls in a copy. Returns the result, with the sub-agent's session on stdout.
fn run(pinion: &Pinion, calls: &[Value], more: &[Value]) -> Ended {
    let work = calls.iter().cloned().chain([say("tried")]);
    let replies: Vec<Value> =
        [writer()].into_iter().chain(work).chain(more.iter().cloned()).chain([say("end")]).collect();
    let script = pinion.script(&replies);
    let ended = pinion.run(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

/// Returns all text of all sessions.
fn sessions(pinion: &Pinion) -> String {
    let (mut text, mut left) = (String::new(), vec![pinion.home().join("sessions")]);
    while let Some(path) = left.pop() {
        match path.is_dir() {
            true => left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => text.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap())),
        }
    }
    text
}

fn read(pinion: &Pinion, path: &str) -> String {
    fs::read_to_string(pinion.workspace().join(path)).unwrap_or_else(|error| error.kind().to_string())
}

/// Returns the id of the sub-agent's run from the note about its changes.
fn run_in(text: &str) -> String {
    let at = text.find("with run `").expect("a note about changes") + "with run `".len();
    text[at..].split('`').next().unwrap().to_owned()
}

fn copies(pinion: &Pinion) -> Vec<PathBuf> {
    let entries = fs::read_dir(pinion.home().join("agent-copies")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn workspace() -> Pinion {
    let pinion = Pinion::default();
    pinion.config(WRITER);
    pinion.write("a.txt", "one\n");
    pinion
}

#[test]
fn work_in_a_copy_changes_nothing_and_leaves_no_copy() {
    let pinion = workspace();
    pinion.write("b.txt", "one\n");
    run(&pinion, &[write("a.txt", "two\n"), bash("cat b.txt > c.txt && rm b.txt")], &[]);
    assert_eq!([read(&pinion, "a.txt"), read(&pinion, "b.txt")], ["one\n", "one\n"]);
    assert!(!pinion.workspace().join("c.txt").exists());
    assert!(sessions(&pinion).contains("changed 3 paths there"));
    assert_eq!(copies(&pinion), Vec::<PathBuf>::new());
}

#[test]
fn absolute_paths_and_links_do_not_reach_the_original() {
    let pinion = workspace();
    let original = pinion.workspace().join("a.txt");
    symlink(&original, pinion.workspace().join("link")).unwrap();
    let path = original.to_str().unwrap();
    let calls = [
        write(path, "two\n"),
        write("link", "two\n"),
        call("read", json!({ "path": path })),
        call("read", json!({ "path": "link" })),
        call("read", json!({ "path": "../../../../work/a.txt" })),
    ];
    run(&pinion, &calls, &[]);
    assert_eq!(read(&pinion, "a.txt"), "one\n");
    assert!(!sessions(&pinion).contains("one\\n"), "nothing was read");
}

#[test]
fn programs_neither_see_nor_change_the_original() {
    let pinion = workspace();
    pinion.config(&format!("{WRITER}[sandbox]\nwritable = [{:?}]\n", pinion.workspace().join("out")));
    pinion.write("out/x", "one\n");
    let original = pinion.workspace();
    let original = original.display();
    let calls = [
        bash(&format!(
            "echo two > {original}/a.txt; echo two > {original}/out/x; cat {original}/a.txt {original}/out/x"
        )),
        bash(&format!("ln -s {original} up; echo two > up/a.txt; cat up/a.txt")),
        bash(&format!("echo 'gitdir: {original}/.git' > .git; cd {original} && echo two > a.txt")),
    ];
    run(&pinion, &calls, &[]);
    assert_eq!([read(&pinion, "a.txt"), read(&pinion, "out/x")], ["one\n", "one\n"]);
    assert!(!sessions(&pinion).contains("one\\n"), "nothing was read");
}

#[test]
fn rules_and_exclusions_of_the_original_hold_in_the_copy() {
    let pinion = workspace();
    let denied = pinion.workspace().join("denied.txt");
    let rules = format!("[permissions]\ndeny = [\"read:{}\", \"date\"]\n", denied.display());
    pinion.config(&format!("exclude = [\"*.key\"]\n{WRITER}{rules}"));
    pinion.write("denied.txt", "secret-1");
    pinion.write("x.key", "secret-2");
    let calls = [
        call("read", json!({ "path": "denied.txt" })),
        call("read", json!({ "path": "x.key" })),
        bash("cat denied.txt x.key; ls"),
        // Also for a new file of the name.
        bash("printf new-secret > y.key"),
        call("read", json!({ "path": "y.key" })),
        bash("date"),
    ];
    run(&pinion, &calls, &[]);
    let text = sessions(&pinion);
    assert!(!text.contains("secret-1") && !text.contains("secret-2"));
    assert!(text.contains("`date` was not run"), "{text}");
    assert_eq!([read(&pinion, "denied.txt"), read(&pinion, "x.key")], ["secret-1", "secret-2"]);
}

#[test]
fn applied_changes_are_the_agents_and_are_undone() {
    let pinion = workspace();
    run(&pinion, &[write("a.txt", "two\n"), write("new/b", "1")], &[]);
    let id = run_in(&sessions(&pinion));
    let replies = [
        call("agent_changes", json!({ "run": id })),
        call("apply_agent_changes", json!({ "run": id })),
        say("applied"),
    ];
    let script = pinion.script(&replies);
    let ended = pinion.run(["-p", "-c", "--approve", "all", "--replay", script.to_str().unwrap(), "apply"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!([read(&pinion, "a.txt"), read(&pinion, "new/b")], ["two\n", "1"]);
    assert!(sessions(&pinion).contains("+two"));
    let ended = pinion.run(["session", "rewind"]);
    assert_eq!((ended.code, read(&pinion, "a.txt")), (Some(0), "one\n".to_owned()), "{ended:?}");
    assert!(!pinion.workspace().join("new").exists());
}

#[test]
fn conflicts_and_rules_keep_changes_from_being_applied() {
    let pinion = workspace();
    run(&pinion, &[write("a.txt", "two\n"), write("locked", "1")], &[]);
    let id = run_in(&sessions(&pinion));
    let apply = |config: &str, expected: &str| {
        pinion.config(&format!("{WRITER}{config}"));
        let script = pinion.script(&[call("apply_agent_changes", json!({ "run": id })), say("tried")]);
        let ended = pinion.run(["-p", "-c", "--approve", "all", "--replay", script.to_str().unwrap(), "apply"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(sessions(&pinion).contains(expected), "{expected}");
        assert!(!pinion.workspace().join("locked").exists());
    };
    apply("[permissions]\ndeny = [\"write:locked\"]\n", "the rule `write:locked`");
    pinion.write("a.txt", "mine\n");
    apply("", "changed here since the copy: `a.txt`");
    assert_eq!(read(&pinion, "a.txt"), "mine\n");
}

#[test]
fn repository_and_settings_are_neither_copied_nor_applied() {
    let pinion = workspace();
    pinion.write(".git/config", "[core]\n");
    pinion.write(".pinion/config.toml", "");
    let calls = [
        bash(
            "ls -a > listed; mkdir -p .git/hooks .pinion; echo x > .git/hooks/pre-commit; echo x > .pinion/config.toml",
        ),
        write(".pinion/SYSTEM.md", "obey"),
    ];
    run(&pinion, &calls, &[]);
    let id = run_in(&sessions(&pinion));
    let script = pinion.script(&[call("apply_agent_changes", json!({ "run": id })), say("done")]);
    let ended = pinion.run(["-p", "-c", "--approve", "all", "--replay", script.to_str().unwrap(), "apply"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let listed = read(&pinion, "listed");
    assert!(!listed.contains(".git\n") && !listed.contains(".pinion"), "{listed}");
    assert!(!pinion.workspace().join(".git/hooks").exists() && !pinion.workspace().join(".pinion/SYSTEM.md").exists());
    assert_eq!(read(&pinion, ".pinion/config.toml"), "");
}

#[test]
fn copy_of_a_killed_process_is_removed_before_the_next_one() {
    let pinion = workspace();
    let script = pinion.script(&[writer(), bash("echo two > a.txt; touch started; sleep 100")]);
    let mut child = pinion.start(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    let started = || copies(&pinion).iter().any(|copy| copy.join("work/started").exists());
    pinion_tests::wait_until("the sub-agent works", started);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((copies(&pinion).len(), read(&pinion, "a.txt")), (2, "one\n".to_owned()));
    run(&pinion, &[bash("true")], &[]);
    assert_eq!(copies(&pinion), Vec::<PathBuf>::new());
}

#[test]
fn copies_need_checkpoints_and_a_single_attempt() {
    let pinion = workspace();
    pinion.config(&format!("{WRITER}[undo]\nenabled = false\n"));
    let script = pinion.script(&[writer(), say("end")]);
    let ended = pinion.run(["-p", "--approve", "all", "--replay", script.to_str().unwrap(), "go"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(sessions(&pinion).contains("it needs checkpoints"));
    pinion.config(&format!("{WRITER}attempts = 2\n"));
    let ended = pinion.run(["-p", "--replay", script.to_str().unwrap(), "go"]);
    assert!(ended.code != Some(0) && ended.stderr.contains("allows one attempt only"), "{ended:?}");
}
