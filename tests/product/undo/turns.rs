//! Turns that are undone, redone, listed and compared.

use super::{CHANGES, bash, read, rewind, run, shown, state, workspace, write};
use crate::product::command::assert_error;
use pinion_tests::{Pinion, Terminal, say};

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
    // The prompt is one key away, and the line is free for a command.
    enter("/undo", "undone: 1 turn");
    assert_eq!(state(&pinion.workspace()), middle);
    enter("/redo", "redone: 1 turn");
    assert_eq!(state(&pinion.workspace()), after);
    enter("/rewind 2", "undone: 2 turns");
    assert_eq!(state(&pinion.workspace()), before);
    enter("from here", "reply 3");
    terminal.exit();
    let shown = shown(&pinion);
    assert!(shown.contains("from here") && !shown.contains("change a"), "{shown}");
}
