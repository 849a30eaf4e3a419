//! Secrets that plugins use by name: never granted by accident, and never seen.

use super::storage::command::{another, answer, assert_another_answered};
use crate::product::providers::all_files;
use pinion_tests::{Ended, Pinion, guest};
use serde_json::json;
use std::path::PathBuf;

const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";
const CONFIG: &str = "[secrets.github]\nenv = \"HIDDEN_VARIABLE\"\nhosts = [\"https://api.github.com/\"]\n\
                      [secrets.unset]\nenv = \"UNSET_VARIABLE\"\n\
                      [plugins.keeper.config]\ncolor = \"red\"\n";

/// Runs steps of the keeper with all output enabled; another plugin answers afterwards.
pub(super) fn run(pinion: &Pinion, tool: &str, steps: &[&[&str]]) -> Ended {
    let call = json!({ "calls": [{ "tool": tool, "arguments": { "steps": steps } }] });
    let script = pinion.script(&[call, another(), json!({ "text": "done" })]);
    let (script, plugin) = (script.to_str().unwrap().to_owned(), guest("keeper"));
    let base = ["-vv", "-p", "--plugin", plugin.to_str().unwrap(), "--replay", &script, "--approve", "all"];
    let output = ["--output-format", "stream-json", "go"];
    let mut command = pinion.command(base.iter().chain(&output));
    let run = command.env("HIDDEN_VARIABLE", SECRET).output().unwrap();
    let run = Ended {
        code: run.status.code(),
        stdout: String::from_utf8(run.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&run.stderr).into_owned(),
    };
    assert_another_answered(&run);
    run
}

/// Returns all output and files of a run, except the config.
pub(super) fn seen(pinion: &Pinion, run: &Ended) -> String {
    let files = all_files(&pinion.home()).into_iter().filter(|file: &PathBuf| !file.ends_with("config.toml"));
    let files = files.map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned());
    std::iter::once(format!("{}\n{}\n", run.stdout, run.stderr)).chain(files).collect()
}

/// Asserts that no eight characters of the secret are in a text, also with a dot after each character.
fn assert_hidden(text: &str) {
    for at in 0..=SECRET.len() - 8 {
        let window = &SECRET[at..at + 8];
        let dotted: String = window.chars().flat_map(|character| [character, '.']).collect();
        assert!(!text.contains(window) && !text.contains(&dotted), "`{window}` in {text}");
    }
}

fn dotted(text: &str) -> String {
    text.chars().flat_map(|character| [character, '.']).collect()
}

fn granted(names: &str) -> String {
    format!("{CONFIG}[plugins.keeper.grants]\nprocess = true\nsecrets = [{names}]\n")
}

#[test]
fn secret_that_a_program_prints_is_redacted_everywhere() {
    let pinion = Pinion::default();
    pinion.config(&granted("\"github\""));
    let print = "echo to stdout $TOKEN; echo to stderr $TOKEN >&2; printf %s $TOKEN | base64; echo ${#TOKEN}";
    // In pieces that no single read holds.
    let slowly = "for n in $(seq ${#TOKEN}); do printf %s \"$(printf %s $TOKEN | cut -c$n)\"; done; echo";
    let run = run(&pinion, "keep_running", &[&["run", "github", print], &["run", "github", slowly]]);
    assert_eq!(run.code, Some(0), "{run:?}");
    // The program had the value, and the plugin, which puts dots between characters, did not.
    let expected = ["to stdout [redacted]⏎", "to stderr [redacted]⏎"].map(dotted);
    assert!(expected.iter().all(|text| run.stdout.contains(text)), "{run:?}");
    assert!(run.stdout.contains(&dotted("24⏎")), "{run:?}");
    assert_hidden(&seen(&pinion, &run));
}

#[test]
fn secret_in_long_output_is_redacted_in_its_file() {
    let pinion = Pinion::default();
    pinion.config(&granted("\"github\""));
    let run = run(&pinion, "keep_running", &[&["run-long", "github", "seq 2000; echo it is $TOKEN; seq 2000"]]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let spilled = all_files(&pinion.home().join("cache/output"));
    assert_eq!(spilled.len(), 1, "{run:?}");
    assert!(std::fs::read_to_string(&spilled[0]).unwrap().contains("it is [redacted]\n1\n"));
    assert_hidden(&seen(&pinion, &run));
}

#[test]
fn secret_that_was_not_granted_is_denied() {
    let pinion = Pinion::default();
    for (names, wanted) in
        [("", "github"), ("\"unset\"", "github"), ("\"github\"", "GitHub"), ("\"github\"", "github ")]
    {
        pinion.config(&granted(names));
        let run = run(&pinion, "keep_running", &[&["run", wanted, "echo $TOKEN"], &["has", wanted]]);
        let text = answer(&run);
        assert!(text.contains(&format!("may not use the secret `{}`", wanted.trim())), "{text}");
        assert!(text.contains("hint: the user can grant it"), "{text}");
        assert!(run.stdout.contains("ok false"), "{run:?}");
        assert_hidden(&seen(&pinion, &run));
    }
}

#[test]
fn only_granted_secrets_with_a_value_exist_for_a_plugin() {
    let pinion = Pinion::default();
    pinion.config(&granted("\"github\", \"unset\", \"undefined\""));
    let steps: &[&[&str]] =
        &[&["has", "github"], &["has", "unset"], &["has", "undefined"], &["has", "HIDDEN_VARIABLE"]];
    let answers = run(&pinion, "keep", steps);
    assert!(answers.stdout.contains("ok true\\nok false\\nok false\\nok false"), "{answers:?}");
    for (name, expected) in [("unset", "has no value"), ("undefined", "no secret `undefined` is defined")] {
        let denied = run(&pinion, "keep_running", &[&["run", name, "true"]]);
        assert!(denied.stdout.contains(expected), "{denied:?}");
    }
}

#[test]
fn tool_that_does_not_declare_programs_cannot_use_secrets_in_them() {
    let pinion = Pinion::default();
    pinion.config(&granted("\"github\""));
    let run = run(&pinion, "keep", &[&["run", "github", "echo $TOKEN"]]);
    assert!(run.stdout.contains("this tool does not declare the effect `executes`"), "{run:?}");
}

#[test]
fn settings_contain_neither_secrets_nor_other_sections() {
    let pinion = Pinion::default();
    pinion.config(&(granted("\"github\"") + "[plugins.other.config]\npassword = \"of another\"\n"));
    let run = run(&pinion, "keep", &[&["settings"], &["config"]]);
    let settings = json!("ok {\"color\":\"red\"}\nok {\"color\":\"red\"}").to_string();
    assert!(run.stdout.contains(settings.trim_matches('"')), "{run:?}");
    assert!(!run.stdout.contains("of another") && !run.stdout.contains("HIDDEN_VARIABLE"), "{run:?}");
    assert_hidden(&seen(&pinion, &run));
}

#[test]
fn short_secret_is_refused_because_it_cannot_be_redacted() {
    let pinion = Pinion::default();
    pinion.config(
        "[secrets.pin]\ncommand = \"echo 1234\"\n[plugins.keeper.grants]\nprocess = true\nsecrets = [\"pin\"]\n",
    );
    let run = run(&pinion, "keep_running", &[&["run", "pin", "echo $TOKEN"]]);
    assert!(run.stdout.contains("too short to be redacted") && !run.stdout.contains("1.2.3.4."), "{run:?}");
}

#[test]
fn failing_secret_command_shows_nothing_of_its_output() {
    let pinion = Pinion::default();
    let command = format!("command = \"echo {SECRET}; exit 3\"");
    let text = format!("[secrets.a]\n{command}\n[plugins.keeper.grants]\nprocess = true\nsecrets = [\"a\"]\n");
    pinion.config(&text);
    let run = run(&pinion, "keep_running", &[&["run", "a", "echo $TOKEN"]]);
    assert!(run.stdout.contains("the command of the secret `a` failed: exit status: 3"), "{run:?}");
    assert_hidden(&seen(&pinion, &run));
}

#[test]
fn project_can_neither_define_nor_grant_a_secret() {
    let pinion = Pinion::default();
    pinion.config("");
    let text = "[secrets.a]\ncommand = \"touch stolen\"\n[plugins.keeper.grants]\nsecrets = [\"a\"]\nprocess = true\n";
    pinion.write(".pinion/config.toml", text);
    assert_eq!(pinion.run(["trust", "add", "--yes"]).code, Some(0));
    let asked = run(&pinion, "keep", &[&["has", "a"]]);
    assert_eq!(answer(&asked), "ok false");
    assert!(asked.stderr.contains("secrets"), "{asked:?}");
    let denied = run(&pinion, "keep_running", &[&["run", "a", "true"]]);
    assert!(answer(&denied).contains("may not run programs"), "{denied:?}");
    assert!(!pinion.workspace().join("stolen").exists());
}

#[test]
fn names_in_denials_are_neutralized() {
    let pinion = Pinion::default();
    pinion.config(&granted("\"github\""));
    let name = "x\u{1b}[2J\n\"]\nprocess = true";
    let run = run(&pinion, "keep_running", &[&["run", name, "true"]]);
    let text = answer(&run);
    assert!(text.contains("may not use the secret `x") && !text.contains('\u{1b}'), "{run:?}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
