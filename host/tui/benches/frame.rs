//! Measures frames of the UI at 200×50: with long transcripts, while an answer grows, and from a key to its bytes.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use crossterm::event::{Event as TerminalEvent, KeyCode, KeyEvent, KeyModifiers};
use pinion_protocol::{Delta, Event, EventKind, Message};
use pinion_tui::{App, Buffer, Input, Rect, Screen, Settings};
use std::sync::Arc;
use std::time::Duration;

const SIZE: Rect = Rect { x: 0, y: 0, width: 200, height: 50 };

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
        let messages: Vec<Arc<Message>> = (0..items).map(|n| Arc::new(Message::user(text(n)))).collect();
        app.handle(Input::Session(messages), Duration::ZERO);
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

    fn token(&mut self, text: &str) {
        let delta = Delta::Text { delta: text.to_owned() };
        self.input(Input::Event(Event { loop_id: "run".into(), kind: EventKind::MessageUpdate { index: 0, delta } }));
    }
}

fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame");
    for items in [10_000, 100_000] {
        group.bench_function(BenchmarkId::new("resume_to_first_frame", items), |bencher| {
            bencher.iter(|| Bench::new(items).app.items());
        });
        let mut bench = Bench::new(items);
        group.bench_function(BenchmarkId::new("page_up", items), |bencher| {
            bencher.iter(|| {
                bench.key(KeyCode::PageUp);
                bench.frame()
            });
        });
        let mut bench = Bench::new(items);
        group.bench_function(BenchmarkId::new("key", items), |bencher| {
            bencher.iter(|| {
                bench.key(KeyCode::Char('x'));
                let bytes = bench.frame();
                bench.key(KeyCode::Backspace);
                bytes
            });
        });
        let (mut bench, mut count) = (Bench::new(items), 0_u64);
        group.bench_function(BenchmarkId::new("token", items), |bencher| {
            bencher.iter(|| {
                count += 1;
                bench.token(if count.is_multiple_of(100) { " end.\n\n" } else { " token" });
                bench.frame()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, frames);
criterion_main!(benches);
