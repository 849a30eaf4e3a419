//! The command against a vendor simulated on a socket: recording, replay, and the flow of keys.

use pinion_tests::{Ended, HttpServer, Pinion};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

const KEY: &str = "sk-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt";

/// A simulated vendor that speaks Chat Completions.
pub(crate) struct Vendor {
    pub(crate) url: String,
    /// The heads of the requests received.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// The bodies of the requests received.
    pub(crate) bodies: Arc<Mutex<Vec<String>>>,
}

impl Vendor {
    /// Answers requests in this order and repeats the last answer.
    pub(crate) fn answering(answers: Vec<String>) -> Self {
        Self::with_lists(answers, Vec::new())
    }

    /// Answers requests for the list of models with the second answers, too; without one, it closes the connection.
    pub(crate) fn with_lists(answers: Vec<String>, lists: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, bodies) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let kept = (asked.clone(), bodies.clone());
        std::thread::spawn(move || {
            // A connection may stay open while another one is used.
            let (answers, lists) = (Arc::new(answers), Arc::new(Mutex::new(lists.into_iter())));
            for stream in listener.incoming().map_while(Result::ok) {
                let (answers, lists, kept) = (answers.clone(), lists.clone(), kept.clone());
                std::thread::spawn(move || converse(stream, &answers, &lists, &kept.0, &kept.1));
            }
        });
        Self { url, asked, bodies }
    }
}

fn converse(
    stream: TcpStream,
    answers: &[String],
    lists: &Mutex<std::vec::IntoIter<String>>,
    asked: &Mutex<Vec<String>>,
    bodies: &Mutex<Vec<String>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some((head, body)) = read_request(&mut reader) {
        if head.starts_with("get ") {
            let Some(list) = lists.lock().unwrap().next() else { return };
            if writer.write_all(list.as_bytes()).is_err() {
                return;
            }
            continue;
        }
        bodies.lock().unwrap().push(body);
        let at = {
            let mut asked = asked.lock().unwrap();
            asked.push(head);
            asked.len() - 1
        };
        let answer = answers.get(at).or(answers.last()).unwrap();
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head.split_once("content-length: ").map_or("0", |(_, rest)| rest.lines().next().unwrap_or_default());
    let length: usize = length.trim().parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8_lossy(&body).into_owned()))
}

pub(crate) fn answer(status: &str, kind: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn reply(delta: &Value, finish: &str) -> String {
    let chunk = |delta: &Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "c", "model": "m", "choices": [choice] }))
    };
    let body = chunk(delta, None) + &chunk(&json!({}), Some(finish)) + "data: [DONE]\n\n";
    answer("200 OK", "text/event-stream", &body)
}

/// A run of two turns: a directory listing and an answer. The call has no id, so the client generates one.
fn two_turns() -> Vendor {
    let call =
        json!({ "index": 0, "type": "function", "function": { "name": "list", "arguments": "{\"path\":\".\"}" } });
    let looks = reply(&json!({ "tool_calls": [call] }), "tool_calls");
    Vendor::answering(vec![looks, reply(&json!({ "content": "There is one file." }), "stop")])
}

pub(crate) fn ended(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn live(pinion: &Pinion, vendor: &Vendor, more: &[&str]) -> Ended {
    let base = ["-p", "-m", "openai-chat/m", "--base-url", &vendor.url];
    let mut command = pinion.command(base.iter().chain(more));
    command.env("OPENAI_API_KEY", KEY);
    ended(command)
}

/// Returns the events of a run without times and durations.
fn events(stdout: &str) -> Vec<Value> {
    const OF_ITS_TIME: &[&str] =
        &["timestamp", "session_id", "run_id", "parent_run_id", "duration_ms", "elapsed_ms", "ledger", "details"];
    fn without(value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.into_iter().filter(|(name, _)| !OF_ITS_TIME.contains(&name.as_str()));
                Value::Object(fields.map(|(name, value)| (name, without(value))).collect())
            }
            Value::Array(items) => Value::Array(items.into_iter().map(without).collect()),
            other => other,
        }
    }
    stdout.lines().map(|line| without(serde_json::from_str(line).unwrap())).collect()
}

pub(crate) fn all_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] }).collect()
}

#[test]
fn recorded_run_replays_event_for_event() {
    let pinion = Pinion::default();
    pinion.write("a.txt", "hello");
    let file = pinion.home().join("run.jsonl");
    let record = ["--record", file.to_str().unwrap(), "--output-format", "stream-json", "what is here?"];
    let first = live(&pinion, &two_turns(), &record);
    assert_eq!(first.code, Some(0), "{first:?}");
    let replay = ["-p", "--replay", file.to_str().unwrap(), "--output-format", "stream-json", "what is here?"];
    let again = pinion.run(replay);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(first.stdout.contains("There is one file."));
    assert_eq!(events(&again.stdout), events(&first.stdout));
}

#[test]
fn diverging_replay_says_where() {
    let pinion = Pinion::default();
    let file = pinion.home().join("run.jsonl");
    live(&pinion, &two_turns(), &["--record", file.to_str().unwrap(), "what is here?"]);
    let asked_otherwise = pinion.run(["-p", "--replay", file.to_str().unwrap(), "what was here?"]);
    assert_eq!(asked_otherwise.code, Some(1), "{asked_otherwise:?}");
    let place = "request 1 differs at `$.messages[1].content`: recorded `what is here?`, now `what was here?`";
    assert!(asked_otherwise.stderr.contains(place), "{}", asked_otherwise.stderr);
    pinion.write("b.txt", "new");
    let found_otherwise = pinion.run(["-p", "--replay", file.to_str().unwrap(), "what is here?"]);
    assert!(
        found_otherwise.stderr.contains("request 2 differs at `$.messages[3].content`"),
        "{}",
        found_otherwise.stderr
    );
}

/// The key is in each supported place in turn, and the vendor repeats it in its refusal; `-vv` logs everything.
#[test]
fn key_reaches_the_vendor_and_nothing_else() {
    let said = json!({ "error": { "message": format!("Incorrect API key provided: {KEY}, {}****{}", &KEY[..5], &KEY[20..]) } });
    for place in ["environment", "auth.toml", "key-command"] {
        let pinion = Pinion::default();
        let vendor = Vendor::answering(vec![answer("401 Unauthorized", "application/json", &said.to_string())]);
        let command = format!("printf %s {KEY}");
        let key_command = if place == "key-command" { format!("key-command = '{command}'\n") } else { String::new() };
        pinion.config(&format!("[providers.openai-chat]\nbase-url = '{}'\n{key_command}", vendor.url));
        if place == "auth.toml" {
            let file = pinion.home().join("auth.toml");
            std::fs::write(&file, format!("[openai-chat]\nkey = \"{KEY}\"\n")).unwrap();
            #[cfg(unix)]
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        }
        let mut seen = String::new();
        let record = pinion.home().join("run.jsonl");
        let run = ["-vv", "-p", "-m", "openai-chat/m", "--record", record.to_str().unwrap(), "hi"];
        for arguments in [&run[..], &["model", "list"], &["doctor"]] {
            let mut command = pinion.command(arguments);
            if place == "environment" {
                command.env("OPENAI_API_KEY", KEY);
            }
            let ended = ended(command);
            if arguments == run {
                assert!(ended.code == Some(1) && ended.stderr.contains("Incorrect API key"), "{place}: {ended:?}");
            }
            seen.push_str(&format!("{}{}", ended.stdout, ended.stderr));
        }
        assert!(vendor.asked.lock().unwrap()[0].contains(&format!("authorization: bearer {}\r\n", KEY.to_lowercase())));
        let holds_it = |file: &PathBuf| ["auth.toml", "config.toml"].iter().any(|name| file.ends_with(name));
        for file in all_files(&pinion.home()).into_iter().filter(|file| !holds_it(file)) {
            seen.push_str(&String::from_utf8_lossy(&std::fs::read(file).unwrap()));
        }
        for start in 0..=KEY.len() - 8 {
            let piece = &KEY[start..start + 8];
            assert!(
                !seen.contains(piece),
                "{place}: {}",
                &seen[seen.find(piece).unwrap().saturating_sub(200)..][..300]
            );
        }
    }
}

#[test]
fn server_of_the_user_answers_under_its_own_name_without_a_model() {
    let chunk = r#"{"choices":[{"delta":{"content":"hello"},"finish_reason":"stop"}]}"#;
    let vendor = Vendor::answering(vec![answer("200 OK", "text/event-stream", &format!("data: {chunk}\n\n"))]);
    let pinion = Pinion::default();
    pinion.config(&format!(
        "[providers.box]\nformat = 'openai-chat'\nbase-url = '{}'\ndefault-model = 'qwen'\n",
        vendor.url
    ));
    for args in [&["-p", "hi"][..], &["-p", "--provider", "box", "hi"], &["-p", "-m", "box", "hi"]] {
        let run = pinion.run(args);
        assert_eq!((run.code, run.stdout.trim()), (Some(0), "hello"), "{run:?}");
    }
    let listed = pinion.run(["model", "list"]);
    assert!(listed.stdout.lines().any(|line| line.starts_with("box ") && line.contains("qwen")), "{listed:?}");
}

#[test]
fn model_list_shows_configured_models() {
    let pinion = Pinion::default();
    let mut command = pinion.command(["model", "list"]);
    command.env("MISTRAL_API_KEY", KEY);
    let listed = ended(command);
    let line = |beginning: &str| listed.stdout.lines().find(|line| line.starts_with(beginning)).unwrap_or_default();
    assert!(line("* mistral/").ends_with("p") || line("* mistral/").contains("cp"), "{}", listed.stdout);
    assert!(
        line("  anthropic/claude-opus-5-5").contains(" 4/20 ") && line("  anthropic/claude-opus-5-5").ends_with("itcp")
    );
    assert!(
        line("mistral ").ends_with("MISTRAL_API_KEY") && line("anthropic ").ends_with("none (set ANTHROPIC_API_KEY)")
    );
}

#[test]
fn fallback_answers_after_permanent_failure() {
    let pinion = Pinion::default();
    let refused = Vendor::answering(vec![answer("404 Not Found", "application/json", "{\"error\":\"no such model\"}")]);
    let other = Vendor::answering(vec![reply(&json!({ "content": "Here I am." }), "stop")]);
    pinion.config(&format!(
        "model = 'openai-chat/m'\nfallback = ['mistral/x']\n[providers.openai-chat]\nbase-url = '{}'\n\
         [providers.mistral]\nbase-url = '{}'\n",
        refused.url, other.url
    ));
    let ended = pinion.run(["-p", "hi"]);
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "Here I am."), "{ended:?}");
}

/// Returns a command that asks a vendor with a key in the environment.
fn with_groq(pinion: &Pinion, arguments: &[&str]) -> Command {
    let mut command = pinion.command(["-p"].iter().chain(arguments));
    command.env("GROQ_API_KEY", KEY);
    command
}

fn hello() -> Vendor {
    Vendor::answering(vec![reply(&json!({ "content": "hello" }), "stop")])
}

/// Prevents that anything is sent.
const NOWHERE: (&str, &str) = ("https_proxy", "http://127.0.0.1:1");
const NO_RETRIES: &str = "[retry]\nattempts = 0\n";

#[test]
fn key_alone_selects_provider_and_model() {
    let (pinion, vendor) = (Pinion::default(), hello());
    pinion.config(NO_RETRIES);
    let mut command = with_groq(&pinion, &["--output-format", "json", "hi"]);
    command.env(NOWHERE.0, NOWHERE.1);
    let done = ended(command);
    assert!(done.stderr.contains("`api.groq.com:443` through the proxy"), "{done:?}");
    assert!(done.stdout.contains(r#""model":"groq/openai/gpt-oss-120b""#), "{done:?}");
    // At an address of the config, the key goes there, and the vendor's default model is not assumed.
    pinion.config(&format!("{NO_RETRIES}[providers.groq]\nbase-url = '{}'\n", vendor.url));
    let done = ended(with_groq(&pinion, &["-m", "groq/m", "hi"]));
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "hello\n"), "{done:?}");
    assert!(vendor.asked.lock().unwrap()[0].contains(&format!("bearer {}", KEY.to_lowercase())));
}

#[test]
fn proxy_variables_apply_except_to_the_hosts_they_leave_out() {
    let (pinion, proxy) = (Pinion::default(), hello());
    pinion.config(NO_RETRIES);
    let asked = |variables: &[(&str, &str)]| {
        let mut command = with_groq(&pinion, &["-m", "groq/m", "--base-url", "http://model.invalid/v1", "hi"]);
        command.envs(variables.iter().copied());
        let code = ended(command).code;
        (code, proxy.asked.lock().unwrap().drain(..).next().unwrap_or_default())
    };
    for name in ["http_proxy", "all_proxy", "ALL_PROXY"] {
        let (code, head) = asked(&[(name, &proxy.url)]);
        assert!(code == Some(0) && head.starts_with("post http://model.invalid/v1/"), "{name}: {head}");
    }
    // Web servers set it from a header of a request.
    assert_eq!(asked(&[("HTTP_PROXY", &proxy.url)]), (Some(1), String::new()));
    for except in ["*", "model.invalid", ".invalid"] {
        assert_eq!(asked(&[("http_proxy", &proxy.url), ("no_proxy", except)]), (Some(1), String::new()), "{except}");
    }
}

#[test]
fn missing_certificate_file_is_announced() {
    let pinion = Pinion::default();
    pinion.config(NO_RETRIES);
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        let mut command = with_groq(&pinion, &["-m", "groq/m", "--base-url", "https://model.invalid/v1", "hi"]);
        command.env(name, "/nowhere/ca.pem");
        let ended = ended(command);
        assert!(ended.stderr.contains(&format!("! `/nowhere/ca.pem` ({name}) cannot be read")), "{ended:?}");
    }
}

#[test]
fn mistyped_model_of_a_known_provider_is_announced() {
    let pinion = Pinion::default();
    let mut command = pinion.command(["-p", "-m", "anthropic/claude-sonnet-5-6", "hi"]);
    pinion.config(NO_RETRIES);
    command.env("ANTHROPIC_API_KEY", KEY).env(NOWHERE.0, NOWHERE.1);
    let ended = ended(command);
    assert!(ended.stderr.contains("lists no model `claude-sonnet-5-6` (did you mean `claude-"), "{ended:?}");
}

/// An Ollama server with one model.
async fn ollama() -> HttpServer {
    HttpServer::start(|request| match request.uri().path() {
        "/api/tags" => pinion_tests::answer(200, &[], r#"{"models":[{"name":"moondream:latest"}]}"#),
        _ => pinion_tests::answer(
            200,
            &[("content-type", "application/x-ndjson")],
            "{\"message\":{\"role\":\"assistant\",\"content\":\"from the moon\"},\"done\":true,\"done_reason\":\"stop\"}\n",
        ),
    })
    .await
}

async fn named(server: &HttpServer, model: &str) -> Ended {
    let pinion = Pinion::default();
    let mut command = pinion.command(["-p", "-m", model, "hi"]);
    command.env("OLLAMA_HOST", server.url(""));
    tokio::task::spawn_blocking(move || ended(command)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn model_of_no_known_provider_is_looked_for_on_the_ollama_server() {
    let server = ollama().await;
    let run = named(&server, "moondream").await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "from the moon\n"), "{run:?}");
    assert_eq!(server.lines(), ["GET /api/tags", "POST /api/chat"]);
    let body: Value = serde_json::from_slice(server.requests()[1].body()).unwrap();
    assert_eq!(body["model"], "moondream:latest");
}

#[tokio::test(flavor = "multi_thread")]
async fn misspelled_model_is_an_error_that_says_that_ollama_was_asked() {
    let server = ollama().await;
    let run = named(&server, "moondram").await;
    let address = server.url("");
    let asked = format!("for the model `moondram`: Ollama at `{}` has no such model", address.trim_end_matches('/'));
    assert!(run.code == Some(2) && run.stderr.contains(&asked) && run.stderr.contains("PROVIDER/MODEL"), "{run:?}");
    assert_eq!(server.lines(), ["GET /api/tags"]);
    let near = named(&server, "clade-opus-5-5").await;
    assert!(near.stderr.contains("did you mean `claude-opus-5-5`"), "{near:?}");
    // No process listens at the port of a server that is gone.
    let gone = ollama().await;
    let address = gone.url("");
    drop(gone);
    let pinion = Pinion::default();
    let mut command = pinion.command(["-p", "-m", "moondream", "hi"]);
    command.env("OLLAMA_HOST", &address);
    let run = ended(command);
    assert!(run.code == Some(2) && run.stderr.contains("no Ollama server answers at `http://127.0.0.1:"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn known_model_costs_no_question_to_ollama() {
    let server = ollama().await;
    let run = named(&server, "claude-opus-5-5").await;
    assert!(run.code == Some(2) && run.stderr.contains("no key for `anthropic`"), "{run:?}");
    assert_eq!(server.connections(), 0);
}
