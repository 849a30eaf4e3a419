//! The inline form in an emulated terminal: the scrollback gets every final row once, and the live region is below them.

use crate::random::{Step, apply, steps};
use crate::ui::assert_screen;
use crate::ui::{Ui, done, of_past};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::{Content, ContentDelta, EventKind, Message, Thinking};
use pinion_tui::{Buffer, Inline, Input, text_of};
use proptest::prelude::*;
use serde_json::json;

/// A UI in an emulated terminal, which cuts its rows off when it gets narrower.
struct Emulated {
    ui: Ui,
    inline: Inline,
    terminal: vt100::Parser,
    /// The rows that are final.
    settled: Vec<String>,
    written: usize,
    /// The part of a text that the emulator and the UI have to agree on.
    shown: fn(&str) -> String,
}

fn rows(buffer: &Buffer) -> Vec<String> {
    let text = text_of(buffer);
    text.split('\n').take(buffer.area().height.into()).map(str::to_owned).collect()
}

impl Emulated {
    fn new(columns: u16, rows: u16) -> Self {
        let terminal = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 100_000);
        let (ui, inline) = (Ui::inline(columns, rows), Inline::new(false));
        Self { ui, inline, terminal, settled: Vec::new(), written: 0, shown: str::to_owned }
    }

    /// Draws frames until nothing is missing, and compares the emulated terminal with each one.
    fn draw(&mut self) {
        loop {
            let (columns, height) = self.ui.size;
            let frame = self.ui.app.draw_inline(columns, height, self.ui.now);
            let bytes = self.inline.draw(&frame, self.ui.app.links(), height).to_vec();
            self.written += bytes.len();
            // The emulator drops the mark of text that cannot be shown, and keeps the earlier content of its place.
            let known = String::from_utf8(bytes).unwrap().replace(char::REPLACEMENT_CHARACTER, "·");
            self.terminal.process(known.as_bytes());
            self.settled.extend(rows(&frame.settled));
            let expected = [self.settled.clone(), rows(&frame.live)].concat().join("\n");
            assert_eq!((self.shown)(&self.contents()).trim_end(), (self.shown)(&expected).trim_end());
            if let Some((x, y)) = frame.cursor {
                let (row, column) = self.terminal.screen().cursor_position();
                assert_eq!(column, x);
                let below = frame.live.area().height - 1 - y;
                assert_eq!(usize::from(below), self.inline.rows_below());
                assert!(row + below < height);
            }
            if !frame.has_more && !self.ui.highlight() {
                return;
            }
        }
    }

    /// Returns the scrollback and the screen.
    fn contents(&mut self) -> String {
        let columns = self.ui.size.0;
        let screen = self.terminal.screen_mut();
        screen.set_scrollback(usize::MAX);
        let mut all = Vec::new();
        for above in (0..=screen.scrollback()).rev() {
            screen.set_scrollback(above);
            let mut shown = screen.rows(0, columns).map(|row| row.trim_end().to_owned());
            match above {
                0 => all.extend(shown),
                _ => all.extend(shown.next()),
            }
        }
        all.join("\n").trim_end().to_owned()
    }
}

fn thinks(ui: &mut Ui, text: &str) {
    ui.event(EventKind::MessageUpdate { index: 0, delta: ContentDelta::Thinking { delta: text.into() } });
}

#[test]
fn every_row_reaches_the_scrollback_once() {
    let mut emulated = Emulated::new(60, 12);
    emulated.draw();
    for round in 0..3 {
        emulated.ui.start(&format!("question {round} with 世界 and 👩"));
        thinks(&mut emulated.ui, "hm");
        let mut answer = String::new();
        for n in 0..60 {
            let piece = match n % 20 {
                9 => "\n\n```rust\nlet x = 1;\nlet y = 2;\n```\n\n".to_owned(),
                19 => " end.\n\n".to_owned(),
                _ => format!("word{round}-{n} 世界 **bold** "),
            };
            emulated.ui.text(&piece);
            answer.push_str(&piece);
            emulated.ui.wait(30);
            emulated.draw();
        }
        let thinking = Thinking { text: "hm".into(), ..Thinking::default() };
        emulated.ui.reply(vec![Content::Thinking(thinking), Content::text(answer)]);
        emulated.ui.call("1", "bash", json!({ "command": "make" }));
        for n in 0..9 {
            let partial = vec![Content::text((0..n).map(|n| format!("line {n}\n")).collect::<String>())];
            emulated.ui.event(EventKind::ToolExecutionUpdate { call_id: "1".into(), partial });
            emulated.draw();
        }
        emulated.ui.result("1", "bash", true, "a\nb\nc");
        emulated.draw();
        emulated.ui.end(done());
        emulated.draw();
    }
    let contents = emulated.contents();
    for n in (0..60).filter(|n| n % 10 != 9) {
        assert_eq!(contents.matches(&format!("word1-{n} ")).count(), 1, "{n}: {contents}");
    }
    assert_eq!(contents.matches("let x").count(), 9, "{contents}");
    assert_eq!(contents.matches("✗ bash make").count(), 3, "{contents}");
}

#[test]
fn answer_that_is_higher_than_the_screen_is_complete_in_the_end() {
    let mut emulated = Emulated::new(40, 10);
    emulated.ui.start("go");
    // One paragraph, which changes until it ends.
    let words: Vec<String> = (0..300).map(|n| format!("w{n} ")).collect();
    for word in &words {
        emulated.ui.text(word);
        emulated.draw();
    }
    emulated.ui.reply(vec![Content::text(words.concat())]);
    emulated.ui.end(done());
    emulated.draw();
    let contents = emulated.contents();
    let shown: Vec<&str> = contents.split_whitespace().filter(|word| words.contains(&format!("{word} "))).collect();
    assert_eq!(shown, words.iter().map(|word| word.trim_end()).collect::<Vec<_>>());
}

#[test]
fn calls_settle_in_their_order() {
    let mut emulated = Emulated::new(60, 16);
    emulated.ui.start("go");
    let call = |id: &str| {
        let arguments = json!({ "path": format!("file-{id}") });
        Content::ToolCall(pinion_protocol::ToolCall::new(id, "read", arguments))
    };
    emulated.ui.reply(vec![call("1"), call("2")]);
    for id in ["1", "2"] {
        let start = EventKind::ToolExecutionStart { call_id: id.into(), tool: "read".into(), arguments: json!({}) };
        emulated.ui.event(start);
    }
    emulated.draw();
    emulated.ui.result("2", "read", false, "b");
    emulated.draw();
    assert!(!emulated.settled.iter().any(|row| row.contains("file-")), "{:?}", emulated.settled);
    emulated.ui.result("1", "read", false, "a");
    emulated.draw();
    let calls: Vec<&String> = emulated.settled.iter().filter(|row| row.contains("✓ read")).collect();
    assert!(calls[0].contains("file-1") && calls[1].contains("file-2"), "{calls:?}");
}

#[test]
fn call_without_an_end_settles_with_its_run() {
    let mut emulated = Emulated::new(60, 16);
    emulated.ui.start("go");
    emulated.ui.call("1", "read", json!({ "path": "a" }));
    emulated.ui.end(pinion_protocol::RunEnd::Aborted);
    emulated.draw();
    assert!(emulated.settled.iter().any(|row| row.contains("interrupted")), "{:?}", emulated.settled);
}

#[test]
fn text_that_a_retry_discards_stays_and_is_followed_by_the_new_one() {
    let mut emulated = Emulated::new(60, 16);
    emulated.ui.start("go");
    emulated.ui.text("first part\n\nbroken\n");
    emulated.draw();
    emulated.ui.event(EventKind::Retry { attempt: 1, max_attempts: 3, delay_ms: 100, cause: "reset".into() });
    emulated.draw();
    emulated.ui.text("second try");
    emulated.ui.reply(vec![Content::text("second try")]);
    emulated.ui.end(done());
    emulated.draw();
    let words = ["first part", "reset; retry 1 of 3", "second try"];
    let found: Vec<&str> =
        emulated.settled.iter().filter_map(|row| words.into_iter().find(|word| row.contains(word))).collect();
    assert_eq!(found, words);
}

#[test]
fn streamed_token_costs_at_most_40_bytes_on_average() {
    let mut emulated = Emulated::new(80, 24);
    emulated.ui.start("write a long text");
    emulated.draw();
    emulated.written = 0;
    let tokens = 2_000;
    for n in 0..tokens {
        emulated.ui.text(if n % 60 == 59 { " end.\n\n" } else { " token" });
        emulated.ui.wait(20);
        emulated.draw();
    }
    let bytes = emulated.written / tokens;
    assert!(bytes <= 40, "{bytes} bytes per token");
}

#[test]
fn idle_region_writes_nothing_and_wants_no_ticks() {
    let mut emulated = Emulated::new(80, 24);
    emulated.ui.start("hello");
    emulated.ui.text("done");
    emulated.ui.reply(vec![Content::text("done")]);
    emulated.ui.end(done());
    emulated.ui.wait(2_000);
    emulated.draw();
    emulated.written = 0;
    emulated.ui.wait(60_000);
    emulated.draw();
    assert_eq!((emulated.written, emulated.ui.app.deadline(emulated.ui.now)), (0, None));
}

#[test]
fn cleared_region_leaves_the_cursor_below_the_conversation() {
    let mut emulated = Emulated::new(60, 12);
    emulated.ui.start("go");
    emulated.ui.text("some text");
    emulated.draw();
    let bytes = emulated.inline.clear().to_vec();
    emulated.terminal.process(&bytes);
    let contents = emulated.contents();
    assert_eq!(contents, emulated.settled.join("\n").trim_end());
    // The terminal's next program writes below it, and the region begins below that.
    emulated.terminal.process(b"a shell\r\n");
    emulated.settled = emulated.contents().split('\n').map(str::to_owned).collect();
    emulated.draw();
    let rest = emulated.ui.app.printed(60, 1_000, emulated.ui.now);
    assert!(rest.iter().any(|row| row.plain().contains("some text")) && rest.len() < 4, "{rest:?}");
}

#[test]
fn narrower_terminal_that_cuts_rows_loses_none() {
    let mut emulated = Emulated::new(60, 12);
    emulated.ui.start("go");
    emulated.ui.text("one\n\ntwo\n\nthree");
    emulated.draw();
    let settled = emulated.settled.clone();
    for columns in [40, 30, 50] {
        emulated.ui.size.0 = columns;
        emulated.terminal.screen_mut().set_size(12.try_into().unwrap(), columns.try_into().unwrap());
        emulated.draw();
    }
    assert_eq!(emulated.settled, settled);
}

#[test]
fn keys_that_read_show_the_whole_conversation_until_escape() {
    let keys = [
        (KeyCode::PageUp, KeyModifiers::NONE),
        (KeyCode::Home, KeyModifiers::CONTROL),
        (KeyCode::Up, KeyModifiers::ALT),
        (KeyCode::Up, KeyModifiers::SHIFT),
        (KeyCode::Char('o'), KeyModifiers::CONTROL),
        (KeyCode::Char('t'), KeyModifiers::CONTROL),
        (KeyCode::Char('s'), KeyModifiers::CONTROL),
    ];
    for (code, modifiers) in keys {
        let mut emulated = Emulated::new(60, 12);
        emulated.ui.start("the question");
        emulated.ui.call("1", "read", json!({ "path": "a" }));
        emulated.ui.result("1", "read", false, "the result");
        let answer = (0..40).map(|n| format!("line {n}\n\n")).collect::<String>();
        emulated.ui.text(&answer);
        emulated.ui.reply(vec![Content::text(answer)]);
        emulated.ui.end(done());
        emulated.draw();
        let ui = &mut emulated.ui;
        assert!(!ui.app.is_viewing());
        ui.press(code, modifiers);
        assert!(
            ui.app.is_viewing() && ui.screen().contains("esc returns") || ui.screen().contains("search:"),
            "{code}"
        );
        // The first ends a selection or a search.
        ui.key(KeyCode::Esc);
        ui.key(KeyCode::Esc);
        assert!(!ui.app.is_viewing(), "{code}");
        emulated.draw();
        emulated.ui.press(code, modifiers);
        emulated.ui.key(KeyCode::Esc);
        emulated.ui.send("next");
        assert!(!emulated.ui.app.is_viewing());
    }
}

#[test]
fn keys_that_read_do_nothing_special_on_the_full_screen() {
    let mut ui = Ui::new(60, 12);
    ui.start("go");
    ui.ctrl('o');
    ui.key(KeyCode::PageUp);
    assert!(!ui.app.is_viewing() && !ui.screen().contains("esc returns"));
}

#[test]
fn continued_session_shows_its_end_and_what_is_left_out() {
    let messages =
        |count: usize| (0..count).map(|n| of_past(Message::user(format!("message {n}.")))).collect::<Vec<_>>();
    let mut emulated = Emulated::new(60, 12);
    emulated.ui.input(Input::Session(messages(3_000)));
    emulated.draw();
    let contents = emulated.contents();
    assert!(contents.starts_with("… 2000 earlier blocks"), "{}", &contents[..200]);
    assert!(
        !contents.contains("message 1999.") && contents.contains("message 2000.") && contents.contains("message 2999.")
    );
    emulated.ui.input(Input::Session(messages(20)));
    emulated.draw();
    let contents = emulated.contents();
    let (_, second) = contents.split_once("message 2999.").unwrap();
    assert!(second.contains("… 19 earlier blocks") && second.contains("message 19."), "{second}");
    assert!(!second.contains("message 18."), "{second}");
}

fn check(name: &str, state: impl Fn(&mut Ui)) {
    for (columns, rows) in [(80, 24), (40, 10)] {
        let mut emulated = Emulated::new(columns, rows);
        state(&mut emulated.ui);
        emulated.draw();
        assert_screen(&format!("inline-{name}-{columns}x{rows}"), &emulated.contents());
    }
}

fn working(ui: &mut Ui) {
    ui.start("why does the test fail?");
    ui.call("1", "read", json!({ "path": "total.sh" }));
    ui.result("1", "read", false, "#!/bin/sh\necho $(($1 - $2))");
    ui.call("2", "bash", json!({ "command": "./test.sh --all" }));
    let partial = vec![Content::text("running 3 tests\ntest a ... ok\ntest b ... ok")];
    ui.event(EventKind::ToolExecutionUpdate { call_id: "2".into(), partial });
}

#[test]
fn running_call_is_below_what_is_final() {
    check("running", |ui| {
        working(ui);
        ui.types("and pu");
    });
}

#[test]
fn question_is_below_the_conversation() {
    check("approval", |ui| {
        working(ui);
        ui.ask("bash", json!({ "command": "rm -r build" }));
        ui.wait(2_000);
    });
}

#[test]
fn completions_are_above_the_editor() {
    check("completion", |ui| {
        working(ui);
        ui.types("/co");
    });
}

/// Returns whether the emulator knows the characters of a step. It drops some, and wraps joined ones as if they were not.
fn is_common(step: &Step) -> bool {
    let text = format!("{step:?}");
    let is_rare = |code: &str| u32::from_str_radix(code.split('}').next().unwrap(), 16).unwrap() > 0x9f;
    !text.split("\\u{").skip(1).any(is_rare) && text.chars().all(|c| c.is_ascii() || "世界مرحبا".contains(c))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_inputs_leave_every_final_row_in_its_place(steps in steps(), columns in 10_u16..70, rows in 4_u16..20) {
        let mut emulated = Emulated::new(columns, rows);
        emulated.shown = |text| text.chars().filter(|c| *c == '\n' || c.is_ascii_graphic()).collect();
        for step in steps.into_iter().filter(|step| !matches!(step, Step::Size(..)) && is_common(step)) {
            apply(&mut emulated.ui, step);
            emulated.draw();
        }
    }
}
