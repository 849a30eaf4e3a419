//! Each example as a program, without a key and without a network.

#![allow(clippy::unwrap_used, reason = "clippy allows it in tests, but not in what tests share")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

const REPL: &str = env!("CARGO_BIN_EXE_repl");
const CODING_ASSISTANT: &str = env!("CARGO_BIN_EXE_coding-assistant");
const EMBEDDED: &str = env!("CARGO_BIN_EXE_embedded");
const PIPELINE: &str = env!("CARGO_BIN_EXE_pipeline");

/// Runs a program with this standard input and without keys, and waits for its end.
fn run(program: &str, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env_remove("ANTHROPIC_API_KEY");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that does not read has ended and reports why.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Returns the output of a program that succeeds.
fn read_output(program: &str, arguments: &[&str], input: &str) -> String {
    let output = run(program, arguments, input);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that lines start with these prefixes in this order, with any lines in between.
fn assert_lines(text: &str, beginnings: &[&str]) {
    let mut lines = text.lines();
    for beginning in beginnings {
        assert!(
            lines.any(|line| line.starts_with(beginning)),
            "`{beginning}` is missing, or not in its place:\n{text}"
        );
    }
}

#[test]
fn repl_remembers_forgets_and_ends() {
    let text = read_output(REPL, &[], "hello\nand\n/clear\nnew\n/nonsense\n/quit\nnever\n");
    let expected = [
        "You said `hello`, message 1.",
        "You said `and`, message 2.",
        "[a new conversation]",
        "You said `new`, message 1.",
        "[there is no `/nonsense`]",
    ];
    assert_lines(&text, &expected);
    assert_eq!(text.lines().count(), expected.len(), "{text}");
}

#[test]
fn repl_ends_with_its_input() {
    assert_eq!(read_output(REPL, &[], "hello"), "You said `hello`, message 1.\n");
}

#[test]
fn repl_switches_models_and_reports_a_missing_key() {
    let text = read_output(REPL, &[], "/model nothing/at-all\n/model anthropic/claude-opus-5-5\nhello\n/clear\n");
    let expected = [
        "[no provider is known for the model `nothing/at-all`",
        "[anthropic/claude-opus-5-5 from now on]",
        "[no key for `anthropic`: set the environment variable `ANTHROPIC_API_KEY`]",
        "[a new conversation]",
    ];
    assert_lines(&text, &expected);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_reply_but_not_the_conversation() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::Read as _;
    let mut child = Command::new(REPL).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    input.write_all(b"wait\n").unwrap();
    let mut waiting = [0; "I wait until you press Ctrl-C.".len()];
    output.read_exact(&mut waiting).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    input.write_all(b"still there?\n/quit\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_lines(&rest, &["[aborted]", "You said `still there?`, message 2."]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn assistant_reads_edits_and_runs_what_is_approved() {
    let text = read_output(CODING_ASSISTANT, &["--yes"], "");
    let expected = [
        "→ read {\"path\":\"greet.sh\"}",
        "← read: ",
        "→ bash {\"command\":\"sh ./check.sh\"}",
        "✗ bash: FAILED: Hello, world",
        "→ edit ",
        "← edit: ",
        "→ bash ",
        "← bash: ok: Hello, world!",
        "echo \"Hello, $1!\"",
    ];
    assert_lines(&text, &expected);
}

#[test]
fn assistant_in_a_pipe_only_reads() {
    // A yes without a question does not count.
    let text = read_output(CODING_ASSISTANT, &[], "y\ny\ny\n");
    let denied = ["← read: ", "✗ bash: Denied: no user can be asked", "✗ edit: Denied: ", "✗ bash: Denied: "];
    assert_lines(&text, &denied);
    assert!(text.ends_with("echo \"Hello, $1\"\n"), "{text}");
}

#[test]
fn missing_plugins_are_reported() {
    let output = run(CODING_ASSISTANT, &["--plugins", "/nowhere"], "");
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: could not load the plugin `fs.wasm`"), "{error}");
}

#[test]
fn pipeline_researches_writes_edits_and_checks() {
    let text = read_output(PIPELINE, &[], "");
    let expected = [
        "researcher: → list ",
        // Both files are read in parallel, so either may come first.
        "researcher: ← read: ",
        "researcher: ← read: ",
        "researcher: is done",
        "plain: is done",
        "vivid: is done",
        "editor: has chosen",
        "lead: → fact_check ",
        "lead: + a sub-agent begins",
        "lead: ← search: sun.md",
        "lead: ← fact_check: The notes say so",
        "lead: is done",
        "# The way home",
        "A bee carries a clock and a compass",
        "Why this one: One remembers it.",
        "Checked: it agrees with the notes.",
    ];
    assert_lines(&text, &expected);
}

#[test]
fn unknown_model_is_reported() {
    for program in [REPL, CODING_ASSISTANT, PIPELINE] {
        let output = run(program, &["--model", "nothing/at-all"], "");
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with("error: no provider is known for the model `nothing/at-all`"), "{error}");
    }
}

/// The program has the user's home, a project that is not trusted, and the built-in plugins.
#[test]
fn embedded_agent_uses_plugins_and_saves_its_session() {
    let directory = tempfile::tempdir().unwrap();
    let (home, work) = (directory.path().join("home"), directory.path().join("work"));
    std::fs::create_dir_all(work.join(".pinion")).unwrap();
    std::fs::create_dir(&home).unwrap();
    std::fs::write(work.join(".pinion/SYSTEM.md"), "You are a fox.").unwrap();
    std::fs::write(work.join("note.txt"), "remember the milk").unwrap();
    let script = directory.path().join("script.jsonl");
    let call = r#"{"calls": [{"tool": "read", "arguments": {"path": "note.txt"}}]}"#;
    std::fs::write(&script, format!("{call}\n{{\"text\": \"It is about milk.\"}}\n")).unwrap();
    let mut command = Command::new(EMBEDDED);
    command.args(["What", "is", "it", "about?"]).current_dir(&work).stdin(Stdio::null());
    let output = command.env("PINION_HOME", &home).env("PINION_SCRIPT", &script).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "It is about milk.\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("trust"), "{output:?}");
    let mut saved = String::new();
    let mut directories = vec![home.join("sessions")];
    while let Some(path) = directories.pop() {
        match path.is_dir() {
            true => directories.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => saved.push_str(&std::fs::read_to_string(path).unwrap_or_default()),
        }
    }
    assert!(saved.contains("remember the milk") && saved.contains("It is about milk."), "{saved}");
}
