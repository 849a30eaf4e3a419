//! Directories that the config opens and hides, and files that are moved into their places, through the command.

use super::command::without_namespaces;
use pinion_tests::{Pinion, call, has_namespaces, say};
use serde_json::{Value, json};

#[test]
fn rule_that_denies_closes_what_the_config_opens() {
    let pinion = Pinion::default();
    let secret = pinion.write("../credentials/file", "TOP-SECRET");
    let directory = secret.parent().unwrap().display();
    let opened = format!("[sandbox]\nreadable = [\"{directory}\"]\nwritable = [\"{directory}\"]\n");
    let read = format!("cat {}", secret.display());
    pinion.config(&opened);
    assert!(pinion.run(["sandbox", "--", "sh", "-c", &read]).stdout.contains("TOP-SECRET"));
    pinion.config(&format!("{opened}[permissions]\ndeny = [\"read:{directory}\"]\n"));
    let ran = pinion.run(["sandbox", "--", "sh", "-c", &read]);
    assert!(ran.code == Some(1) && ran.stdout.is_empty(), "{ran:?}");
}

#[test]
fn own_files_that_are_kept_in_the_workspace_are_closed() {
    let pinion = Pinion::default();
    let kept = pinion.write("dotfiles/config.toml", "# TOP-SECRET\n");
    pinion.write("../home/x", "");
    std::os::unix::fs::symlink(&kept, pinion.home().join("config.toml")).unwrap();
    let ran =
        pinion.run(["sandbox", "--", "sh", "-c", "cat dotfiles/config.toml; echo x > dotfiles/config.toml; echo end"]);
    assert!(ran.stdout.contains("end") && !ran.stdout.contains("TOP-SECRET"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "# TOP-SECRET\n");
}

#[test]
fn link_at_a_protected_name_shows_nothing_without_namespaces() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let secret = pinion.write("../user/.ssh/id", "TOP-SECRET");
    let hidden = secret.parent().unwrap();
    pinion.config(&format!("[sandbox]\nhidden = [\"{}\"]\n", hidden.display()));
    std::os::unix::fs::symlink(hidden, pinion.workspace().join(".claude")).unwrap();
    let ran = without_namespaces(&pinion, "sandbox -- sh -c 'cat .claude/id; echo end'");
    assert!(ran.stdout.contains("end") && !ran.stdout.contains("TOP-SECRET"), "{ran:?}");
}

#[test]
fn directories_around_what_is_writable_keep_their_places() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    pinion.write("../outer/inner/state/file", "");
    let outer = pinion.workspace().parent().unwrap().canonicalize().unwrap();
    let inner = outer.join("outer/inner/state");
    pinion.config(&format!("[sandbox]\nwritable = [\"{}\", \"{}\"]\n", outer.display(), inner.display()));
    let script =
        "cd ..; touch new; mv work moved; mv outer moved; mv outer/inner outer/moved; echo x > outer/inner/new";
    pinion.run(["sandbox", "--", "sh", "-c", script]);
    assert!(pinion.workspace().exists() && inner.join("file").exists() && !outer.join("moved").exists());
    assert!(outer.join("new").exists() && outer.join("outer/inner/new").exists());
}

#[test]
fn writable_root_leaves_protected_paths_read_only() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let protected = pinion.write(".vscode/tasks.json", "mine");
    pinion.config("[sandbox]\nwritable = [\"/\"]\n");
    let ran = pinion.run(["sandbox", "--", "sh", "-c", "echo x > new; echo x >> .vscode/tasks.json"]);
    assert_eq!(std::fs::read_to_string(protected).unwrap(), "mine", "{ran:?}");
    assert!(pinion.workspace().join("new").exists(), "{ran:?}");
}

#[test]
fn workspace_in_a_hidden_directory_is_used_and_its_secrets_are_not() {
    let pinion = Pinion::default();
    pinion.write(".env", "TOP-SECRET");
    pinion.write("file", "mine");
    let around = pinion.workspace().parent().unwrap().canonicalize().unwrap();
    let beside = pinion.write("../beside", "TOP-SECRET");
    let script = format!("cat file .env {}; echo x > new; ls", beside.display());
    let hidden = format!("[sandbox]\nhidden = [\"{}\"]\n", around.display());
    pinion.config(&hidden);
    let ran = pinion.run(["sandbox", "--", "sh", "-c", &script]);
    assert!(ran.stdout.contains("mine") && ran.stdout.contains("new"), "{ran:?}");
    assert!(!ran.stdout.contains("TOP-SECRET"), "{ran:?}");
    let workspace = pinion.workspace().canonicalize().unwrap();
    pinion.config(&format!("{hidden}[permissions]\ndeny = [\"write:{}\"]\n", workspace.display()));
    let ran = pinion.run(["sandbox", "--", "sh", "-c", "cat file; echo x > other"]);
    assert!(ran.stdout.contains("mine") && !workspace.join("other").exists(), "{ran:?}");
}

/// The parents of a workspace below `/tmp` lie in the private directory that the programs of a session share.
#[test]
fn what_a_program_leaves_in_the_way_is_moved_aside() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let work = pinion.workspace().canonicalize().unwrap();
    let around = work.parent().unwrap();
    if !around.starts_with("/tmp") {
        return;
    }
    let victim = pinion.write("../victim/file", "mine");
    let victim = victim.parent().unwrap().canonicalize().unwrap();
    let (around, victim_path, place) = (around.display(), victim.display(), work.display());
    let calls = [
        format!("cd / && mv {around} /tmp/away && mkdir {around} && ln -s {victim_path} {place}"),
        "echo one > one".to_owned(),
        format!("cd / && mv {around} /tmp/other; rm -rf {around}; echo file > {around}"),
        "echo two > two".to_owned(),
    ];
    let mut replies: Vec<Value> = calls.iter().map(|script| call("bash", json!({ "command": script }))).collect();
    replies.push(say("done"));
    let replay = pinion.script(&replies);
    let ended = pinion.run(["-p", "--approve", "all", "--replay", replay.to_str().unwrap(), "go"]);
    assert!(work.join("one").exists() && work.join("two").exists(), "{ended:?}");
    assert!(!victim.join("one").exists() && !victim.join("two").exists(), "{ended:?}");
}

#[test]
fn credentials_that_appear_during_a_session_are_hidden() {
    let pinion = Pinion::default();
    let user = pinion.write("../user/x", "").parent().unwrap().canonicalize().unwrap();
    pinion.config(&format!("[sandbox]\nwritable = [\"{}\"]\n", user.display()));
    let calls = [
        "mkdir ~/.aws; echo TOP-SECRET > ~/.aws/credentials; echo TOP-SECRET > ~/.netrc",
        "cat ~/.aws/credentials ~/.netrc; echo end",
    ];
    let mut replies: Vec<Value> = calls.iter().map(|script| call("bash", json!({ "command": script }))).collect();
    replies.push(say("done"));
    let replay = pinion.script(&replies);
    let mut command = pinion.command([
        "-p",
        "--approve",
        "all",
        "--output-format",
        "stream-json",
        "--replay",
        replay.to_str().unwrap(),
        "go",
    ]);
    let output = command.env("HOME", &user).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let results: Vec<&str> = text.lines().filter(|line| line.contains("\"tool_execution_end\"")).collect();
    assert!(results.len() == 2 && results[1].contains("end") && !results[1].contains("TOP-SECRET"), "{results:?}");
    assert!(user.join(".netrc").exists());
}
