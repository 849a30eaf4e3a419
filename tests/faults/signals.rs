//! Signals at every stage of a run.

use super::{call, say, scripted, wrapped};
use pinion_tests::{Pinion, Terminal};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufReader, Read as _};
use std::process::{Child, Command, Stdio};

/// The signals that ask a program to stop, with the exit statuses that report them.
const SIGNALS: [(Signal, i32); 3] = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];

fn signal(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Reads lines of stdout until one contains `text`.
fn read_until(out: &mut impl std::io::BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended before `{text}`");
    }
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the content of the only session, or an empty text before it exists.
fn session(pinion: &Pinion) -> String {
    let mut files = Vec::new();
    for project in std::fs::read_dir(pinion.home().join("sessions")).into_iter().flatten() {
        files.extend(std::fs::read_dir(project.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.first().map(|file| std::fs::read_to_string(file).unwrap()).unwrap_or_default()
}

/// Returns the reason of the last run in the only session.
fn last_end(pinion: &Pinion) -> String {
    let text = session(pinion);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().rev().find(|line| line.to_string().contains("\"how\":")).map(Value::to_string).unwrap_or_default()
}

fn assert_stopped(pinion: &Pinion, mut child: Child, stage: &str, code: i32) {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    read_until(&mut out, stage);
    let number = SIGNALS.iter().find(|(_, status)| *status == code).unwrap().0;
    signal(child.id(), number);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code), "{stage}: {rest}");
    assert!(last_end(pinion).contains("aborted"), "{stage}: {}", last_end(pinion));
}

#[test]
fn signal_closes_the_session_at_every_stage() {
    let streaming = json!({ "text": "some words of an answer", "chunk": 2, "hang": true });
    let running = call("bash", json!({ "command": "trap '' INT TERM HUP; sleep 1000" }));
    // On a busy machine it takes a hundred turns until the threads that handle a signal have run.
    // Not the same call, which would end the run.
    let busy: Vec<Value> = (0..5_000).map(|n| call("list", json!({ "path": format!("missing-{n}") }))).collect();
    let stages = [
        ("agent_start", vec![json!({ "text": "", "hang": true })]),
        ("message_update", vec![streaming]),
        ("tool_execution_start", vec![running]),
        // Each turn writes the session.
        ("turn_end", busy),
    ];
    for (_, code) in SIGNALS {
        for (stage, replies) in &stages {
            let pinion = Pinion::default();
            let options = ["--approve", "all", "--output-format", "stream-json", "--max-turns", "10000"];
            assert_stopped(&pinion, start(scripted(&pinion, replies, &options)), stage, code);
        }
    }
}

/// A run that writes events waits for the reader of its output. A signal must end it all the same.
#[test]
fn signal_ends_a_run_whose_output_nobody_reads() {
    // Not the same call, which would end the run.
    let busy: Vec<Value> = (0..5_000).map(|n| call("list", json!({ "path": format!("missing-{n}") }))).collect();
    let assert_ends = |number: Signal, status: i32| {
        let pinion = Pinion::default();
        let options = ["--output-format", "stream-json", "--max-turns", "10000"];
        let (_unread, stdout) = rustix::pipe::pipe().unwrap();
        // Less than the first turns write.
        rustix::pipe::fcntl_setpipe_size(&stdout, 4_096).unwrap();
        let mut command = scripted(&pinion, &busy, &options);
        let mut child = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn().unwrap();
        pinion_tests::wait_until("the run is under way", || session(&pinion).lines().count() > 20);
        signal(child.id(), number);
        let mut ended = None;
        pinion_tests::wait_until("the program ends", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.and_then(|ended| ended.code()), Some(status));
        assert!(last_end(&pinion).contains("aborted"), "{}", last_end(&pinion));
    };
    std::thread::scope(|scope| {
        for (number, status) in SIGNALS {
            scope.spawn(move || assert_ends(number, status));
        }
    });
}

#[test]
fn ignored_signal_stays_ignored() {
    for (number, name) in [(Signal::HUP, "HUP"), (Signal::INT, "INT"), (Signal::TERM, "TERM")] {
        let pinion = Pinion::default();
        let replies =
            [call("bash", json!({ "command": "touch begun; until [ -e go ]; do sleep 0.01; done" })), say("done")];
        let command = scripted(&pinion, &replies, &["--approve", "all"]);
        let trap = format!("trap '' {name}; exec \"$@\"");
        let child = start(wrapped(&["sh", "-c", &trap, "sh"], &command));
        pinion_tests::wait_until("the tool runs", || pinion.workspace().join("begun").exists());
        signal(child.id(), number);
        pinion.write("go", "");
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"done\n"[..]), "{name}");
    }
}

fn terminal(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Terminal {
    let script = pinion.script(replies);
    let base = ["--replay", script.to_str().unwrap()];
    Terminal::start(&pinion.command(base.iter().chain(more)), (80, 24), "")
}

/// Ends a conversation by a signal, and asserts that its terminal is usable afterwards.
fn assert_ends(terminal: Terminal, number: Signal, code: i32) {
    signal(terminal.pid(), number);
    pinion_tests::wait_until("the terminal is restored", || terminal.is_restored());
    let (status, seen) = terminal.end();
    assert_eq!(status, Some(code), "{seen}");
    let after = &seen[seen.rfind("\x1b[?2004h").unwrap_or(0)..];
    assert!(!seen.contains("\x1b[?2004h") || after.contains("\x1b[?2004l"), "bracketed paste is still on: {seen:?}");
}

#[test]
fn signal_at_the_prompt_ends_the_conversation_and_restores_the_terminal() {
    for (number, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let pinion = Pinion::default();
        let mut terminal = terminal(&pinion, &[say("hello there")], &[]);
        terminal.wait_for("› ");
        terminal.keys("hi\r");
        terminal.wait_for("hello there");
        terminal.wait_for_nth("› ", 2);
        assert_ends(terminal, number, code);
    }
}

#[test]
fn signal_during_a_run_or_a_question_ends_the_conversation() {
    let asks = call("bash", json!({ "command": "true" }));
    // A block is shown once it is complete, because it is laid out as a whole.
    let streams = json!({ "text": "some words\n\nof an answer", "hang": true });
    for (reply, shown) in [(asks, "always in this session"), (streams, "some words")] {
        for (number, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
            let pinion = Pinion::default();
            let terminal = terminal(&pinion, std::slice::from_ref(&reply), &["--approve", "ask", "go"]);
            terminal.wait_for(shown);
            assert_ends(terminal, number, code);
            assert!(last_end(&pinion).contains("aborted"), "{}", last_end(&pinion));
        }
    }
}
