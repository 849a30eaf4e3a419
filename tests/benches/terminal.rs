//! Waiting times of a person at a terminal, with the real command: the first frame, the first frame of a long session
//! and its first key, and a typed key while an answer streams; then the processor time of streaming and of waiting.
//! Exits with 1 if one of them misses its bound, which is meant for an optimised build on a machine with nothing else
//! to do.
//!
//! Run `cargo build --release --bins`, then `cargo bench -p pinion-tests --bench terminal`; `PINION_BIN` names another build.
//! Linux only: reads `/proc`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its results and may panic")]

use pinion_agent::message::{AssistantMessage, StopReason};
use pinion_agent::{Content, Message, SessionStore as _, Usage};
use pinion_session_store::SessionDirectory;
use pinion_tests::{Pinion, start_on_terminal};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const SIZE: (u16, u16) = (200, 50);
const STARTS: usize = 40;
const RESUMES: usize = 15;
const ENTRIES: usize = 100_000;
const TOKENS_PER_SECOND: u32 = 500;
/// Time between two packets of the answer.
const PACKET: Duration = Duration::from_millis(20);
const ANSWER: Duration = Duration::from_secs(30);
/// Time between two keys.
const KEYS: Duration = Duration::from_millis(60);
const IDLE: Duration = Duration::from_secs(10);
/// Bounds of the first frame, without and with a long session, for half of the starts.
const FIRST_FRAME: Duration = Duration::from_millis(25);
const RESUMED: Duration = Duration::from_millis(120);
/// Bound of a key while an answer streams, for 99 of 100.
const KEY: Duration = Duration::from_millis(10);
/// Bounds of the share of a core and of the bytes of a token while an answer streams.
const SHARE: f64 = 8.0;
const BYTES: f64 = 40.0;
/// Bound of the processor time while nothing happens, which is 0 % of a core.
const WAITING: Duration = Duration::from_millis(1);
/// Appears in the first frame of a conversation, at its end.
const FIRST: &str = "lists commands";

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let met = [start(), resume(), stream()];
    if met.contains(&false) {
        std::process::exit(1);
    }
}

/// Says whether a bound is met.
fn bounded(what: &str, is_met: bool) -> bool {
    if !is_met {
        println!("missed: {what}");
    }
    is_met
}

/// A command on a terminal, with the times when its output arrived.
struct Shown {
    child: Child,
    keys: File,
    output: Receiver<(Instant, Vec<u8>)>,
    /// The end of the output, in case a text is cut in two.
    last: Vec<u8>,
    bytes: usize,
}

impl Shown {
    fn start(command: &Command) -> Self {
        let (child, keys) = start_on_terminal(command, SIZE, "");
        let (sender, output) = channel();
        let mut from = keys.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 64 << 10];
            // Linux reports an error once all other ends are closed.
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                if sender.send((Instant::now(), bytes[..length].to_vec())).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, output, last: Vec::new(), bytes: 0 }
    }

    /// Waits for a text and returns the time when it was complete.
    fn wait_for(&mut self, text: &str) -> Instant {
        loop {
            let (arrived, bytes) = self.output.recv_timeout(Duration::from_secs(60)).unwrap();
            self.bytes += bytes.len();
            let kept = self.last.len().saturating_sub(text.len());
            self.last.drain(..kept);
            self.last.extend_from_slice(&bytes);
            if self.last.windows(text.len()).any(|window| window == text.as_bytes()) {
                return arrived;
            }
        }
    }

    /// Forgets the output that has arrived.
    fn forget(&mut self) {
        self.bytes += self.output.try_iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        self.last.clear();
    }

    fn type_keys(&mut self, keys: &str) -> Instant {
        self.keys.write_all(keys.as_bytes()).unwrap();
        Instant::now()
    }

    /// Returns the processor time that the command has taken. A thread that ends takes its part along.
    fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id()));
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let of = |text: std::io::Result<String>| -> u64 {
            text.ok().and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0)
        };
        let all = threads.map(|thread| of(std::fs::read_to_string(thread.unwrap().path().join("schedstat"))));
        Duration::from_nanos(all.sum::<u64>().max(of(stat)))
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints how long something took, and returns the median and the 99th percentile.
fn print(what: &str, mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{what:<52} p50 {:>7.2} ms   p99 {:>7.2} ms", milliseconds(at(50)), milliseconds(at(99)));
    (at(50), at(99))
}

/// Measures the first frame, by turns with a program that prints a line and one that only says its version.
fn start() -> bool {
    let pinion = Pinion::default();
    let script = pinion.script(&[]);
    let arguments = ["--replay", script.to_str().unwrap()];
    let mut echo = Command::new("/bin/echo");
    echo.arg(FIRST).current_dir(pinion.workspace());
    let commands = [
        ("`echo` on the same terminal", echo, FIRST),
        ("`pinion --version` there", pinion.default_command(["--version"]), "pinion"),
        ("first frame of a conversation", pinion.default_command(arguments), FIRST),
    ];
    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 0..=STARTS {
        for ((_, command, text), times) in commands.iter().zip(&mut times) {
            let started = Instant::now();
            let shown = Shown::start(command).wait_for(text);
            // The first round compiles the built-in plugins.
            if round > 0 {
                times.push(shown - started);
            }
        }
    }
    let medians: Vec<_> = commands.iter().zip(times).map(|((what, ..), times)| print(what, times).0).collect();
    bounded(&format!("the first frame takes at most {FIRST_FRAME:?}"), medians[2] <= FIRST_FRAME)
}

/// Measures the first frame of a session with many entries, by turns with reading its file.
fn resume() -> bool {
    let pinion = Pinion::default();
    let script = pinion.script(&[]);
    let session = SessionDirectory::new(pinion.home().join("sessions")).begin(&pinion.workspace());
    for number in 0..ENTRIES {
        let text =
            format!("message {number}: some words with `code`, **bold** text and 世界, as long as one usually is");
        let message = if number.is_multiple_of(2) { Message::user(text) } else { reply(text) };
        session.append(&Arc::new(message)).unwrap();
    }
    let file = session.path().to_owned();
    drop(session);
    let command = pinion.default_command(["-c", "--replay", script.to_str().unwrap()]);
    let last = format!("message {}", ENTRIES - 1);
    let [mut times, mut reads, mut keys] = <[Vec<Duration>; 3]>::default();
    for round in 0..=RESUMES {
        let started = Instant::now();
        std::hint::black_box(std::fs::read(&file).unwrap());
        let read = started.elapsed();
        let started = Instant::now();
        let mut terminal = Shown::start(&command);
        let shown = terminal.wait_for(&last);
        terminal.type_keys("~");
        let answered = terminal.wait_for("~");
        if round > 0 {
            reads.push(read);
            times.push(shown - started);
            keys.push(answered - started);
        }
    }
    let megabytes = std::fs::metadata(&file).unwrap().len() as f64 / 1e6;
    print(&format!("reading the file of {ENTRIES} entries, {megabytes:.0} MB"), reads);
    let (median, _) = print(&format!("first frame of a session of {ENTRIES} entries"), times);
    print("its first key on the screen", keys);
    bounded(&format!("the first frame of a session takes at most {RESUMED:?}"), median <= RESUMED)
}

fn reply(text: String) -> Message {
    let Message::User(user) = Message::user("") else { unreachable!() };
    Message::Assistant(AssistantMessage {
        content: vec![Content::text(text)],
        stop_reason: StopReason::Stop,
        provider: "bench".into(),
        model: "bench".into(),
        requested_model: None,
        usage: Usage::default(),
        cost: None,
        error: None,
        timestamp: user.timestamp,
    })
}

/// Measures keys, bytes and processor time while an answer streams, and the latter two afterwards.
fn stream() -> bool {
    let pinion = Pinion::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || answer(&listener));
    let command = pinion.default_command(["-m", "openai-chat/bench", "--base-url", &url]);
    let mut shown = Shown::start(&command);
    shown.wait_for(FIRST);
    shown.type_keys("go\r");
    shown.wait_for("begin");
    shown.forget();
    let (before, begun, bytes) = (shown.processor_time(), Instant::now(), shown.bytes);
    std::thread::sleep(ANSWER / 3);
    shown.forget();
    let (time, taken) = (begun.elapsed(), shown.processor_time().saturating_sub(before));
    let tokens = time.as_secs_f64() * f64::from(TOKENS_PER_SECOND);
    let share = 100.0 * taken.as_secs_f64() / time.as_secs_f64();
    println!("{:<52} {share:>11.1} %", format!("processor time at {TOKENS_PER_SECOND} tokens/s"));
    let written = (shown.bytes - bytes) as f64 / tokens;
    println!("{:<52} {written:>11.1}", "bytes written per token");
    let mut times = Vec::new();
    while begun.elapsed() < ANSWER.mul_f64(0.9) {
        let typed = shown.type_keys("~");
        times.push(shown.wait_for("~") - typed);
        std::thread::sleep(KEYS / 2);
        shown.type_keys("\x7f");
        std::thread::sleep(KEYS / 2);
        shown.forget();
    }
    let keys = times.len();
    let (_, slowest) = print(&format!("key to its bytes meanwhile, {keys} keys"), times);
    shown.wait_for("finish");
    std::thread::sleep(Duration::from_secs(2));
    shown.forget();
    let (before, bytes) = (shown.processor_time(), shown.bytes);
    std::thread::sleep(IDLE);
    shown.forget();
    let (idle, idle_bytes) = (shown.processor_time().saturating_sub(before), shown.bytes - bytes);
    println!(
        "{:<52} {:>8.2} ms, {idle_bytes} bytes",
        format!("waiting for {} s: processor time, bytes written", IDLE.as_secs()),
        idle.as_secs_f64() * 1e3,
    );
    let met = [
        bounded(&format!("streaming takes at most {SHARE} % of a core"), share <= SHARE),
        bounded(&format!("a token takes at most {BYTES} bytes"), written <= BYTES),
        bounded(&format!("99 of 100 keys take at most {KEY:?}"), slowest <= KEY),
        bounded(&format!("waiting takes at most {WAITING:?} and no bytes"), idle <= WAITING && idle_bytes == 0),
    ];
    !met.contains(&false)
}

/// Streams an answer to the first request, in Markdown.
fn answer(listener: &TcpListener) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").unwrap();
    let chunk = |text: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"model\":\"bench\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\
             \"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let tokens = TOKENS_PER_SECOND * u32::try_from(PACKET.as_millis()).unwrap() / 1000;
    let mut number = 0_u32;
    let begun = Instant::now();
    let mut packet = chunk("begin ", "null");
    while begun.elapsed() < ANSWER {
        for _ in 0..tokens {
            number += 1;
            let token = match number {
                n if n.is_multiple_of(200) => "end.\\n\\n".to_owned(),
                n if n.is_multiple_of(37) => "**bold** ".to_owned(),
                n => format!("word{} ", n % 100),
            };
            packet.push_str(&chunk(&token, "null"));
        }
        stream.write_all(packet.as_bytes()).unwrap();
        packet.clear();
        // Against the beginning, so that the pace does not depend on the load.
        let due = PACKET * (number / tokens);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    let end = chunk("finish", "null") + &chunk("", "\"stop\"") + "data: [DONE]\n\n";
    stream.write_all(end.as_bytes()).unwrap();
}
