//! Exclusions in the command: named where they refuse, shown on request, and set by the user alone.

use super::command::{bash, without_namespaces};
use pinion_tests::{Pinion, call, has_namespaces, say};
use serde_json::json;
use std::fs;
use std::process::Command;

const SECRET: &str = "TOP-SECRET";

fn with_secrets() -> Pinion {
    let pinion = Pinion::default();
    pinion.write(".env", SECRET);
    pinion.write("vault/note.txt", SECRET);
    pinion.write("plain.txt", "plain");
    pinion
}

#[test]
fn refusals_of_programs_name_the_pattern_its_line_and_the_remedy() {
    let pinion = with_secrets();
    pinion.config("model = \"x\"\nexclude = [\n  \"vault/\",\n  \"note.*\",\n]\n");
    let result = bash(&pinion, "cat plain.txt .env", &[]);
    assert!(result.contains("plain") && result.contains("built-in pattern `.env`"), "{result}");
    assert!(result.contains("only the user can allow it") && !result.contains(SECRET), "{result}");
    let written = bash(&pinion, "echo x > .env; rm -f .env", &[]);
    assert!(written.contains("built-in pattern `.env`"), "{written}");
    pinion.write("note.md", SECRET);
    let result = bash(&pinion, "cat vault/x; cat note.md", &[]);
    let in_directory = bash(&pinion, "cat vault/note.txt", &[]);
    assert!(in_directory.contains("`vault/`, line 3 of") && !in_directory.contains(SECRET), "{in_directory}");
    assert!(result.contains("`note.*`, line 4 of") && !result.contains(SECRET), "{result}");
    assert_eq!(fs::read_to_string(pinion.workspace().join(".env")).unwrap(), SECRET);
}

#[test]
fn tools_of_the_model_name_the_pattern() {
    let pinion = with_secrets();
    let replies = [call("read", json!({ "path": ".env" })), say("done")];
    let replay = pinion.script(&replies);
    let arguments =
        ["-p", "--approve", "all", "--output-format", "stream-json", "--replay", replay.to_str().unwrap(), "go"];
    let ended = pinion.run(arguments);
    assert!(ended.stdout.contains("built-in pattern `.env`"), "{ended:?}");
    assert!(!ended.stdout.contains(SECRET), "{ended:?}");
}

#[test]
fn user_excepts_files_and_turns_built_in_patterns_off() {
    let pinion = with_secrets();
    for config in ["exclude = [\"!.env\"]\n", "exclude-defaults = false\n"] {
        pinion.config(config);
        assert!(bash(&pinion, "cat .env", &[]).contains(SECRET), "{config}");
    }
}

#[test]
fn project_excludes_more_and_never_less() {
    let pinion = with_secrets();
    pinion.write(".pinion/config.toml", "exclude = [\"*.txt\"]\n");
    assert_eq!(pinion.run(["trust", "add", "--yes"]).code, Some(0));
    let result = bash(&pinion, "cat plain.txt; cat .env", &[]);
    assert!(!result.contains(SECRET) && result.contains("excluded by"), "{result}");
    pinion.write(".pinion/config.toml", "exclude = [\"!.env\"]\nexclude-defaults = false\n");
    assert_eq!(pinion.run(["trust", "add", "--yes"]).code, Some(0));
    let result = bash(&pinion, "cat .env", &[]);
    assert!(!result.contains(SECRET) && result.contains("built-in pattern `.env`"), "{result}");
}

#[test]
fn invalid_pattern_is_reported_with_its_line() {
    let pinion = Pinion::default();
    pinion.config("model = \"x\"\nexclude = [\"../x\"]\n");
    let ended = pinion.run(["sandbox", "--status"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("`../x`") && ended.stderr.contains("line 2"), "{ended:?}");
}

#[test]
fn status_and_doctor_show_what_is_excluded() {
    let pinion = with_secrets();
    let status = pinion.run(["sandbox", "--status"]).stdout;
    let line = format!("excluded    {} (`.env`)", pinion.workspace().join(".env").display());
    assert!(status.contains(&line), "{status}");
    assert!(pinion.run(["doctor"]).stdout.contains("excluded files: 1 path"), "{:?}", pinion.run(["doctor"]));
}

#[test]
fn checkpoints_hold_no_excluded_content() {
    let pinion = with_secrets();
    fs::hard_link(pinion.workspace().join(".env"), pinion.workspace().join("other.txt")).unwrap();
    bash(&pinion, "echo new > made", &[]);
    let found = Command::new("grep").args(["-rl", SECRET]).arg(pinion.home()).output().unwrap();
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    let objects: Vec<&str> = found.lines().filter(|line| line.contains("checkpoints")).collect();
    // The object of `vault/note.txt`.
    assert_eq!(objects.len(), 1, "{found}");
}

#[test]
fn landlock_alone_holds_and_best_effort_says_that_it_does_not() {
    if !has_namespaces() {
        return;
    }
    let pinion = with_secrets();
    let ran = without_namespaces(&pinion, "sandbox -- sh -c 'cat plain.txt; cat .env; ls -a'");
    assert!(ran.stdout.contains("plain") && !ran.stdout.contains(SECRET), "{ran:?}");
    pinion.config("[sandbox]\nmode = \"best-effort\"\n");
    let status = without_namespaces(&pinion, "sandbox --status");
    assert!(status.stdout.contains("excluded files are not kept from programs"), "{status:?}");
}

#[test]
fn mcp_server_reads_no_excluded_file() {
    let pinion = with_secrets();
    pinion.config("exclude = [\"vault/\"]\n");
    let script = "cat plain.txt .env vault/note.txt > seen.txt 2>&1";
    let server = json!({ "command": "sh", "args": ["-c", script], "write": true });
    fs::write(pinion.home().join("mcp.json"), json!({ "mcpServers": { "x": server } }).to_string()).unwrap();
    let ended = pinion.run(["mcp", "test", "x"]);
    let seen = fs::read_to_string(pinion.workspace().join("seen.txt")).unwrap_or_default();
    assert!(seen.contains("plain") && !seen.contains(SECRET), "{seen} {ended:?}");
}

/// Another mount of the workspace is made before the command starts.
#[test]
fn other_mounts_of_the_workspace_show_no_excluded_file() {
    if !has_namespaces() {
        return;
    }
    let pinion = with_secrets();
    // Not in `/tmp`, which is private inside.
    let plain = pinion.command(["sandbox", "--", "cat", "/mnt/copy/plain.txt"]);
    let mounts = "mount -t tmpfs none /mnt && mkdir /mnt/copy && mount --bind . /mnt/copy";
    let script = format!("{mounts} && cat /mnt/copy/.env && exec \"$@\" /mnt/copy/.env");
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", &script, "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(pinion.workspace()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(stdout.matches(SECRET).count(), 1, "{stdout}{stderr}");
    assert!(stdout.contains("plain") && stderr.contains("Permission denied"), "{stdout}{stderr}");
}

#[test]
fn hard_links_to_hidden_credentials_are_not_read() {
    let pinion = with_secrets();
    fs::create_dir(pinion.home().join(".ssh")).unwrap();
    fs::write(pinion.home().join(".ssh/id_ed25519"), SECRET).unwrap();
    fs::hard_link(pinion.home().join(".ssh/id_ed25519"), pinion.workspace().join("notes.txt")).unwrap();
    fs::hard_link(pinion.workspace().join("vault/note.txt"), pinion.workspace().join("copy.txt")).unwrap();
    pinion.config("model = \"x\"\nexclude = [\"vault/\"]\n");
    let result = bash(&pinion, "cat plain.txt notes.txt copy.txt", &[]);
    assert!(result.contains("plain") && !result.contains(SECRET), "{result}");
    assert!(result.contains("another name of a file with credentials") || result.contains("`vault/`"), "{result}");
    let replies =
        [call("read", json!({ "path": "notes.txt" })), call("read", json!({ "path": "copy.txt" })), say("done")];
    let replay = pinion.script(&replies);
    let arguments =
        ["-p", "--approve", "all", "--output-format", "stream-json", "--replay", replay.to_str().unwrap(), "go"];
    let ended = pinion.run(arguments);
    assert!(ended.stdout.contains("another name of a file with credentials"), "{ended:?}");
    assert!(!ended.stdout.contains(SECRET), "{ended:?}");
}

#[test]
fn flood_of_excluded_names_blocks_no_later_program() {
    if !has_namespaces() {
        return;
    }
    let pinion = with_secrets();
    let flood = "for i in {1..1100}; do mkdir -p flood/$((i % 90)); echo x > flood/$((i % 90))/.env.$i; done";
    let ended = pinion.run(["sandbox", "--", "bash", "-c", flood]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = pinion.run(["sandbox", "--", "bash", "-c", "cat plain.txt; cat .env; ls -A flood"]);
    assert!(ended.stdout == "plain" && ended.stderr.contains(".env"), "{ended:?}");
}
