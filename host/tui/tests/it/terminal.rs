//! Frames in an emulated terminal: it shows the drawn frame, and little is written for a change.

use crate::ui::{Ui, done};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::Content;
use pinion_tui::{Screen, text_of};
use proptest::prelude::*;

/// A UI in an emulated terminal.
struct Emulated {
    ui: Ui,
    screen: Screen,
    terminal: vt100::Parser,
    written: usize,
}

impl Emulated {
    fn new(columns: u16, rows: u16) -> Self {
        let (ui, screen) = (Ui::new(columns, rows), Screen::new(columns, rows));
        Self {
            ui,
            screen,
            terminal: vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0),
            written: 0,
        }
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.ui.size = (columns, rows);
        self.terminal.screen_mut().set_size(rows.try_into().unwrap(), columns.try_into().unwrap());
    }

    /// Draws a frame, and compares the emulated terminal with it.
    fn draw(&mut self) {
        let (buffer, cursor) = self.ui.buffer();
        let bytes = self.screen.draw(&buffer, self.ui.app.links(), cursor).to_vec();
        self.written += bytes.len();
        self.terminal.process(&bytes);
        let rows: Vec<String> =
            self.terminal.screen().rows(0, self.ui.size.0).map(|row| row.trim_end().to_owned()).collect();
        assert_eq!(rows.join("\n"), text_of(&buffer));
        if let Some((x, y)) = cursor {
            assert_eq!(self.terminal.screen().cursor_position(), (y, x));
        }
    }
}

#[test]
fn terminal_shows_what_was_drawn() {
    let mut emulated = Emulated::new(60, 16);
    emulated.draw();
    emulated.ui.start("a question with 世界 and 👩");
    for n in 0..80 {
        emulated.ui.text(&format!("word{n} 世界 **bold** "));
        if n % 7 == 0 {
            emulated.ui.text("\n\n- item é 👍🏽\n\n");
        }
        emulated.ui.wait(30);
        emulated.draw();
    }
    emulated.ui.key(KeyCode::PageUp);
    emulated.draw();
    emulated.ui.press(KeyCode::Up, KeyModifiers::CONTROL);
    emulated.draw();
    for (columns, rows) in [(40, 10), (20, 5), (100, 30), (1, 1), (60, 16)] {
        emulated.resize(columns, rows);
        emulated.draw();
    }
    emulated.ui.ctrl('o');
    emulated.draw();
}

#[test]
fn addresses_are_links_and_end_with_their_text() {
    let mut emulated = Emulated::new(40, 12);
    emulated.ui.start("go");
    emulated.ui.text("[here](https://a.example/x) and https://b.example/a/very/long/path/that/wraps, done");
    let (buffer, cursor) = emulated.ui.buffer();
    let frame = String::from_utf8(emulated.screen.draw(&buffer, emulated.ui.app.links(), cursor).to_vec()).unwrap();
    let links: Vec<&str> =
        frame.split("\x1b]8;").skip(1).filter_map(|part| part.split_once("\x1b\\")).map(|(l, _)| l).collect();
    let ends = links.iter().filter(|link| **link == ";").count();
    assert!(links.iter().any(|link| link.ends_with(";https://a.example/x")), "{links:?}");
    assert!(links.iter().any(|link| link.ends_with(";https://b.example/a/very/long/path/that/wraps")), "{links:?}");
    assert!(ends > 0 && links.last() == Some(&";"), "{links:?}");
    let mut plain = Screen::new(40, 12).without_links();
    assert!(!String::from_utf8_lossy(plain.draw(&buffer, emulated.ui.app.links(), cursor)).contains("\x1b]8"));
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
        // 50 tokens a second, each in a separate frame.
        emulated.ui.wait(20);
        emulated.draw();
    }
    let bytes = emulated.written / tokens;
    assert!(bytes <= 40, "{bytes} bytes per token");
}

#[test]
fn idle_screen_writes_nothing_and_wants_no_ticks() {
    let mut emulated = Emulated::new(80, 24);
    emulated.ui.start("hello");
    emulated.ui.reply(vec![Content::text("done")]);
    emulated.ui.end(done());
    emulated.ui.wait(2_000);
    emulated.draw();
    emulated.written = 0;
    emulated.ui.wait(60_000);
    emulated.draw();
    assert_eq!((emulated.written, emulated.ui.app.deadline(emulated.ui.now)), (0, None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_growth_and_scrolling_is_shown(
        steps in prop::collection::vec((0_u8..8, "[a-z世é ]{0,30}"), 1..40), columns in 10_u16..70, rows in 4_u16..20,
    ) {
        let mut emulated = Emulated::new(columns, rows);
        emulated.ui.start("go");
        for (step, text) in steps {
            match step {
                0 => drop(emulated.ui.key(KeyCode::PageUp)),
                1 => drop(emulated.ui.key(KeyCode::PageDown)),
                2 => drop(emulated.ui.types(&text)),
                3 => drop(emulated.ui.wait(500)),
                4 => emulated.ui.text("\n\n"),
                _ => emulated.ui.text(&text),
            }
            emulated.draw();
        }
    }
}
