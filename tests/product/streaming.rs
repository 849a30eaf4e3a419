//! The text of a run without a conversation, on stdout while it arrives or when the run ends.

use pinion_tests::{Ended, Pinion, Terminal, say};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Far more time than the command takes to write its output.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A reply with text and a call, and one that ends the run.
fn replies() -> [Value; 2] {
    [json!({ "text": "I look.", "calls": [{ "tool": "list", "arguments": { "path": "." } }] }), say("done")]
}

fn command(pinion: &Pinion, replies: &[Value], options: &[&str]) -> Command {
    let script = pinion.script(replies);
    pinion.command(["-p", "--replay", script.to_str().unwrap()].iter().chain(options).chain(&["go"]))
}

fn run(pinion: &Pinion, options: &[&str]) -> Ended {
    let output = command(pinion, &replies(), options).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn pipe_gets_the_last_message_alone_unless_it_asks_for_a_stream() {
    let pinion = Pinion::default();
    let seen = |options: &[&str]| {
        let ended = run(&pinion, options);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    assert_eq!(seen(&[]), "done\n");
    assert_eq!(seen(&["--stream"]), "I look.\ndone\n");
    assert_eq!(seen(&["--stream", "-v"]), "I look.\ndone\n");
    // A format of one object stays one.
    let object: Value = serde_json::from_str(&seen(&["--stream", "--output-format", "json"])).unwrap();
    assert_eq!(object["result"], "done");
    pinion.config("stream = true\n");
    assert_eq!(seen(&[]), "I look.\ndone\n");
    pinion.config("stream = false\n");
    assert_eq!((seen(&[]), seen(&["--stream"])), ("done\n".to_owned(), "I look.\ndone\n".to_owned()));
}

#[test]
fn failed_run_has_the_same_status_and_error_with_a_stream() {
    let pinion = Pinion::default();
    let [plain, streamed] =
        [&["--max-turns", "1"][..], &["--max-turns", "1", "--stream"]].map(|more| run(&pinion, more));
    assert!(plain.code != Some(0) && !plain.stderr.is_empty(), "{plain:?}");
    assert_eq!((plain.code, plain.stderr), (streamed.code, streamed.stderr));
    assert_eq!((plain.stdout, streamed.stdout), ("I look.\n".to_owned(), "I look.\n".to_owned()));
}

#[test]
fn terminal_shows_every_message_once_and_neutralized() {
    let pinion = Pinion::default();
    let [first, _] = replies();
    let last = say("the **last**\x1b[2J words");
    let on_terminal = |options: &[&str]| {
        let (code, seen) =
            Terminal::start(&command(&pinion, &[first.clone(), last.clone()], options), (80, 24), "").end();
        assert_eq!(code, Some(0), "{seen}");
        assert!(!seen.contains("\x1b[2J"), "{seen:?}");
        [seen.matches("I look.").count(), seen.matches("last").count(), seen.matches("words").count()]
    };
    assert_eq!(on_terminal(&[]), [1, 1, 1]);
    assert_eq!(on_terminal(&["-q"]), [1, 1, 1]);
    assert_eq!(on_terminal(&["-v"]), [1, 1, 1]);
    pinion.config("stream = false\n");
    assert_eq!(on_terminal(&[]), [0, 1, 1]);
}

/// A vendor that sends one piece, waits for a word, and sends the rest. Returns whether the word came in time.
fn vendor(word: Receiver<()>) -> (String, JoinHandle<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let (mut reader, mut writer) = (BufReader::new(stream.try_clone().unwrap()), stream);
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = n.trim().parse().unwrap();
            }
            line.clear();
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let chunk = |delta: Value, finish: Value| {
            let choices = [json!({ "index": 0, "delta": delta, "finish_reason": finish })];
            format!("data: {}\n\n", json!({ "id": "c", "model": "m", "choices": choices }))
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let first = chunk(json!({ "content": "one, " }), Value::Null);
        writer.write_all(format!("{head}{first}").as_bytes()).unwrap();
        let is_in_time = word.recv_timeout(TIMEOUT).is_ok();
        let rest = chunk(json!({ "content": "two" }), Value::Null) + &chunk(json!({}), json!("stop"));
        writer.write_all(format!("{rest}data: [DONE]\n\n").as_bytes()).unwrap();
        is_in_time
    });
    (url, serving)
}

#[test]
fn piece_of_a_reply_is_written_before_the_next_one_arrives() {
    let pinion = Pinion::default();
    let (said, word): (Sender<()>, _) = mpsc::channel();
    let (url, serving) = vendor(word);
    let mut command = pinion.command(["-p", "--stream", "-m", "openai-chat/m", "--base-url", &url, "go"]);
    let mut child = command.env("OPENAI_API_KEY", "sk-test-aaaaaaaaaaaaaaaa").stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 5];
    stdout.read_exact(&mut first).unwrap();
    // Too late if the command waits for the end of the reply.
    let _ = said.send(());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(serving.join().unwrap(), "the first piece was written only when the reply was complete");
    assert_eq!((&first, rest.as_str(), child.wait().unwrap().code()), (b"one, ", "two\n", Some(0)));
}

#[test]
fn plan_is_not_streamed() {
    let ended = Pinion::default().run(["--plan", "--stream", "go"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("--stream"), "{ended:?}");
}
