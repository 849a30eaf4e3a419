//! The memory of a session as long as a day. Then times of frames of the UI at 200×50, with transcripts of 10,000 and 100,000
//! messages: from an input to the bytes for the terminal. Exits with 1 if frames take longer than their bound, which is meant for
//! a machine with nothing else to do.
//!
//! Run `cargo bench -p pinion-tui --bench frame`. Memory on Linux only.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its results and may panic")]

use crossterm::event::{Event as TerminalEvent, KeyCode, KeyEvent, KeyModifiers};
use pinion_protocol::{AssistantMessage, Content, Delta, Event, EventKind, Message, Role, StopReason, Usage};
use pinion_tui::{App, Buffer, Input, Rect, Screen, Settings};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: Rect = Rect { x: 0, y: 0, width: 200, height: 50 };
/// Frames of each kind.
const FRAMES: u64 = 3_000;
/// Bound of a frame, for 99 of 100.
const FRAME: Duration = Duration::from_millis(4);
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
        let mut app = App::new(Settings::default());
        let text = |n: usize| {
            format!("message {n}: some words with `code`, **bold** text and 世界, long enough to wrap on most screens")
        };
        let event = |n| Event {
            loop_id: "run".into(),
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
        self.input(Input::Event(Event { loop_id: "run".into(), kind }));
    }

    fn token(&mut self, text: &str) {
        self.event(EventKind::MessageUpdate { index: 0, delta: Delta::Text { delta: text.to_owned() } });
    }
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    // First, because memory that was used before would be used again.
    day();
    files();
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
    if slowest > FRAME {
        println!("missed: 99 of 100 frames take at most {FRAME:?}");
        std::process::exit(1);
    }
}

/// Times each key of a file's name behind `@`, among 100,000 files.
fn files() {
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
        print_percentiles(&format!("the last key of `{typed}`"), times);
    }
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

/// Shows a session of a day, and prints how its memory grows, beyond the text itself.
fn day() {
    let mut bench = Bench::new(0);
    println!("{ANSWERS} answers of {TOKENS} tokens");
    let before = memory();
    let mut bytes = 0;
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
        }
    }
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
