//! The memory of a session as long as a day. Then times of frames of the UI at 200×50, with transcripts of 10,000 and 100,000
//! messages: from an input to the bytes for the terminal. Exits with 1 if memory, keys or frames exceed their bounds, which are
//! meant for a machine with nothing else to do.
//!
//! Run `cargo bench -p pinion-tui --bench frame`. Memory on Linux only.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its results and may panic")]

use crossterm::event::{Event as TerminalEvent, KeyCode, KeyEvent, KeyModifiers};
use pinion_protocol::{AssistantMessage, Content, ContentDelta, Event, EventKind, Message, Role, StopReason, Usage};
use pinion_tui::{App, Buffer, Input, Rect, Screen, UiSettings};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: Rect = Rect { x: 0, y: 0, width: 200, height: 50 };
/// Frames of each kind.
const FRAMES: u64 = 3_000;
/// Bound of a frame, for 99 of 100.
const FRAME: Duration = Duration::from_millis(4);
/// Bound of a key of a file's name behind `@`, for 99 of 100.
const FILE_KEY: Duration = Duration::from_millis(60);
/// Bound of the memory for a session of a day, in bytes for each byte of its text.
const MEMORY: f64 = 4.0;
/// Times that a session is shown.
const RESUMES: u64 = 20;
/// Answers of a long session, one every 20 seconds for a day, and their length in tokens.
const ANSWERS: u64 = 4_320;
const TOKENS: u64 = 200;

struct Bench {
    app: App,
    screen: Screen,
    buffer: Buffer,
    now: Duration,
}

impl Bench {
    fn new(items: usize) -> Self {
        let mut app = App::new(UiSettings::default());
        let text = |n: usize| {
            format!("message {n}: some words with `code`, **bold** text and 世界, long enough to wrap on most screens")
        };
        let event = |n| Event {
            run_id: "run".into(),
            kind: EventKind::MessageEnd { message: Arc::new(Message::user(text(n))) },
        };
        let events: Vec<Event> = (0..items).map(event).collect();
        app.handle(Input::Session(events), Duration::ZERO);
        let screen = Screen::new(SIZE.width, SIZE.height);
        let mut bench = Self { app, screen, buffer: Buffer::empty(SIZE), now: Duration::ZERO };
        bench.frame();
        bench
    }

    fn input(&mut self, input: Input) {
        self.now += Duration::from_millis(5);
        self.app.handle(input, self.now);
    }

    fn frame(&mut self) -> usize {
        let cursor = self.app.draw(&mut self.buffer, self.now);
        self.screen.draw(&self.buffer, self.app.links(), cursor).len()
    }

    fn key(&mut self, code: KeyCode) {
        self.input(Input::Terminal(TerminalEvent::Key(KeyEvent::new(code, KeyModifiers::NONE))));
    }

    fn event(&mut self, kind: EventKind) {
        self.input(Input::Event(Event { run_id: "run".into(), kind }));
    }

    fn token(&mut self, text: &str) {
        self.event(EventKind::MessageUpdate { index: 0, delta: ContentDelta::Text { delta: text.to_owned() } });
    }
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    // First, because memory that was used before would be used again.
    let memory = day();
    let file_key = files();
    let mut slowest = Duration::ZERO;
    for items in [10_000, 100_000] {
        println!("{items} messages");
        measure("from the messages to the first frame", RESUMES, |_| {
            black_box(Bench::new(items).app.items());
        });
        let mut bench = Bench::new(items);
        let page = measure("a page up", FRAMES, |_| {
            bench.key(KeyCode::PageUp);
            black_box(bench.frame());
        });
        let mut bench = Bench::new(items);
        let character = measure("a typed character", FRAMES, |number| {
            bench.key(if number.is_multiple_of(2) { KeyCode::Backspace } else { KeyCode::Char('x') });
            black_box(bench.frame());
        });
        let mut bench = Bench::new(items);
        let token = measure("a token of an answer of 500 kB", FRAMES, |number| {
            // Twenty tokens arrive between two frames, so that the answer becomes long.
            (0..20).for_each(|_| bench.token("streamed "));
            bench.token(if number.is_multiple_of(5) { "end.\n\n" } else { "token " });
            black_box(bench.frame());
        });
        let mut bench = Bench::new(items);
        let width = measure("a new width", FRAMES / 30, |number| {
            let width = if number.is_multiple_of(2) { 120 } else { 200 };
            bench.input(Input::Terminal(TerminalEvent::Resize(width, 50)));
            bench.screen = Screen::new(width, 50);
            bench.buffer = Buffer::empty(Rect { width, ..SIZE });
            black_box(bench.frame());
        });
        slowest = slowest.max(page).max(character).max(token).max(width);
    }
    let bounds = [
        (slowest > FRAME, format!("99 of 100 frames take at most {FRAME:?}, and not {slowest:?}")),
        (file_key > FILE_KEY, format!("99 of 100 keys behind `@` take at most {FILE_KEY:?}, and not {file_key:?}")),
        (memory > MEMORY, format!("a byte of text takes at most {MEMORY} bytes of memory, and not {memory:.1}")),
    ];
    let missed: Vec<_> = bounds.iter().filter(|(is_missed, _)| *is_missed).collect();
    missed.iter().for_each(|(_, bound)| println!("missed: {bound}"));
    std::process::exit(i32::from(!missed.is_empty()));
}

/// Times each key of a file's name behind `@`, among 100,000 files. Returns the time of the slowest one.
fn files() -> Duration {
    let mut slowest = Duration::ZERO;
    let path = |n: usize| format!("crates/part-{}/src/module_{}/file_{n}.rs", n % 97, n % 1_013);
    let files: Vec<String> = (0..100_000).map(path).collect();
    println!("{} files", files.len());
    let files = Arc::new(files);
    for typed in ["@", "@m", "@mo", "@mod", "@mod4"] {
        let mut times = Vec::new();
        for _ in 0..RESUMES {
            let mut bench = Bench::new(100);
            bench.input(Input::Files { paths: files.clone(), is_cut: false });
            let (last, before) = typed.as_bytes().split_last().unwrap();
            before.iter().for_each(|c| bench.key(KeyCode::Char(char::from(*c))));
            let started = Instant::now();
            bench.key(KeyCode::Char(char::from(*last)));
            black_box(bench.frame());
            times.push(started.elapsed());
        }
        slowest = slowest.max(print_percentiles(&format!("the last key of `{typed}`"), times));
    }
    slowest
}

/// Times frames and prints percentiles. Returns the 99th one.
fn measure(what: &str, times: u64, mut frame: impl FnMut(u64)) -> Duration {
    let once = |number| {
        let started = Instant::now();
        frame(number);
        started.elapsed()
    };
    print_percentiles(what, (0..times).map(once).collect())
}

/// Prints percentiles and returns the 99th one.
fn print_percentiles(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let time = |part: usize| times[(times.len() - 1) * part / 100];
    let at = |part: usize| time(part).as_secs_f64() * 1e3;
    println!("  {what:<40} p50 {:>8.3} ms   p99 {:>8.3} ms   most {:>8.3} ms", at(50), at(99), at(100));
    time(99)
}

/// Shows a session of a day, and prints how its memory grows. Returns its bytes for each byte of text, and 0 on systems that do
/// not tell them.
fn day() -> f64 {
    let mut bench = Bench::new(0);
    println!("{ANSWERS} answers of {TOKENS} tokens");
    let before = memory();
    let (mut bytes, mut for_each) = (0, 0.0);
    for answer in 1..=ANSWERS {
        bench.event(EventKind::MessageEnd { message: Arc::new(Message::user(format!("question {answer}"))) });
        bench.event(EventKind::MessageStart { role: Role::Assistant });
        let mut text = String::new();
        for number in 0..TOKENS {
            let token = format!("{answer}-{number} ");
            bench.token(&token);
            text.push_str(&token);
            if number.is_multiple_of(8) {
                bench.frame();
            }
        }
        bytes += text.len();
        bench.event(EventKind::MessageEnd { message: Arc::new(reply(text)) });
        bench.frame();
        if answer.is_multiple_of(ANSWERS / 4) {
            let text = bytes as f64 / 1e6;
            let grown = before.zip(memory()).map_or(f64::NAN, |(before, now)| now - before);
            println!("  after {answer:>5}: {text:>6.1} MB of text, {grown:>6.1} MB more memory");
            for_each = if grown.is_nan() { 0.0 } else { grown / text };
        }
    }
    for_each
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

/// Returns the resident memory in MB.
fn memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kilobytes| kilobytes / 1024.0)
}
