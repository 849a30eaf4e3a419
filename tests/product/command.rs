//! The command end to end: output, stored files, exit status. Each kind of bad input causes one clear message and the
//! right exit status.

use pinion_tests::{Ended, Pinion, call, guest, say};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;

/// Runs scripted replies with more options.
fn scripted(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Ended {
    let script = pinion.script(replies);
    let base = ["-p", "--replay", script.to_str().unwrap()];
    pinion.run(base.iter().chain(more).chain(&["go"]))
}

/// Asserts the exit status and that stderr has exactly one error, which contains all `parts`.
pub(crate) fn assert_error(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "`{part}` is not in: {ended:?}");
    }
    assert_eq!(ended.stderr.matches("error:").count(), 1, "{ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}

#[test]
fn failed_command_and_timeout_do_not_look_successful() {
    let pinion = Pinion::default();
    for arguments in [json!({ "command": "echo out; exit 3" }), json!({ "command": "sleep 1000", "timeout": 1 })] {
        let replies = [call("bash", arguments), say("done")];
        let seen = scripted(&pinion, &replies, &["--approve", "all", "--output-format", "stream-json"]);
        let events = seen.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ended = events.into_iter().find(|event| event["type"] == "tool_execution_end").unwrap();
        assert_eq!((&ended["is_error"], &ended["details"]["success"]), (&json!(true), &json!(false)), "{ended}");
        assert!(ended["details"].get("exit_code").is_some() && !ended["content"][0]["text"].is_null(), "{ended}");
    }
}

/// Between two runs of a session, a person may change files that the model has read.
#[test]
fn resumed_session_does_not_overwrite_what_changed_in_its_absence() {
    let pinion = Pinion::default();
    let write = |path: &str| call("write", json!({ "path": path, "content": "of the model" }));
    for file in ["a.txt", "b.txt"] {
        pinion.write(file, "old");
    }
    let first = scripted(&pinion, &[call("read", json!({ "path": "a.txt" })), say("read")], &[]);
    assert_eq!(first.code, Some(0), "{first:?}");
    pinion.write("a.txt", "of a person");
    let replies = [write("a.txt"), write("b.txt"), say("done")];
    let second = scripted(&pinion, &replies, &["-c", "--approve", "all", "-v"]);
    assert!(second.stderr.contains("`a.txt` changed since you last read it"), "{second:?}");
    let read = |file: &str| std::fs::read_to_string(pinion.workspace().join(file)).unwrap();
    assert_eq!((read("a.txt"), read("b.txt")), ("of a person".to_owned(), "of the model".to_owned()));
}

#[test]
fn run_prints_only_the_final_answer() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "hello");
    let ended = scripted(&pinion, &[call("read", json!({ "path": "a.txt" })), say("It says hello.")], &[]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "It says hello.\n", ""));
}

#[test]
fn verbose_config_is_one_v_for_stderr_and_options_override_it() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "hello");
    let run = |arguments: &[&str]| {
        let replies = [call("read", json!({ "path": "a.txt" })), say("It says hello.")];
        let ended = scripted(&pinion, &replies, arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "It says hello.\n"), "{ended:?}");
        ended.stderr
    };
    let flagged = run(&["-v"]);
    pinion.config("verbose = true\n");
    let configured = run(&[]);
    assert!(flagged.contains("a.txt") && configured.contains("a.txt"), "{configured}");
    assert_eq!(flagged.lines().count(), configured.lines().count(), "{flagged}\n{configured}");
    assert_eq!(run(&["-q"]), "");
    pinion.config("verbose = false\n");
    assert_eq!(run(&[]), "");
}

#[test]
fn answer_without_text_is_reported() {
    let pinion = Pinion::default();
    let ended = scripted(&pinion, &[say("")], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.stderr, "! the model ended its reply without an answer\n");
    assert_eq!(scripted(&pinion, &[say("")], &["-q"]).stderr, "");
}

#[test]
fn piped_stdin_is_appended_to_the_prompt() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("ok")]);
    let arguments = ["-p", "--replay", script.to_str().unwrap(), "--output-format", "stream-json", "explain"];
    let ended = pinion.run_with_stdin(arguments, b"piped text\n");
    assert!(ended.stdout.contains("explain\\n\\npiped text"), "{ended:?}");
}

#[test]
fn json_output_is_one_final_object() {
    let pinion = Pinion::default();
    let usage = json!({ "text": "done", "usage": { "input": 7, "output": 3 } });
    let ended = scripted(&pinion, &[usage], &["--output-format", "json"]);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&result["result"], &result["stop_reason"], &result["turns"]),
        (&json!("done"), &json!("stop"), &json!(1))
    );
    assert_eq!((&result["usage"]["input"], &result["usage"]["output"]), (&json!(7), &json!(3)));
    assert!(result["session_id"].is_string() && result["duration_ms"].is_u64() && result["cost"].is_null());
}

#[test]
fn stream_json_is_one_event_per_line_and_a_final_result() {
    let pinion = Pinion::default();
    let replies = [call("list", json!({ "path": "." })), say("done")];
    let ended = scripted(&pinion, &replies, &["--output-format", "stream-json"]);
    let events: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("agent_start", "result"));
    let ended = events.iter().find(|event| event["type"] == "tool_execution_end").unwrap();
    assert!(ended["ledger"]["fuel"].as_u64().unwrap() > 0);
    let started = events.iter().find(|event| event["type"] == "tool_execution_start").unwrap();
    assert_eq!((&started["summary"], ended["summary"].is_string()), (&json!("list: ."), true));
}

#[test]
fn headless_run_denies_with_a_hint_unless_approved() {
    let pinion = Pinion::default();
    let replies = [call("write", json!({ "path": "a.txt", "content": "x" })), say("done")];
    let denied = scripted(&pinion, &replies, &["--approve", "ask", "--output-format", "stream-json"]);
    assert!(denied.stdout.contains("--approve all") && !pinion.workspace().join("a.txt").exists(), "{denied:?}");
    let allowed = scripted(&pinion, &replies, &["--approve", "all"]);
    assert_eq!(allowed.code, Some(0));
    assert_eq!(std::fs::read_to_string(pinion.workspace().join("a.txt")).unwrap(), "x");
}

#[test]
fn session_continues_where_it_ended() {
    let pinion = Pinion::default();
    scripted(&pinion, &[say("first answer")], &[]);
    let ended = scripted(&pinion, &[say("second answer")], &["--continue", "--output-format", "json"]);
    let id: String = serde_json::from_str::<Value>(&ended.stdout).unwrap()["session_id"].as_str().unwrap()[..8].into();
    let shown = pinion.run(["session", "show", &id]);
    let at = |text: &str| shown.stdout.find(text).unwrap_or_else(|| panic!("no {text} in {shown:?}"));
    assert!(at("first answer") < at("second answer"));
    let listed = pinion.run(["session", "list"]);
    assert_eq!(listed.stdout.lines().count(), 1, "{listed:?}");
    let listed: Value = serde_json::from_str(&pinion.run(["session", "list", "--json"]).stdout).unwrap();
    assert!(listed["id"].as_str().unwrap().starts_with(&id) && listed["turns"] == 2, "{listed}");
    assert_eq!(scripted(&pinion, &[say("third")], &["--resume", &id]).code, Some(0));
}

#[test]
fn empty_lists_are_explained_on_stderr() {
    let pinion = Pinion::default();
    let lists: [(&[&str], &str); 5] = [
        (&["session", "list"], "no sessions of this directory"),
        (&["permissions", "list"], "no rules of your own"),
        (&["audit"], "no entries in `"),
        (&["trust", "list"], "no trusted directories"),
        (&["mcp", "list"], "no MCP servers"),
    ];
    for (arguments, explanation) in lists {
        let ended = pinion.run(arguments);
        assert!(ended.code == Some(0) && ended.stdout.is_empty(), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.starts_with(explanation), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn session_in_use_is_an_error() {
    let pinion = Pinion::default();
    scripted(&pinion, &[say("hi")], &[]);
    let script = pinion.script(&[json!({ "hang": true, "text": "…" })]);
    let hanging = ["-p", "--replay", script.to_str().unwrap(), "-c", "--output-format", "stream-json", "wait"];
    let mut first = pinion.start(hanging);
    let mut line = String::new();
    BufReader::new(first.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let second = scripted(&pinion, &[say("me too")], &["-c"]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_error(&second, 2, &["in use", &first.id().to_string()]);
    assert_eq!(scripted(&pinion, &[say("now")], &["-c"]).code, Some(0));
}

#[test]
fn interrupted_run_exits_130_and_keeps_its_session() {
    let pinion = Pinion::default();
    let script = pinion.script(&[call("bash", json!({ "command": "sleep 600" }))]);
    let arguments =
        ["-p", "--replay", script.to_str().unwrap(), "--approve", "all", "--output-format", "stream-json", "go"];
    let mut child = pinion.start(arguments);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("tool_execution_start") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended early");
    }
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(rest.contains("\"how\":\"aborted\"") && rest.contains("The run was aborted"), "{rest}");
    let shown = pinion.run(["session", "list"]);
    assert_eq!(shown.stdout.lines().count(), 1);
}

#[test]
fn reached_limit_exits_3_and_is_named() {
    let pinion = Pinion::default();
    let endless: Vec<Value> = (0..10).map(|_| call("list", json!({ "path": "." }))).collect();
    assert_error(&scripted(&pinion, &endless, &["--max-turns", "2"]), 3, &["limit of 2 turns", "--max-turns"]);
}

#[test]
fn usage_error_exits_2() {
    let pinion = Pinion::default();
    assert_error(&pinion.run(["--no-such-option"]), 2, &["--no-such-option"]);
    assert_error(&pinion.run(["-p"]), 2, &["no prompt"]);
    assert_error(&pinion.run(["-p", "hi"]), 2, &["no model selected", "--model"]);
    assert_error(
        &pinion.run(["-p", "-m", "anthropic/claude-x", "hi"]),
        2,
        &["no key for `anthropic`", "ANTHROPIC_API_KEY"],
    );
    assert_error(&pinion.run(["-p", "-m", "nonsense", "hi"]), 2, &["no provider is known for the model `nonsense`"]);
    assert_error(
        &pinion.run(["-p", "--provider", "anthropics", "-m", "x", "hi"]),
        2,
        &["unknown provider `anthropics`"],
    );
    assert_error(&pinion.run(["-C", "/no/such/directory", "-p", "hi"]), 2, &["/no/such/directory"]);
    assert_error(&scripted(&pinion, &[say("x")], &["--tools", "raed"]), 2, &["no tool `raed`", "read"]);
    assert_error(&scripted(&pinion, &[say("x")], &["--resume", "zzz"]), 2, &["zzz"]);
    assert_error(&scripted(&pinion, &[say("x")], &["--continue"]), 2, &["no session"]);
}

#[test]
fn invalid_config_is_reported_with_position() {
    let pinion = Pinion::default();
    pinion.config("model = \"x\"\n[limits]\nmax-turn = 3\n");
    assert_error(&pinion.run(["-p", "hi"]), 2, &["config.toml", "line 3", "max-turn"]);
    std::fs::remove_file(pinion.home().join("config.toml")).unwrap();
    std::fs::create_dir(pinion.home().join("config.toml")).unwrap();
    assert_error(&pinion.run(["-p", "hi"]), 2, &["could not read the config"]);
}

#[test]
fn invalid_script_is_reported_with_line() {
    let pinion = Pinion::default();
    let script = pinion.write("bad.jsonl", "{\"text\":\"fine\"}\n{\"txet\":1}\n");
    let arguments = ["-p", "--replay", script.to_str().unwrap(), "hi"];
    assert_error(&pinion.run(arguments), 2, &["line 2"]);
    assert_error(&pinion.run(["-p", "--replay", "/no/such.jsonl", "hi"]), 2, &["/no/such.jsonl"]);
}

/// Runs with `--plugin` for a file of these bytes.
fn with_plugin(pinion: &Pinion, bytes: &[u8]) -> Ended {
    let plugin = pinion.write("broken.wasm", bytes);
    scripted(pinion, &[say("never")], &["--plugin", plugin.to_str().unwrap()])
}

#[test]
fn invalid_components_are_reported() {
    let pinion = Pinion::default();
    let good = std::fs::read(guest("echo")).unwrap();
    assert_error(&with_plugin(&pinion, b"not wasm at all"), 2, &["invalid WebAssembly component"]);
    assert_error(&with_plugin(&pinion, &good[..good.len() / 2]), 2, &["broken.wasm"]);
    assert_error(&with_plugin(&pinion, b"\0asm\x01\0\0\0"), 2, &["core module"]);
    let api = String::from_utf8_lossy(b"\"api\":\"0.1.0\"").into_owned();
    let future = replace(&good, api.as_bytes(), b"\"api\":\"9.9.9\"");
    // Linking decides, not the version that a manifest names.
    assert_eq!(with_plugin(&pinion, &future).code, Some(0));
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let found: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, w)| *w == from).map(|(at, _)| at).collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn invalid_json_arguments_are_returned_to_the_model() {
    let pinion = Pinion::default();
    let replies = [call("read", json!({ "path": 7 })), call("raed", json!({})), say("I see")];
    let ended = scripted(&pinion, &replies, &["--output-format", "stream-json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("Invalid arguments: `/path`") && ended.stdout.contains("Did you mean `read`?"));
}

#[test]
fn damaged_cache_key_is_replaced_and_reported() {
    let pinion = Pinion::cold();
    assert_eq!(scripted(&pinion, &[say("one")], &[]).stderr, "");
    let key = pinion.home().join("cache.key");
    std::fs::write(&key, "short").unwrap();
    let ended = scripted(&pinion, &[say("two")], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "two\n"));
    // The entries that the old key sealed are not worth a word.
    assert!(ended.stderr.starts_with("! replaced the cache key") && ended.stderr.lines().count() == 1, "{ended:?}");
    assert_eq!(scripted(&pinion, &[say("three")], &[]).stderr, "");
    std::fs::write(&key, "short").unwrap();
    let doctor = pinion.run(["doctor"]);
    assert!(doctor.stdout.contains("cache.key` was replaced"), "{doctor:?}");
    assert!(!pinion.run(["doctor"]).stdout.contains("was replaced"));
}

#[test]
fn tampered_cache_entry_is_recompiled() {
    let pinion = Pinion::cold();
    assert_eq!(scripted(&pinion, &[say("one")], &[]).code, Some(0));
    let entries: Vec<PathBuf> =
        std::fs::read_dir(pinion.home().join("cache/components")).unwrap().map(|e| e.unwrap().path()).collect();
    // The code and the description of five plugins.
    assert_eq!(entries.len(), 10);
    for (number, entry) in entries.iter().enumerate() {
        let mut bytes = std::fs::read(entry).unwrap();
        let at = if number % 2 == 0 { bytes.len() - 8 } else { bytes.len() / 2 };
        bytes[at] ^= 1;
        std::fs::write(entry, bytes).unwrap();
    }
    let ended = scripted(&pinion, &[say("two")], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "two\n"));
    let notices: Vec<&str> = ended.stderr.lines().collect();
    let is_notice = |line: &&str| line.starts_with("! cache entry is corrupt or forged; it will be replaced (entry /");
    // Once for each entry that the run needed.
    assert!(!notices.is_empty() && notices.len() <= entries.len() && notices.iter().all(is_notice), "{ended:?}");
    assert_eq!(scripted(&pinion, &[say("three")], &[]).stderr, "");
}

/// Starts a server that answers every request with these bytes.
fn server(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = n.trim().parse().unwrap();
                }
                line.clear();
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            let _ = stream.write_all(&answer);
        }
    });
    url
}

fn streamed(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn against(pinion: &Pinion, answer: Vec<u8>) -> Ended {
    let url = server(answer);
    let mut command = pinion.command(["-p", "--provider", "openai-chat", "-m", "m", "--base-url", &url, "hi"]);
    let output = command.env("OPENAI_API_KEY", "sk-very-secret-key-1234").output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn invalid_replies_are_reported() {
    let pinion = Pinion::default();
    let huge = [b"data: ".to_vec(), vec![b'x'; 20 << 20], b"\n\n".to_vec()].concat();
    for body in [b"data: {\"choices\": [\n\n".to_vec(), b"data: \xff\xfe\n\n".to_vec(), b"data: 42\n\n".to_vec(), huge]
    {
        assert_error(&against(&pinion, streamed(&body)), 1, &["malformed reply"]);
    }
}

#[test]
fn rejected_key_is_reported_and_never_shown() {
    let pinion = Pinion::default();
    let body = "{\"error\":{\"message\":\"Incorrect API key provided: sk-very-secret-key-1234\"}}";
    let answer = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let ended = against(&pinion, answer.into_bytes());
    assert_error(&ended, 1, &["Incorrect API key"]);
    let sessions: String =
        walk(&pinion.home()).iter().map(|f| String::from_utf8_lossy(&std::fs::read(f).unwrap()).into_owned()).collect();
    assert!(!format!("{ended:?}{sessions}").contains("very-secret"));
}

fn walk(directory: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn limits_can_be_lifted_by_zero() {
    let pinion = Pinion::default();
    pinion.config("[limits]\nmax-turns = 1\nmax-tokens = 1\nmax-cost = 0.01\ntimeout-seconds = 1\n");
    let replies = [call("list", json!({ "path": "." })), call("find", json!({ "pattern": "*" })), say("done")];
    assert_eq!(scripted(&pinion, &replies, &[]).code, Some(3));
    let lifted = ["--max-turns", "0", "--max-tokens", "0", "--max-cost", "0", "--timeout", "0"];
    let ended = scripted(&pinion, &replies, &lifted);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{ended:?}");
}

#[test]
fn failing_stdout_is_reported() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("the answer")]);
    let arguments = ["-p", "--replay", script.to_str().unwrap(), "hi"];
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = pinion.command(arguments).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("could not write to stdout"));
}

#[test]
fn closed_pipe_is_not_an_error_for_lists() {
    let pinion = Pinion::default();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = pinion.command(["model", "list"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn unwritable_session_ends_the_run_with_an_error() {
    let pinion = Pinion::default();
    std::fs::write(pinion.home().join("sessions"), "a file where a directory should be").unwrap();
    assert_error(&scripted(&pinion, &[say("x")], &[]), 1, &["sessions"]);
    assert_eq!(scripted(&pinion, &[say("x")], &["--no-session"]).code, Some(0));
}

#[test]
fn help_version_and_completions_go_to_stdout() {
    let pinion = Pinion::default();
    for (arguments, part) in [
        (&["--help"][..], "Usage: pinion"),
        (&["--version"], "pinion 0."),
        (&["completions", "bash"], "_pinion"),
        (&["man"], ".TH pinion 1"),
        (&["man", "plugin", "build"], ".TH pinion-plugin-build 1"),
        (&["config", "show"], "max-turns = 50"),
        (&["config", "path"], "config.toml"),
        (&["config", "path"], "home/plugins\n"),
        (&["model", "list"], "anthropic/"),
    ] {
        let ended = pinion.run(arguments);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(ended.stdout.contains(part), "{arguments:?}: {}", ended.stdout);
    }
}

#[test]
fn doctor_reports_configured_parts() {
    let pinion = Pinion::default();
    let ended = pinion.run(["doctor"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("✓ plugin fs") && !ended.stdout.contains('✗'), "{ended:?}");
    assert!(!ended.stdout.contains("has no effect"), "{ended:?}");
}

#[test]
fn pipe_gets_no_colours() {
    let pinion = Pinion::default();
    let ended = scripted(&pinion, &[call("list", json!({ "path": "." })), say("done")], &["-vv"]);
    assert!(ended.stderr.contains("● list") && !ended.stderr.contains('\x1b'), "{ended:?}");
}

#[test]
fn demo_completes_and_shows_the_swap_during_a_turn() {
    let pinion = Pinion::default();
    let ended = pinion.run(["demo"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let first = ended.stdout.find("greeter #1").unwrap();
    let second = ended.stdout.find("greeter #2").unwrap();
    assert!(first < second && !ended.stdout[first..second].contains("── turn"), "{}", ended.stdout);
}
