//! Rules that deny files, for the programs that a command starts.

use super::command::bash;
use pinion_tests::{Pinion, call, has_namespaces, say};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const SECRET: &str = "TOP-SECRET";

fn with_rules(rules: &str) -> Pinion {
    let pinion = Pinion::default();
    pinion.write("notes/plan.txt", SECRET);
    pinion.write("lock/a.lock", "before");
    pinion.write("plain.txt", "plain");
    fs::hard_link(pinion.workspace().join("notes/plan.txt"), pinion.workspace().join("other.txt")).unwrap();
    pinion.config(&format!("model = \"x\"\n[permissions]\ndeny = [{rules}]\n"));
    pinion
}

/// Runs a script in the sandbox and returns its output.
fn run(pinion: &Pinion, script: &str) -> String {
    let ended = pinion.run(["sandbox", "--", "sh", "-c", script]);
    ended.stdout + &ended.stderr
}

#[test]
fn program_reads_no_file_that_a_rule_denies() {
    for rule in ["\"read:notes\"", "\"read:*.txt\"", "\"read:n*es/plan.txt\""] {
        let pinion = with_rules(rule);
        if rule == "\"read:notes\"" {
            // Other names of files in a denied directory are not searched for.
            fs::remove_file(pinion.workspace().join("other.txt")).unwrap();
        }
        let printed = run(&pinion, "cat notes/plan.txt; cat other.txt; cp -r notes copy; grep -r TOP .; ls");
        assert!(!printed.contains(SECRET) && printed.contains("lock"), "{rule}: {printed}");
        let copied = fs::read_to_string(pinion.workspace().join("copy/plan.txt"));
        assert!(!copied.unwrap_or_default().contains(SECRET), "{rule}");
    }
}

#[test]
fn refusal_names_the_rule_and_its_file() {
    let pinion = with_rules("\"read:notes/plan.txt\"");
    pinion.write("x.sh", "cat notes/plan.txt plain.txt");
    let result = bash(&pinion, "sh x.sh; true", &[]);
    assert!(result.contains("plain") && result.contains("the rule `read:notes/plan.txt` in `"), "{result}");
    assert!(result.contains("only the user can allow it") && !result.contains(SECRET), "{result}");
}

#[test]
fn searches_show_no_file_that_a_rule_denies() {
    let pinion = with_rules("\"read:notes/plan.txt\"");
    let replies = [call("search", json!({ "pattern": "TOP|plain" })), say("done")];
    let replay = pinion.script(&replies);
    let ended = pinion.run([
        "-p",
        "--approve",
        "all",
        "--output-format",
        "stream-json",
        "--replay",
        replay.to_str().unwrap(),
        "go",
    ]);
    assert!(ended.stdout.contains("plain.txt") && !ended.stdout.contains(SECRET), "{ended:?}");
}

#[test]
fn program_changes_no_file_that_a_rule_denies() {
    for rule in ["\"write:lock\"", "\"write:*.lock\"", "\"write:.\""] {
        let pinion = with_rules(rule);
        let lock = pinion.workspace().join("lock/a.lock");
        let twin = pinion.workspace().join("twin");
        if rule != "\"write:lock\"" {
            fs::hard_link(&lock, &twin).unwrap();
        }
        let printed =
            run(&pinion, "cat lock/a.lock; echo x > lock/a.lock; echo x > twin; rm -rf lock; mv lock gone; ls");
        assert!(printed.contains("before"), "{rule}: {printed}");
        assert_eq!(fs::read_to_string(&lock).unwrap(), "before", "{rule}: {printed}");
    }
}

#[test]
fn file_that_a_program_creates_at_a_denied_path_is_moved_away() {
    if !has_namespaces() {
        return;
    }
    let pinion = with_rules("\"write:made\"");
    pinion.write("x.sh", "echo x > made");
    let result = bash(&pinion, "sh x.sh", &[]);
    assert!(result.contains("is protected") && !pinion.workspace().join("made").exists(), "{result}");
}

#[test]
fn rules_of_a_trusted_project_and_stored_ones_count() {
    let pinion = with_rules("");
    pinion.write(".pinion/config.toml", "[permissions]\ndeny = [\"read:notes\"]\n");
    assert!(run(&pinion, "cat notes/plan.txt").contains(SECRET), "it is not trusted");
    assert_eq!(pinion.run(["trust", "add", "--yes"]).code, Some(0));
    assert!(!run(&pinion, "cat notes/plan.txt").contains(SECRET));
    let pinion = with_rules("");
    let stored = pinion.home().join("permissions.toml");
    let rule = |project: &str| format!("[[rule]]\nproject = {project:?}\neffect = \"deny\"\nrule = \"read:notes\"\n");
    let write = |rule: String| {
        fs::write(&stored, format!("version = 1\n{rule}")).unwrap();
        fs::set_permissions(&stored, fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(rule("/elsewhere"));
    assert!(run(&pinion, "cat notes/plan.txt").contains(SECRET));
    write(rule(pinion.workspace().to_str().unwrap()));
    assert!(!run(&pinion, "cat notes/plan.txt").contains(SECRET));
    fs::write(&stored, "damaged").unwrap();
    let printed = run(&pinion, "cat notes/plan.txt");
    assert!(printed.contains("permissions.toml` cannot be read") && !printed.contains(SECRET), "{printed}");
}

#[test]
fn rule_about_the_whole_workspace_lets_no_program_start() {
    let pinion = with_rules("\"read:.\"");
    let printed = run(&pinion, "ls");
    assert!(
        printed.contains("the rule `read:.` denies to read the workspace") && !printed.contains("plain"),
        "{printed}"
    );
}

#[test]
fn paths_outside_are_hidden_from_programs() {
    let pinion = Pinion::default();
    let outside = pinion.write("../outside/file", SECRET).canonicalize().unwrap();
    let outside = outside.parent().unwrap();
    pinion.config(&format!("[permissions]\ndeny = [\"read:{}\"]\n", outside.display()));
    let status = pinion.run(["sandbox", "--status"]).stdout;
    assert!(status.contains(&format!("hidden      {}", outside.display())), "{status}");
}
