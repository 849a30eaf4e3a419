//! Files that cannot be written, or that disappear.

use super::{assert_failed, run, sample, say, scripted, wrapped};
use pinion_tests::{Ended, Pinion};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Limits the size of each file, which is the same as a full disk to the program that writes it, and needs no privileges.
/// The runs load no plugins, because the limit also covers their memory.
const LIMIT: &str = "prlimit";

/// Three replies; the last one is long. The tool is unknown without plugins, and its calls get an error result.
fn replies() -> Vec<Value> {
    let read = |text: &str| json!({ "text": text, "calls": [{ "tool": "read", "arguments": { "path": "a.txt" } }] });
    vec![read("answer-1"), read("answer-2"), say(&format!("answer-3 {}", "long ".repeat(400)))]
}

/// Runs with files limited to `bytes`, which fails like a full disk.
fn run_on_disk_of(bytes: usize, pinion: &Pinion, more: &[&str]) -> Ended {
    run(wrapped(&[LIMIT, &format!("--fsize={bytes}")], &without_plugins(pinion, &replies(), more)))
}

fn without_plugins(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Command {
    scripted(pinion, replies, &[&["--no-builtin-plugins"], more].concat())
}

/// A home with one session.
fn with_session() -> Pinion {
    let pinion = Pinion::default();
    assert_eq!(run(without_plugins(&pinion, &[say("warm")], &[])).code, Some(0));
    pinion
}

/// Returns the last answer that the events contain in part.
fn last_streamed(stdout: &str) -> Option<&'static str> {
    ["answer-3", "answer-2", "answer-1"].into_iter().find(|answer| stdout.contains(answer))
}

fn result_of(stdout: &str) -> Value {
    serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
}

#[test]
fn answer_is_printed_wherever_the_disk_of_the_session_fills_up() {
    let pinion = with_session();
    let file = pinion.home().join("s.jsonl");
    let options = ["--session", file.to_str().unwrap(), "--output-format", "stream-json"];
    assert_eq!(run_on_disk_of(1 << 30, &pinion, &options).code, Some(0));
    let size = usize::try_from(fs::metadata(&file).unwrap().len()).unwrap();
    // Times differ in length, and with them the size.
    for bytes in sample(size - 100, 12) {
        let _ = fs::remove_file(&file);
        let ended = run_on_disk_of(bytes, &pinion, &options);
        assert_failed(&ended, 1, &["s.jsonl", "File too large", "--no-session"]);
        let result = result_of(&ended.stdout);
        let expected = last_streamed(&ended.stdout).unwrap_or_default();
        assert!(result["result"].as_str().unwrap().starts_with(expected), "{bytes}: {result}");
        assert!(result["error"].as_str().unwrap().contains("File too large"), "{bytes}: {result}");
        let text = fs::read_to_string(&file).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "{bytes}: a partial line remains");
        assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{bytes}: {text}");
        let again = run(without_plugins(&pinion, &[say("continued")], &["--session", file.to_str().unwrap()]));
        assert_eq!((again.code, again.stdout.as_str()), (Some(0), "continued\n"), "{bytes}: {again:?}");
    }
}

#[test]
fn unsaved_answer_is_printed_in_every_format() {
    let pinion = with_session();
    // Room for the prompt and the records before it, but not for the long answer.
    let long = format!("paid for {}", "long ".repeat(2000));
    for format in ["text", "json", "stream-json"] {
        let command = without_plugins(&pinion, &[say(&long)], &["--output-format", format]);
        let ended = run(wrapped(&[LIMIT, "--fsize=6000"], &command));
        assert_failed(&ended, 1, &["could not append to", "hint: run with --no-session"]);
        assert!(ended.stdout.lines().last().unwrap().contains(long.trim_end()), "{format}: {ended:?}");
    }
    let command = without_plugins(&pinion, &[say(&long)], &["--no-session"]);
    assert_eq!(run(wrapped(&[LIMIT, "--fsize=6000"], &command)).code, Some(0));
}

#[test]
fn answer_is_printed_when_the_recording_cannot_be_written() {
    let pinion = with_session();
    let sse = "data: {\"choices\":[{\"delta\":{\"content\":\"recorded\"}}]}\n\n\
               data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", sse.len());
    let vendor = crate::product::providers::Vendor::answering(vec![head + sse]);
    let file = pinion.home().join("r.jsonl");
    let mut command = pinion.command(["-p", "--provider", "openai-chat", "-m", "m", "--base-url", &vendor.url]);
    command
        .args(["--no-builtin-plugins", "--no-session", "--record", file.to_str().unwrap(), "hi"])
        .env("OPENAI_API_KEY", "sk-test-1234567");
    let ended = run(wrapped(&[LIMIT, "--fsize=300"], &command));
    assert_failed(&ended, 1, &["the recording is incomplete", "File too large"]);
    assert_eq!(ended.stdout, "recorded\n");
}

#[test]
fn failed_export_leaves_the_existing_file() {
    let pinion = with_session();
    let file = pinion.home().join("page.html");
    fs::write(&file, "mine").unwrap();
    let id = session_id(&pinion);
    let export = pinion.command(["session", "export", &id, "-o", file.to_str().unwrap()]);
    for bytes in [0, 1, 500] {
        let ended = run(wrapped(&[LIMIT, &format!("--fsize={bytes}")], &export));
        assert_failed(&ended, 1, &["page.html", "File too large"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert_eq!(leftovers(&pinion.home()), Vec::<String>::new());
    }
    assert_eq!(run(wrapped(&["env"], &export)).code, Some(0));
    assert!(fs::read_to_string(&file).unwrap().contains("warm"));
}

fn session_id(pinion: &Pinion) -> String {
    pinion.run(["session", "list"]).stdout.split_whitespace().next().unwrap().to_owned()
}

/// Returns the files in a directory that look temporary or hidden.
fn leftovers(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.') || name.ends_with(".tmp")).collect()
}

#[test]
fn full_disk_at_the_first_start_leaves_nothing_behind() {
    let pinion = Pinion::cold();
    let ended = run(wrapped(&[LIMIT, "--fsize=0"], &without_plugins(&pinion, &[say("x")], &[])));
    assert_failed(&ended, 1, &["could not append to", "--no-session"]);
    let mut files = Vec::new();
    list(&pinion.home(), &mut files);
    // The empty file that serializes the creation of the cache's key stays.
    files.retain(|file| !file.ends_with("/cache.lock"));
    assert_eq!(files, Vec::<String>::new());
    let ended = run(wrapped(&[LIMIT, "--fsize=0"], &without_plugins(&pinion, &[say("x")], &["--no-session"])));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "x\n"), "{ended:?}");
}

fn list(directory: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => list(&entry.path(), files),
            false => files.push(entry.path().display().to_string()),
        }
    }
}

#[test]
fn session_taken_away_during_a_run_is_reported_after_the_answer() {
    for (take, how) in [
        ("rm s.jsonl", "was deleted while it was in use"),
        ("cp s.jsonl t && mv t s.jsonl", "was replaced while it was in use"),
        (": > s.jsonl", "was truncated while it was in use"),
    ] {
        let pinion = Pinion::default();
        // The session is in the workspace, where a program can reach it.
        let options = ["--session", "s.jsonl", "--approve", "all", "--output-format", "json"];
        let replies = [
            json!({ "text": "so far", "calls": [{ "tool": "bash", "arguments": { "command": take } }] }),
            say("never"),
        ];
        let ended = run(scripted(&pinion, &replies, &options));
        assert_failed(&ended, 1, &["s.jsonl", how, "--no-session"]);
        assert_eq!(result_of(&ended.stdout)["result"], "so far", "{ended:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let pinion = with_session();
    let full = |arguments: &[&str]| {
        let mut command = pinion.command(arguments);
        command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
        run_with_stderr(command)
    };
    for arguments in [&["--help"][..], &["--version"], &["session", "list"], &["completions", "bash"]] {
        assert_failed(&full(arguments), 1, &["could not write to stdout", "No space left on device"]);
    }
    let closed =
        |more: &[&str]| run(wrapped(&["sh", "-c", "exec \"$@\" >&-", "sh"], &scripted(&pinion, &[say("x")], more)));
    assert_failed(&closed(&[]), 1, &["stdout", "closed"]);
    assert_failed(&closed(&["--output-format", "json"]), 1, &["stdout", "closed"]);
}

fn run_with_stderr(mut command: Command) -> Ended {
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ended { code: output.status.code(), stdout: String::new(), stderr }
}
