//! Decisions on realistic commands, and the number of questions during a day's work.

mod corpus;

use pinion_permissions::{ModePolicy, Otherwise, PermissionRules, Scene, Verdict, VerdictReason, judge};
#[cfg(target_os = "linux")]
use pinion_tests::Terminal;
use pinion_tests::{Ended, Pinion, say};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const COMMANDS: &str = include_str!("permissions/commands.txt");
const DAY: &str = include_str!("permissions/day.txt");
const HOME: &str = "/home/ada";

/// A project with the files that the commands name.
fn project() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().canonicalize().unwrap().join("project");
    for path in [
        "src/a.rs",
        "src/lib.rs",
        "tests/t.rs",
        "README.md",
        "Cargo.toml",
        "package.json",
        ".env",
        ".git/config",
        ".git/HEAD",
    ] {
        std::fs::create_dir_all(workspace.join(path).parent().unwrap()).unwrap();
        std::fs::write(workspace.join(path), "").unwrap();
    }
    std::os::unix::fs::symlink("/etc", workspace.join("link")).unwrap();
    (directory, workspace)
}

fn judged(command: &str, workspace: &Path, otherwise: Otherwise) -> (Verdict, String) {
    let rules = PermissionRules::built_in(Some(Path::new(HOME)));
    let scene = Scene { workspace, directory: workspace, home: Some(Path::new(HOME)) };
    let judgement = judge(command, &scene, &rules, ModePolicy { reads: true, otherwise });
    let part = judgement.decisive().expect("a decision without a reason");
    (judgement.verdict, format!("`{}`: {}", part.text, part.reason))
}

#[test]
fn realistic_commands_are_decided_as_a_careful_person_would() {
    let (_directory, workspace) = project();
    let (mut wrong, mut table) = (Vec::new(), BTreeMap::<&str, [usize; 3]>::new());
    let mut slowest = Duration::ZERO;
    for line in COMMANDS.lines().filter(|line| !line.starts_with('#')) {
        let [expected, kind, command] = line.splitn(3, '\t').collect::<Vec<_>>().try_into().expect(line);
        let command = command.replace('⏎', "\n");
        let began = Instant::now();
        let (verdict, reason) = judged(&command, &workspace, Otherwise::Ask);
        slowest = slowest.max(began.elapsed());
        table.entry(kind).or_default()[verdict as usize] += 1;
        if verdict.to_string() != expected {
            wrong.push(format!("{command}\n    {verdict} instead of {expected}: {reason}"));
        }
        // The sandbox changes no denial. It allows commands that a person would be asked about, but only because it
        // confines them.
        let (confined, reason) = judged(&command, &workspace, Otherwise::Sandbox);
        if (expected == "deny") != (confined == Verdict::Deny) {
            wrong.push(format!("{command}\n    {confined} in the sandbox: {reason}"));
        }
        // Only a command that hides something or destroys commits is a question there.
        let may_ask = kind == "hidden" || expected == "deny" || reason.contains("destroy commits");
        if confined == Verdict::Ask && !may_ask {
            wrong.push(format!("{command}\n    a question in the sandbox: {reason}"));
        }
    }
    let mut all = [0; 3];
    println!("{:<12} {:>6} {:>6} {:>6}", "kind", "allow", "ask", "deny");
    for (kind, counts) in &table {
        println!("{kind:<12} {:>6} {:>6} {:>6}", counts[0], counts[1], counts[2]);
        (0..3).for_each(|at| all[at] += counts[at]);
    }
    println!("{:<12} {:>6} {:>6} {:>6}, slowest {slowest:?}", "all", all[0], all[1], all[2]);
    assert!(wrong.is_empty(), "{} decisions are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(all.iter().sum::<usize>() >= 1_000, "{all:?}");
}

#[test]
fn no_command_of_a_days_work_is_asked_about_in_the_sandbox() {
    let (_directory, workspace) = project();
    let mut asked = [0; 4];
    let mut calls = 0;
    for line in DAY.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let [codex, claude, call] = line.splitn(3, '\t').collect::<Vec<_>>().try_into().expect(line);
        calls += 1;
        let call = call.replace('⏎', "\n");
        let is_asked = |otherwise| {
            call.strip_prefix("$ ").is_some_and(|command| judged(command, &workspace, otherwise).0 != Verdict::Allow)
        };
        let columns = [is_asked(Otherwise::Sandbox), is_asked(Otherwise::Ask), codex == "ask", claude == "ask"];
        asked.iter_mut().zip(columns).for_each(|(count, is_asked)| *count += usize::from(is_asked));
    }
    let [sandbox, without, codex, claude] = asked;
    println!(
        "{calls} calls; questions: smart {sandbox}, smart without a sandbox {without}, codex {codex}, claude-code {claude}"
    );
    // The table in `host/permissions/DESIGN.md`.
    assert_eq!((calls, sandbox, without, codex, claude), (60, 0, 35, 6, 45));
}

#[test]
fn command_that_cannot_be_read_is_a_question_in_the_sandbox_too() {
    let (_directory, workspace) = project();
    for command in ["ls '", "$X y", "eval \"$X\"", "bash -c \"$X\"", "ls \u{202e}x", "cat <<EOF\n$(id)\nEOF"] {
        assert_eq!(judged(command, &workspace, Otherwise::Sandbox).0, Verdict::Ask, "{command}");
    }
    let long = format!("echo {}", "a".repeat(pinion_permissions::shell::MAX_BYTES));
    let rules = PermissionRules::default();
    let scene = Scene { workspace: &workspace, directory: &workspace, home: None };
    let judgement = judge(&long, &scene, &rules, ModePolicy { reads: true, otherwise: Otherwise::Sandbox });
    assert!(matches!(judgement.decisive().unwrap().reason, VerdictReason::Unreadable(_)));
}

/// Mutates commands for two seconds, or for `PINION_FUZZ_SECONDS`; the seed is fixed.
#[test]
fn mutated_commands_are_judged_in_time() {
    let (_directory, workspace) = project();
    let commands: Vec<&str> = COMMANDS.lines().filter_map(|line| line.splitn(3, '\t').nth(2)).collect();
    let pieces = [
        "$(", ")", "`", "'", "\"", "\\", ";", "|", "&&", "<<EOF\n", "{", "}", "((", "[[", " ", "\n", "$", ">", "#",
        "=", "eval ",
    ];
    let seconds = std::env::var("PINION_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let (until, mut state) = (Instant::now() + Duration::from_secs(seconds), 0x9e37_79b9_7f4a_7c15_u64);
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % limit.max(1) as u64).unwrap()
    };
    while Instant::now() < until {
        let mut text: Vec<char> = commands[below(commands.len())].chars().collect();
        for _ in 0..=below(6) {
            let at = below(text.len() + 1);
            match below(4) {
                0 if at < text.len() => drop(text.remove(at)),
                1 => drop(text.splice(at..at, commands[below(commands.len())].chars())),
                2 => {
                    let repeated = text[at..].repeat(1 + below(30));
                    text.splice(at..at, repeated);
                }
                _ => drop(text.splice(at..at, pieces[below(pieces.len())].chars())),
            }
        }
        let text: String = text.into_iter().collect();
        let began = Instant::now();
        let (_, reason) = judged(&text, &workspace, Otherwise::Sandbox);
        assert!(began.elapsed() < Duration::from_secs(20), "{text}: {reason}");
    }
}

fn bash(command: &str) -> Value {
    json!({ "calls": [{ "tool": "bash", "arguments": { "command": command } }] })
}

fn write(path: &str) -> Value {
    json!({ "calls": [{ "tool": "write", "arguments": { "path": path, "content": "x" } }] })
}

fn run(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Ended {
    let script = pinion.script(replies);
    pinion.run(
        ["-p", "--output-format", "stream-json", "--replay", script.to_str().unwrap()]
            .iter()
            .chain(more)
            .chain(&["go"]),
    )
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn smart_runs_what_the_sandbox_confines_and_rules_hold_there() {
    let pinion = Pinion::default();
    pinion.config("[permissions]\ndeny = [\"git push\", \"write:kept\"]\n");
    let replies = [bash("touch made"), write("a.txt"), bash("cd . && git push -q"), write("kept/b.txt"), say("done")];
    let ended = run(&pinion, &replies, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("rule `git push`") && ended.stdout.contains("rule `write:kept`"), "{}", ended.stdout);
    let there = ["made", "a.txt", "kept/b.txt"].map(|path| pinion.workspace().join(path).exists());
    assert_eq!(there, [true, true, false]);
    let log = lines(&pinion.run(["audit", "--json"]).stdout);
    let decided: Vec<_> =
        log.iter().filter(|entry| entry["event"] == "decision").map(|entry| entry["allowed"].clone()).collect();
    assert_eq!(decided, [true, true, false, false]);
    let used: Vec<_> = log.iter().filter(|entry| entry["event"] == "use").collect();
    assert_eq!((used.len(), &used[0]["used"]["processes"]), (2, &json!(1)), "{log:?}");
    let denied = pinion.run(["audit", "--denied"]).stdout;
    assert!(denied.lines().count() == 2 && denied.contains("shell/bash by rules (smart)"), "{denied}");
}

#[test]
fn model_does_not_write_what_decides_on_other_programs() {
    let pinion = Pinion::default();
    let in_git = "[core]\n\thooksPath = .hooks\n[filter \"tidy\"]\n\tclean = tools/clean.sh\n";
    std::fs::create_dir_all(pinion.workspace().join(".git")).unwrap();
    std::fs::write(pinion.workspace().join(".git/config"), in_git).unwrap();
    std::fs::write(pinion.workspace().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::create_dir_all(pinion.workspace().join("tools")).unwrap();
    std::fs::write(pinion.workspace().join("tools/clean.sh"), "cat\n").unwrap();
    std::os::unix::fs::symlink(".", pinion.workspace().join("link")).unwrap();
    std::fs::create_dir_all(pinion.workspace().join("far/away")).unwrap();
    std::os::unix::fs::symlink("far/away", pinion.workspace().join("astray")).unwrap();
    let paths = [
        ".vscode/tasks.json",
        "./.husky/pre-commit",
        "sub/../.claude/settings.json",
        "link/.envrc",
        "astray/../.envrc",
        ".BASHRC",
        ".devcontainer/devcontainer.json",
        ".pre-commit-config.yaml",
        ".hooks/pre-commit",
        "tools/clean.sh",
        "sub/.vscode/tasks.json",
        "packages/a/.claude/settings.json",
        "my.code-workspace",
    ];
    for mode in ["smart", "edits"] {
        for path in paths {
            let ended = run(&pinion, &[write(path), say("done")], &["--approve", mode]);
            assert_eq!(ended.code, Some(4), "{mode}: {path}: {ended:?}");
            let written = std::fs::read_to_string(pinion.workspace().join(path)).ok();
            assert_ne!(written.as_deref(), Some("x"), "{mode}: {path}");
        }
    }
    let log = pinion.run(["audit", "--denied"]).stdout;
    assert!(log.contains("`.vscode` decides what runs outside of the sandbox"), "{log}");
    // A rule answers the question, and other files need no question.
    pinion.config("[permissions]\nallow = [\"write:.vscode\"]\n");
    let replies = [write(".vscode/tasks.json"), write("tools/other.sh"), write(".github/x.yml"), say("done")];
    assert_eq!(run(&pinion, &replies, &[]).code, Some(0));
    let there = [".vscode/tasks.json", "tools/other.sh", ".github/x.yml"];
    assert!(there.iter().all(|path| pinion.workspace().join(path).is_file()));
}

#[test]
fn without_a_sandbox_only_reading_needs_no_question() {
    let pinion = Pinion::default();
    let ended = run(&pinion, &[bash("ls"), bash("touch made"), say("done")], &["--no-sandbox"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(!pinion.workspace().join("made").exists());
    let log = lines(&pinion.run(["audit", "--json"]).stdout);
    let by: Vec<_> = log.iter().filter(|entry| entry["event"] == "decision").map(|entry| entry["by"].clone()).collect();
    assert_eq!(by, ["rules", "nobody"]);
}

#[cfg(unix)]
#[test]
fn directory_of_a_command_is_judged_as_links_lead_to_it() {
    let pinion = Pinion::default();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(outside.path().join("inner")).unwrap();
    std::fs::write(outside.path().join("kept"), "content of another project").unwrap();
    std::os::unix::fs::symlink(outside.path().join("inner"), pinion.workspace().join("link")).unwrap();
    for cwd in ["link/..", "link/../.", "link/../missing/.."] {
        let call = json!({ "tool": "bash", "arguments": { "command": "cat kept", "cwd": cwd } });
        let ended = run(&pinion, &[json!({ "calls": [call] }), say("done")], &["--no-sandbox"]);
        assert_eq!(ended.code, Some(4), "{cwd}: {ended:?}");
        assert!(!ended.stdout.contains("content of another project"), "{cwd}");
    }
}

#[test]
fn rules_that_deny_hold_where_everything_else_runs() {
    let pinion = Pinion::default();
    pinion.config("[permissions]\ndeny = [\"git commit\"]\n");
    let hidden = "x='a[$(touch made; git commit)]'; [[ x -eq 1 ]]";
    for command in ["X=git; touch made; $X commit", "touch made; env -u XX git commit", hidden] {
        let ended = run(&pinion, &[bash(command), say("done")], &["--approve", "all"]);
        assert_eq!(ended.code, Some(4), "{command}: {ended:?}");
        assert!(!pinion.workspace().join("made").exists(), "{command}");
    }
}

#[test]
fn log_has_the_end_of_a_long_command() {
    let pinion = Pinion::default();
    let command = format!("true '{}'; touch hidden-tail", "a".repeat(5_000));
    let ended = run(&pinion, &[bash(&command), say("done")], &["--approve", "all"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let log = lines(&pinion.run(["audit", "--json"]).stdout);
    let decision = log.iter().find(|entry| entry["event"] == "decision").unwrap();
    assert!(decision["arguments"]["end"].as_str().is_some_and(|end| end.contains("touch hidden-tail")), "{decision}");
    assert!(decision["why"].as_str().is_some_and(|why| why.contains("`touch hidden-tail`")), "{decision}");
    assert!(pinion.run(["audit"]).stdout.contains("touch hidden-tail"));
}

#[test]
fn plan_mode_denies_all_but_reading() {
    let pinion = Pinion::default();
    let ended = run(&pinion, &[bash("ls"), bash("touch made"), write("a.txt"), say("done")], &["--approve", "plan"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stdout.contains("only commands that read the project")
            && ended.stdout.contains("approval mode is `plan`")
    );
    assert_eq!(["made", "a.txt"].map(|path| pinion.workspace().join(path).exists()), [false, false]);
}

#[test]
fn confirm_leaves_reading_free_and_asks_about_the_rest() {
    let pinion = Pinion::default();
    pinion.write("b.txt", "hello");
    let read = json!({ "calls": [{ "tool": "read", "arguments": { "path": "b.txt" } }] });
    let replies = [read, bash("ls"), bash("touch made"), write("a.txt"), say("done")];
    let ended = run(&pinion, &replies, &["--approve", "confirm"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("2 calls were denied because no one could be asked: `bash`, `write`"), "{ended:?}");
    assert_eq!(["made", "a.txt"].map(|path| pinion.workspace().join(path).exists()), [false, false]);
}

#[test]
fn project_can_add_denials_and_not_permissions() {
    let pinion = Pinion::default();
    pinion.write(".pinion/config.toml", "[permissions]\nallow = [\"rm\"]\ndeny = [\"npm publish\", \"a $X\"]\n");
    assert_eq!(pinion.run(["trust", "add", "--yes"]).code, Some(0));
    let listed = pinion.run(["permissions", "list"]).stdout;
    assert!(listed.contains("deny  npm publish") && !listed.contains("rm"), "{listed}");
    // No command is called so, and a server has many tools.
    for text in ["mcp:docs", "mcp:docs/", "tool:"] {
        let ended = pinion.run(["permissions", "test", text]);
        crate::product::command::assert_error(&ended, 2, &[&format!("`{text}` names no tool"), "mcp:SERVER/TOOL"]);
    }
    let tested = pinion.run(["permissions", "test", "ls && npm publish"]).stdout;
    assert!(
        tested.starts_with("deny (mode smart") && tested.contains("`npm publish`: rule `npm publish` ("),
        "{tested}"
    );
    let judged: Value =
        serde_json::from_str(&pinion.run(["permissions", "test", "--json", "--no-sandbox", "make"]).stdout).unwrap();
    assert_eq!((&judged["verdict"], &judged["sandbox"]), (&json!("ask"), &json!(false)));
}

#[test]
fn invalid_rule_is_an_error_that_names_it() {
    let pinion = Pinion::default();
    pinion.config("[permissions]\nallow = [\"npm *\"]\n");
    let ended = pinion.run(["permissions", "list"]);
    assert!(
        ended.code == Some(2) && ended.stderr.contains("`npm *`") && ended.stderr.contains("hint: leave it out"),
        "{ended:?}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn question_adds_a_rule_that_the_next_run_follows() {
    let pinion = Pinion::default();
    let script = pinion.script(&[bash("make check"), bash("make check -s"), bash("rm -rf build"), say("finished")]);
    let command = pinion.command(["--approve", "edits", "--replay", script.to_str().unwrap(), "go"]);
    let mut terminal = Terminal::start(&command, (80, 30), "");
    terminal.wait_for("always `make check …` in this project");
    terminal.wait_for("no, and say why");
    terminal.keys("p");
    // The second call needs no question, and the third one offers no rule.
    terminal.wait_for_nth("no, and say why", 2);
    terminal.keys("r");
    terminal.wait_for("tell the model why");
    terminal.keys("use make clean");
    terminal.wait_for("› use make clean");
    terminal.keys("\r");
    terminal.wait_for("finished");
    terminal.keys("/mode plan\r");
    terminal.wait_for("→ plan");
    terminal.keys("#approve on\r");
    terminal.wait_for("→ ask");
    terminal.keys("/permissions\r");
    terminal.wait_for("make check");
    let (_, seen) = terminal.exit();
    assert!(
        seen.contains("the user denied it and says: use make clean") && seen.matches("in this project").count() < 4,
        "{seen}"
    );
    let ended = run(&pinion, &[bash("make check"), say("done")], &["--approve", "edits"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let listed = pinion.run(["permissions", "list"]).stdout;
    assert!(listed.starts_with("  1 allow make check"), "{listed}");
    assert_eq!(pinion.run(["permissions", "remove", "1"]).code, Some(0));
    let ended = run(&pinion, &[bash("make check"), say("done")], &["--approve", "edits"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
}
