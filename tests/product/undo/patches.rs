//! Patches of runs and sessions, applied by git to a copy of the old files.

use super::{CHANGES, bash, ids, run, state, workspace, write};
use crate::product::command::assert_error;
use pinion_tests::{Ended, Pinion, say};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn git(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Copies the workspace to a repository, in which patches are applied.
fn checkout(pinion: &Pinion) -> PathBuf {
    let to = pinion.workspace().join("../checkout");
    let copied = Command::new("cp").arg("-a").arg(pinion.workspace()).arg(&to).status().unwrap();
    assert!(copied.success());
    git(&to, &["init", "-q"]);
    git(&to, &["add", "-A", "-f"]);
    to.canonicalize().unwrap()
}

/// Returns the files and links as git sees them: directories and most bits of modes are left out.
fn files(root: &Path) -> BTreeMap<String, String> {
    let seen = |content: String| {
        let Some((mode, rest)) = content.split_once(' ') else { return content };
        let is_executable = u32::from_str_radix(mode, 8).map(|mode| mode & 0o100 != 0);
        is_executable.map_or(content.clone(), |is_executable| format!("{is_executable} {rest}"))
    };
    let all = state(root).into_iter().filter(|(name, content)| !content.starts_with("directory") && name != ".git");
    all.map(|(name, content)| (name, seen(content))).collect()
}

fn result(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"))
}

#[test]
fn run_writes_its_changes_as_a_patch() {
    let pinion = workspace();
    let checkout = checkout(&pinion);
    let replies = [write("c/d.txt", "new\r\nlines"), bash(CHANGES), write(".pinion/notes", "x"), say("done")];
    let patch = pinion.workspace().join("../run.patch");
    let more = ["--output-format", "json", "--patch", "../run.patch", "do it"];
    let ended = run(&pinion, &replies, &more);
    git(&checkout, &["apply", "--index", patch.to_str().unwrap()]);
    let mut expected = files(&pinion.workspace());
    expected.retain(|name, _| !name.starts_with(".pinion"));
    assert_eq!(files(&checkout), expected);
    let result = result(&ended);
    assert_eq!(result["patch"], fs::read_to_string(&patch).unwrap());
    assert_eq!((&result["result"], &result["patch_missing"]), (&"done".into(), &Value::Array(Vec::new())));
    let left = fs::read_dir(patch.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with(".pinion-patch-")));
}

#[test]
fn patch_needs_neither_a_session_nor_checkpoints() {
    for (config, more) in [("", &["--no-session"][..]), ("[undo]\nenabled = false\n", &[])] {
        let pinion = workspace();
        pinion.config(config);
        let checkout = checkout(&pinion);
        let arguments = [&["--patch", "-", "do it"], more].concat();
        let ended = run(&pinion, &[bash(CHANGES), say("the answer")], &arguments);
        assert!(ended.stdout.starts_with("diff --git ") && ended.stderr.contains("the answer"), "{ended:?}");
        let patch = pinion.write("../run.patch", ended.stdout);
        git(&checkout, &["apply", "--index", patch.to_str().unwrap()]);
        assert_eq!(files(&checkout), files(&pinion.workspace()));
    }
}

#[test]
fn failed_run_leaves_its_changes_in_the_patch() {
    let pinion = Pinion::default();
    // The script has no reply to the second request.
    let script = pinion.script(&[write("a", "1\n")]);
    let arguments = ["-p", "--approve", "all", "--output-format", "json", "--patch", "run.patch", "--replay"];
    let ended = pinion.run(arguments.iter().copied().chain([script.to_str().unwrap(), "go"]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let patch = fs::read_to_string(pinion.workspace().join("run.patch")).unwrap();
    assert!(patch.contains("+++ b/a\n@@ -0,0 +1 @@\n+1\n") && !patch.contains("run.patch"), "{patch}");
    assert_eq!(result(&ended)["patch"], patch);
}

#[test]
fn destination_of_a_patch_is_checked_before_the_run() {
    let pinion = Pinion::default();
    let script = pinion.script(&[write("a", "1\n"), say("done")]);
    let arguments = ["-p", "--approve", "all", "--patch", "missing/run.patch", "--replay"];
    let ended = pinion.run(arguments.iter().copied().chain([script.to_str().unwrap(), "go"]));
    assert_error(&ended, 2, &["cannot write the patch to", "missing/run.patch"]);
    assert!(!pinion.workspace().join("a").exists());
}

#[test]
fn session_diff_has_the_changes_of_all_turns() {
    let pinion = workspace();
    let checkout = checkout(&pinion);
    run(&pinion, &[bash(CHANGES), say("done")], &["first"]);
    run(&pinion, &[write("new/deep/file", "y\n"), write("last", "z"), say("done")], &["-c", "second"]);
    let ended = pinion.run(["session", "diff", &ids(&pinion)[0]]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let saved = pinion.run(["session", "diff", &ids(&pinion)[0], "--patch", "../session.patch"]);
    assert_eq!((saved.code, saved.stdout.as_str()), (Some(0), ""), "{saved:?}");
    let patch = pinion.workspace().join("../session.patch");
    assert_eq!(fs::read_to_string(&patch).unwrap(), ended.stdout);
    git(&checkout, &["apply", "--index", patch.to_str().unwrap()]);
    assert_eq!(files(&checkout), files(&pinion.workspace()));
}

#[test]
fn session_diff_without_snapshots_names_the_reason() {
    let pinion = Pinion::default();
    run(&pinion, &[say("only talk")], &["first"]);
    let talk = pinion.run(["session", "diff", &ids(&pinion)[0]]);
    assert_eq!((talk.code, talk.stdout.as_str()), (Some(0), ""), "{talk:?}");
    assert!(talk.stderr.contains("no files were changed"), "{talk:?}");
    assert_error(&pinion.run(["session", "diff", "ffffffff"]), 2, &["ffffffff"]);
    run(&pinion, &[write("a", "1"), say("done")], &["second"]);
    let id = ids(&pinion)[0].clone();
    fs::remove_dir_all(pinion.home().join("checkpoints")).unwrap();
    assert_error(&pinion.run(["session", "diff", &id]), 1, &["snapshots of this session are not kept any more"]);
    pinion.config("[undo]\nenabled = false\n");
    assert_error(&pinion.run(["session", "diff", &id]), 1, &["checkpoints are off", "[undo]"]);
}
