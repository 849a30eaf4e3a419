//! Secrets never appear in output or files, and keys go only to their own provider.

mod costs;
mod endpoints;
mod guesses;

use crate::product::providers::{Vendor, all_files, answer, ended, reply};
use pinion_tests::{Ended, Pinion};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// The key after its well-known prefix `sk-ant-api03-`.
const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";
const KEY: &str = "sk-ant-api03-Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";
const OTHER: &str = "Yt6Re1Wq0Po9Iu8Lk7Jh";

fn windows(secret: &str) -> impl Iterator<Item = &str> {
    (0..=secret.len() - 8).map(|at| &secret[at..at + 8])
}

fn assert_hidden(seen: &str, secret: &str, place: &str) {
    let seen = seen.to_ascii_lowercase();
    for window in windows(secret) {
        let found = seen.find(&window.to_ascii_lowercase());
        let around = |at: usize| {
            String::from_utf8_lossy(&seen.as_bytes()[at.saturating_sub(100)..][..200.min(seen.len() - at)]).into_owned()
        };
        assert!(found.is_none(), "`{window}` in {place}: {}", found.map(around).unwrap_or_default());
    }
}

/// Returns all output and files of a run, except the user's files of secrets.
fn seen(pinion: &Pinion, run: &Ended) -> String {
    let is_users = |file: &PathBuf| ["auth.toml", "config.toml"].iter().any(|name| file.ends_with(name));
    // Snapshots are copies of the user's own files.
    let checkpoints = pinion.home().join("checkpoints");
    let files = all_files(&pinion.home()).into_iter().filter(|file| !is_users(file) && !file.starts_with(&checkpoints));
    let files = files.map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned());
    std::iter::once(format!("{}\n{}\n", run.stdout, run.stderr)).chain(files).collect()
}

fn with_key<'a>(pinion: &Pinion, arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = pinion.command(arguments);
    command.env("OPENAI_API_KEY", KEY);
    command
}

fn keyed(mut command: Command) -> Command {
    command.env("OPENAI_API_KEY", OTHER);
    command
}

/// Returns the arguments of a run against a vendor with all output enabled.
fn loud(pinion: &Pinion, vendor: &Vendor) -> Vec<String> {
    let record = pinion.home().join("run.jsonl");
    let base = ["-vv", "-p", "-m", "openai-chat/m", "--base-url", &vendor.url, "--record", record.to_str().unwrap()];
    let stream = ["--output-format", "stream-json", "--approve", "all"];
    base.iter().chain(&stream).map(|&argument| argument.to_owned()).collect()
}

/// Runs against a vendor with all output enabled.
fn asked(pinion: &Pinion, vendor: &Vendor, more: &[&str]) -> Ended {
    ended(with_key(pinion, loud(pinion, vendor).iter().map(String::as_str).chain(more.iter().copied())))
}

/// Returns a reply of these deltas.
fn deltas(deltas: &[Value], finish: &str) -> String {
    let chunk = |delta: &Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "c", "model": "m", "choices": [choice] }))
    };
    let body: String = deltas.iter().map(|delta| chunk(delta, None)).collect();
    answer("200 OK", "text/event-stream", &(body + &chunk(&json!({}), Some(finish)) + "data: [DONE]\n\n"))
}

fn pieces(text: &str, size: usize) -> Vec<String> {
    text.as_bytes().chunks(size).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect()
}

fn all_deltas(events: &str) -> String {
    let delta = |line: &str| {
        let event: Value = serde_json::from_str(line).ok()?;
        Some(event["delta"]["delta"].as_str()?.to_owned())
    };
    events.lines().filter_map(delta).collect()
}

fn scripted(pinion: &Pinion, replies: &[Value]) -> Ended {
    let script = pinion.script(replies);
    let script = script.to_str().unwrap();
    let arguments = ["-vv", "-p", "--replay", script, "--approve", "all", "--output-format", "stream-json", "go"];
    let mut command = with_key(pinion, arguments);
    command.env("MISTRAL_API_KEY", OTHER);
    ended(command)
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "calls": [{ "tool": tool, "arguments": arguments }] })
}

fn private_file(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn key_in_model_text_is_redacted_across_deltas() {
    for size in [1, 2, 3, 7, 8, 11, 64] {
        let pinion = Pinion::default();
        let said = pieces(&format!("the key is {KEY}, all of it"), size);
        let content: Vec<Value> = said.iter().map(|piece| json!({ "content": piece })).collect();
        let run = asked(&pinion, &Vendor::answering(vec![deltas(&content, "stop")]), &["hi"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.contains("the key is sk-ant-api03-[redacted], all of it"), "{run:?}");
        // The recording has the vendor's own pieces.
        assert!(!seen(&pinion, &run).contains(SECRET), "pieces of {size}");
        assert_hidden(&all_deltas(&run.stdout), SECRET, &format!("deltas of {size}, put together"));
    }
}

/// The sources of a key besides the environment, which learn it before the request or during it.
#[test]
fn keys_of_files_commands_and_headers_are_redacted() {
    let config = |text: &str| format!("[providers.openai-chat]\n{text}\n");
    let sources: [(&str, &str, String); 3] = [
        ("auth.toml", "auth.toml", format!("[openai-chat]\nkey = \"{KEY}\"\n")),
        ("key-command", "config.toml", config(&format!("key-command = \"echo {KEY}\""))),
        ("headers", "config.toml", config(&format!("headers = {{ x-api-key = '{KEY}' }}"))),
    ];
    let refusal = json!({ "error": { "message": format!("wrong key {KEY}"), "code": KEY } }).to_string();
    for (source, file, text) in sources {
        for (is_refused, said) in [
            (false, reply(&json!({ "content": format!("the key is {KEY}, all of it") }), "stop")),
            (true, answer("401 Unauthorized", "application/json", &refusal)),
        ] {
            let pinion = Pinion::default();
            private_file(&pinion.home().join(file), &text);
            let vendor = Vendor::answering(vec![said]);
            let command = pinion.command(loud(&pinion, &vendor).iter().map(String::as_str).chain(["hi"]));
            let run = ended(if source == "headers" { keyed(command) } else { command });
            assert_eq!(run.code == Some(0), !is_refused, "{source}: {run:?}");
            let asked = vendor.asked.lock().unwrap().concat();
            assert!(asked.contains(&KEY.to_lowercase()), "{source} is in use: {asked}");
            assert_hidden(&seen(&pinion, &run), SECRET, source);
        }
    }
}

#[test]
fn output_of_a_failed_key_command_is_not_shown() {
    let pinion = Pinion::default();
    let command = format!("echo {KEY}; echo the store is locked, {KEY} >&2; exit 3");
    pinion.config(&format!("[providers.openai-chat]\nkey-command = \"{command}\"\n"));
    let vendor = Vendor::answering(vec![reply(&json!({ "content": "unused" }), "stop")]);
    let run = ended(pinion.command(loud(&pinion, &vendor).iter().map(String::as_str).chain(["hi"])));
    assert!(run.code != Some(0) && vendor.asked.lock().unwrap().is_empty(), "{run:?}");
    assert_hidden(&format!("{run:?}"), SECRET, "the failure");
}

#[test]
fn parts_of_a_key_are_unchanged() {
    let pinion = Pinion::default();
    let parts = (1..SECRET.len()).flat_map(|at| [&SECRET[..at], &SECRET[at..]]);
    let said: String = parts.map(|part| format!("({part}) ")).collect();
    let vendor = Vendor::answering(vec![reply(&json!({ "content": said }), "stop")]);
    let run = asked(&pinion, &vendor, &["hi"]);
    assert!(run.stdout.contains(said.trim()) && !run.stdout.contains("[redacted]"), "{run:?}");
}

#[test]
fn key_in_thinking_is_redacted() {
    let pinion = Pinion::default();
    let mut said: Vec<Value> = pieces(KEY, 5).iter().map(|piece| json!({ "reasoning_content": piece })).collect();
    said.push(json!({ "content": "done" }));
    let run = asked(&pinion, &Vendor::answering(vec![deltas(&said, "stop")]), &["hi"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_hidden(&seen(&pinion, &run), SECRET, "thinking");
}

#[test]
fn encoded_key_is_redacted() {
    let pinion = Pinion::default();
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let reversed: String = KEY.chars().rev().collect();
    let base64 = "c2stYW50LWFwaTAzLVpxN1h3M1ZiOU5tMktwNUxkOFJ0SGo0Rw==";
    let said = format!("{hex} {reversed} {base64} {}", KEY.to_uppercase());
    let vendor = Vendor::answering(vec![reply(&json!({ "content": said }), "stop")]);
    let seen = seen(&pinion, &asked(&pinion, &vendor, &["hi"]));
    for hidden in [&hex[26..], &reversed[..24], &base64[18..50], SECRET] {
        assert_hidden(&seen, hidden, "encodings");
    }
}

#[test]
fn escaped_key_in_arguments_does_not_reach_the_tool() {
    let escaped: String = KEY.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    for size in [1, 5, 9, 1000] {
        let pinion = Pinion::default();
        let arguments = format!("{{\"path\":\"out.txt\",\"content\":\"a {escaped} b\"}}");
        let name = json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function", "function": { "name": "write", "arguments": "" } }] });
        let piece = |piece: &String| json!({ "tool_calls": [{ "index": 0, "function": { "arguments": piece } }] });
        let said: Vec<Value> = std::iter::once(name).chain(pieces(&arguments, size).iter().map(piece)).collect();
        let vendor = Vendor::answering(vec![deltas(&said, "tool_calls"), reply(&json!({ "content": "ok" }), "stop")]);
        let run = asked(&pinion, &vendor, &["hi"]);
        let written = std::fs::read_to_string(pinion.workspace().join("out.txt"));
        let written = written.unwrap_or_else(|error| panic!("{error}: {run:?}"));
        assert!(written.ends_with("[redacted] b"), "{written}");
        assert_hidden(&(seen(&pinion, &run) + &written), SECRET, "arguments");
    }
}

#[test]
fn key_in_call_names_and_ids_is_redacted() {
    let pinion = Pinion::default();
    let choice = json!({ "index": 0, "finish_reason": "tool_calls", "delta": { "tool_calls": [
        { "index": 0, "id": KEY, "type": "function", "function": { "name": SECRET, "arguments": format!("{{\"{SECRET}\":1}}") } }
    ] } });
    let body = format!("data: {}\n\ndata: [DONE]\n\n", json!({ "id": KEY, "model": KEY, "choices": [choice] }));
    let first = answer("200 OK", "text/event-stream", &body);
    let vendor = Vendor::answering(vec![first, reply(&json!({ "content": "ok" }), "stop")]);
    let run = asked(&pinion, &vendor, &["hi"]);
    assert_hidden(&seen(&pinion, &run), SECRET, "names");
}

#[test]
fn key_in_errors_is_redacted() {
    let middle = SECRET;
    let json = |status: &str, text: &str| {
        answer(status, "application/json", &json!({ "error": { "message": text, "code": text } }).to_string())
    };
    for refusal in [
        json("401 Unauthorized", &format!("wrong key …{middle}…")),
        json("400 Bad Request", &format!("x-api-key: {KEY}")),
        json("401 Unauthorized", "wrong key sk-ant-api03-****Hj4G"),
        json("500 Oh", &format!("{}{SECRET}", "x".repeat(1990))),
        json("200 OK", middle),
        answer("502 Bad Gateway", "text/html", &format!("<title>{middle}</title>")),
        answer("200 OK", "text/event-stream", &format!("data: {{\"error\":{{\"message\":\"{middle}\"}}}}\n\n")),
        answer("200 OK", "text/event-stream", &format!("data: {middle}\n\n")),
    ] {
        let pinion = Pinion::default();
        let run = asked(&pinion, &Vendor::answering(vec![refusal]), &["--timeout", "1", "hi"]);
        assert_ne!(run.code, Some(0), "{run:?}");
        assert_hidden(&seen(&pinion, &run), SECRET, "an error");
    }
}

#[test]
fn key_in_a_tool_result_is_redacted() {
    let pinion = Pinion::default();
    private_file(&pinion.home().join("auth.toml"), "[groq]\nkey = \"gsk_Mn3Bv2Cx1Zl0Kj9Hg8Fd7\"\n");
    pinion.config("[providers.xai]\nheaders = { x-gateway = 'gw-Aa1Ss2Dd3Ff4Gg5' }\n");
    pinion.write(
        "settings",
        format!("KEY={KEY}\nOTHER={OTHER}\nGROQ=gsk_Mn3Bv2Cx1Zl0Kj9Hg8Fd7\nGATEWAY=gw-Aa1Ss2Dd3Ff4Gg5\n"),
    );
    let run = scripted(
        &pinion,
        &[
            call("read", &json!({ "path": "settings" })),
            call("search", &json!({ "pattern": "KEY" })),
            call(
                "bash",
                &json!({ "command": "cat settings; cat settings >&2; base64 settings; rev settings; fold -w 9 settings" }),
            ),
            call("bash", &json!({ "command": "cat settings; exit 3" })),
            json!({ "text": "done" }),
        ],
    );
    assert_eq!(run.code, Some(0), "{run:?}");
    let seen = seen(&pinion, &run);
    for secret in [SECRET, OTHER, "Mn3Bv2Cx1Zl0Kj9Hg8Fd7", "Aa1Ss2Dd3Ff4Gg5"] {
        assert_hidden(&seen, secret, "a tool's result");
    }
    assert!(run.stdout.contains("KEY=sk-ant-api03-[redacted]"), "{run:?}");
}

#[test]
fn key_in_the_prompt_is_neither_stored_nor_shown() {
    let pinion = Pinion::default();
    let vendor = Vendor::answering(vec![reply(&json!({ "content": "ok" }), "stop")]);
    let run = asked(&pinion, &vendor, &[&format!("is {KEY} right?")]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_hidden(&seen(&pinion, &run), SECRET, "the prompt");
    let file = all_files(&pinion.home()).into_iter().find(|file| file.ends_with("run.jsonl")).unwrap();
    assert!(std::fs::read_to_string(file).unwrap().contains("[redacted] right?"));
}

#[test]
fn older_session_is_shown_without_the_key() {
    let pinion = Pinion::default();
    let script = pinion.script(&[json!({ "text": "ok" })]);
    let prompt = format!("remember {KEY}");
    let unaware = pinion.run(["-p", "--replay", script.to_str().unwrap(), "--output-format", "json", &prompt]);
    let id = serde_json::from_str::<Value>(&unaware.stdout).unwrap()["session_id"].as_str().unwrap().to_owned();
    for arguments in [vec!["session", "show", &id], vec!["session", "export", &id], vec!["session", "list"]] {
        let shown = ended(with_key(&pinion, arguments));
        assert!(shown.stdout.contains("remember"), "{shown:?}");
        assert_hidden(&format!("{shown:?}"), SECRET, "a session");
    }
}

#[test]
fn recording_replays_redacted_text() {
    let pinion = Pinion::default();
    // A recording keeps each event of the server, so that a key is found only in a single one.
    let content = [json!({ "content": format!("a {KEY} b") })];
    asked(&pinion, &Vendor::answering(vec![deltas(&content, "stop")]), &["hi"]);
    let file = pinion.home().join("run.jsonl");
    let played = pinion.run(["-p", "--replay", file.to_str().unwrap(), "--approve", "all", "hi"]);
    assert_eq!(played.code, Some(0), "{played:?}");
    assert_hidden(&played.stdout, SECRET, "a replay without the key");
}

#[test]
fn text_without_a_key_is_unchanged() {
    let pinion = Pinion::default();
    let text = "sk-ant-api03- is how keys begin; Zq7Xw3V is no key. Größe: 8.\n\t{\"a\":\"\\u0041\"}";
    let content: Vec<Value> = text.chars().map(|c| json!({ "content": c.to_string() })).collect();
    let run = asked(&pinion, &Vendor::answering(vec![deltas(&content, "stop")]), &["hi"]);
    let result: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((result["result"].as_str(), all_deltas(&run.stdout).as_str()), (Some(text), text));
}

#[cfg(unix)]
mod files {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn recorded_to(pinion: &Pinion, vendor: &Vendor, file: &Path) -> Ended {
        let arguments =
            ["-p", "-m", "openai-chat/m", "--base-url", &vendor.url, "--record", file.to_str().unwrap(), "hi"];
        ended(with_key(pinion, arguments))
    }

    fn good() -> Vendor {
        Vendor::answering(vec![reply(&json!({ "content": "ok" }), "stop")])
    }

    #[test]
    fn stored_files_are_private_whatever_the_umask() {
        let pinion = Pinion::default();
        let vendor = good();
        let binary = pinion.command([""; 0]).get_program().to_str().unwrap().to_owned();
        let record = pinion.home().join("run.jsonl");
        let line = format!(
            "umask 0; exec {binary} -p -m openai-chat/m --base-url {} --record {} hi",
            vendor.url,
            record.display()
        );
        let command = with_key(&pinion, [""; 0]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env_clear().current_dir(pinion.workspace());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let run = ended(shell);
        assert_eq!(run.code, Some(0), "{run:?}");
        let kept = all_files(&pinion.home().join("sessions"));
        assert_eq!(kept.len(), 1);
        assert_eq!((mode(&record), mode(&kept[0]), mode(kept[0].parent().unwrap())), (0o600, 0o600, 0o700));
        assert_eq!(mode(&pinion.home().join("cache/output")), 0o700);
    }

    #[test]
    fn recording_replaces_a_readable_file() {
        let (pinion, vendor) = (Pinion::default(), good());
        let file = pinion.home().join("run.jsonl");
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        let reader = std::fs::File::open(&file).unwrap();
        assert_eq!(recorded_to(&pinion, &vendor, &file).code, Some(0));
        assert_eq!(mode(&file), 0o600);
        assert_eq!(std::io::read_to_string(reader).unwrap(), "old");
    }

    #[test]
    fn recording_follows_no_link() {
        let (pinion, vendor) = (Pinion::default(), good());
        for target in ["notes.txt", "missing.txt"] {
            let (target, link) = (pinion.workspace().join(target), pinion.workspace().join("run.jsonl"));
            if target.ends_with("notes.txt") {
                std::fs::write(&target, "mine").unwrap();
            }
            symlink(&target, &link).unwrap();
            let run = recorded_to(&pinion, &vendor, &link);
            assert_eq!(run.code, Some(2), "{run:?}");
            std::fs::remove_file(link).unwrap();
        }
        assert_eq!(std::fs::read_to_string(pinion.workspace().join("notes.txt")).unwrap(), "mine");
        assert!(!pinion.workspace().join("missing.txt").exists());
    }

    #[test]
    fn resumed_session_becomes_private() {
        let pinion = Pinion::default();
        scripted(&pinion, &[json!({ "text": "ok" })]);
        let file = all_files(&pinion.home().join("sessions")).remove(0);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let script = pinion.script(&[json!({ "text": "ok" })]);
        assert_eq!(pinion.run(["-p", "-c", "--replay", script.to_str().unwrap(), "more"]).code, Some(0));
        assert_eq!(mode(&file), 0o600);
    }
}

/// Returns the file that contains a run's long output.
fn spilled(run: &Ended) -> PathBuf {
    let (_, rest) = run.stdout.split_once("full output: ").unwrap_or_else(|| panic!("{run:?}"));
    PathBuf::from(rest.split(']').next().unwrap())
}

fn session_id(run: &Ended) -> String {
    let result: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
    result["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn long_output_belongs_to_its_session() {
    let pinion = Pinion::default();
    let long = call("bash", &json!({ "command": "seq 200000" }));
    let first = scripted(&pinion, &[long, json!({ "text": "ok" })]);
    let (file, id) = (spilled(&first), session_id(&first));
    assert!(file.is_file() && file.parent().unwrap().ends_with(format!("output/{id}")), "{}", file.display());
    let read = call("read", &json!({ "path": file, "limit": 3 }));
    let list = call("list", &json!({ "path": file.parent().unwrap() }));
    let second = scripted(&pinion, &[read.clone(), list, json!({ "text": "ok" })]);
    assert_eq!(second.stdout.matches("\"is_error\":true,\"content\"").count(), 2, "{second:?}");
    let script = pinion.script(&[read, json!({ "text": "ok" })]);
    let resumed = ["-p", "--replay", script.to_str().unwrap(), "-r", &id, "--output-format", "stream-json", "go"];
    let resumed = pinion.run(resumed);
    assert!(resumed.stdout.contains("\"is_error\":false"), "{resumed:?}");
    assert_eq!(pinion.run(["session", "delete", &id]).code, Some(0));
    assert!(!file.parent().unwrap().exists());
}

#[test]
fn run_without_spilled_output_leaves_no_directory() {
    let pinion = Pinion::default();
    scripted(&pinion, &[json!({ "text": "ok" })]);
    assert_eq!(std::fs::read_dir(pinion.home().join("cache/output")).unwrap().count(), 0);
}
