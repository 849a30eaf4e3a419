//! New sizes in the inline form on a terminal that wraps its rows again.

use crate::random::{Step, apply, steps};
use crate::ui::{Ui, done};
use crossterm::event::{KeyCode, KeyModifiers};
use pinion_protocol::Content;
use pinion_tui::{Inline, text_of};
use proptest::prelude::*;

/// A row of the terminal, where every character takes one column.
#[derive(Default)]
struct Row {
    text: Vec<char>,
    /// It continues the row above, regardless of the text written into it.
    continues: bool,
}

/// A terminal that wraps its rows again like Zellij: rows stay joined until they are removed.
struct Wrapping {
    columns: usize,
    height: usize,
    /// The scrollback and the screen.
    rows: Vec<Row>,
    x: usize,
    /// The row of the cursor among all.
    y: usize,
}

impl Wrapping {
    fn new((columns, height): (u16, u16)) -> Self {
        Self { columns: columns.into(), height: height.into(), rows: vec![Row::default()], x: 0, y: 0 }
    }

    /// Returns the first row of the screen.
    fn top(&self) -> usize {
        self.rows.len().saturating_sub(self.height)
    }

    fn row(&mut self) -> &mut Row {
        let missing = (self.y + 1).saturating_sub(self.rows.len());
        self.rows.extend(std::iter::repeat_with(Row::default).take(missing));
        &mut self.rows[self.y]
    }

    fn process(&mut self, bytes: &str) {
        let mut rest = bytes.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => self.x = 0,
                '\n' => {
                    self.y += 1;
                    self.row();
                }
                '\x1b' => match rest.next() {
                    Some('[') => {
                        let text = rest.as_str();
                        let length = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                        self.control(&text[..length], text.as_bytes()[length]);
                        rest = text[length + 1..].chars();
                    }
                    _ => rest = rest.as_str().split_once("\x1b\\").unwrap().1.chars(),
                },
                // Wrapping is off.
                _ if self.x >= self.columns => {}
                c => {
                    let x = self.x;
                    let text = &mut self.row().text;
                    text.resize(text.len().max(x + 1), ' ');
                    text[x] = c;
                    self.x += 1;
                }
            }
        }
    }

    fn control(&mut self, parameters: &str, last: u8) {
        let count: usize = parameters.parse().unwrap_or(1);
        let bottom = self.top() + self.height;
        match last {
            b'A' => self.y = self.y.saturating_sub(count).max(self.top()),
            b'B' => self.y = (self.y + count).min(bottom - 1),
            b'G' => self.x = (count - 1).min(self.columns - 1),
            b'K' => {
                let x = if parameters == "2" { 0 } else { self.x };
                self.row().text.truncate(x);
            }
            b'L' => {
                self.row();
                let new = std::iter::repeat_with(Row::default).take(count);
                self.rows.splice(self.y..self.y, new);
                self.rows.truncate(bottom);
            }
            b'M' => {
                self.row();
                let (end, until) = (self.rows.len(), (self.y + count).min(self.rows.len()));
                self.rows.drain(self.y..until);
                self.rows.resize_with(end, Row::default);
            }
            b'm' | b'h' | b'l' => {}
            _ => panic!("{parameters}{}", char::from(last)),
        }
    }

    fn resize(&mut self, (columns, height): (u16, u16)) {
        let (columns, height) = (usize::from(columns), usize::from(height));
        let first = (0..=self.y).rev().find(|y| !self.rows[*y].continues).unwrap();
        let offset = (self.y - first) * self.columns + self.x;
        let mut rows: Vec<Row> = Vec::new();
        let mut y = 0;
        for (n, line) in self.rows.chunk_by(|_, next| next.continues).enumerate() {
            let is_of_cursor = self.rows[..=first].iter().filter(|row| !row.continues).count() == n + 1;
            if is_of_cursor {
                y = rows.len() + offset / columns;
            }
            let text: Vec<char> = line.iter().flat_map(|row| row.text.iter().copied()).collect();
            let used = text.iter().rposition(|c| *c != ' ').map_or(0, |last| last + 1);
            let parts = text[..used].chunks(columns).map(<[char]>::to_vec).collect::<Vec<_>>();
            let parts = if parts.is_empty() { vec![Vec::new()] } else { parts };
            rows.extend(parts.into_iter().enumerate().map(|(n, text)| Row { text, continues: n > 0 }));
        }
        (self.rows, self.columns, self.height) = (rows, columns, height);
        (self.x, self.y) = (offset % columns, y.max(self.top()));
        self.row();
    }

    /// Returns the scrollback and the screen, without blanks at the ends.
    fn contents(&self) -> String {
        let line = |rows: &[Row]| rows.iter().flat_map(|row| &row.text).collect::<String>().trim_end().to_owned();
        let lines = self.rows.chunk_by(|_, next| next.continues).map(line);
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }
}

/// A UI on such a terminal.
struct Wrapped {
    ui: Ui,
    inline: Inline,
    terminal: Wrapping,
    /// The rows that are final.
    settled: Vec<String>,
}

impl Wrapped {
    fn new(columns: u16, rows: u16) -> Self {
        let (ui, inline) = (Ui::inline(columns, rows), Inline::new(true));
        Self { ui, inline, terminal: Wrapping::new((columns, rows)), settled: Vec::new() }
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.ui.size = size;
        self.terminal.resize(size);
        self.inline.forget();
        self.draw();
    }

    /// Draws until nothing is missing. All final rows are there in their order, and the live region is below them.
    fn draw(&mut self) {
        loop {
            let (columns, height) = self.ui.size;
            let frame = self.ui.app.draw_inline(columns, height, self.ui.now);
            let bytes = self.inline.draw(&frame, self.ui.app.links(), height).to_vec();
            self.terminal.process(&String::from_utf8(bytes).unwrap());
            let rows = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
            self.settled.extend(rows(text_of(&frame.settled)));
            let contents = self.terminal.contents();
            let live = text_of(&frame.live);
            assert!(contents.ends_with(live.trim_end()), "{live}\n--- is not the end of\n{contents}");
            let mut shown = contents.lines();
            for row in self.settled.iter().filter(|row| !row.is_empty()) {
                assert!(shown.any(|shown| shown == row), "{row:?} is not in its place in\n{contents}");
            }
            if !frame.has_more && !self.ui.highlight() {
                return;
            }
        }
    }
}

const SIZES: [(u16, u16); 8] = [(50, 24), (110, 30), (33, 20), (80, 12), (60, 40), (40, 10), (120, 40), (80, 24)];

#[test]
fn new_sizes_lose_no_row_above_a_long_message() {
    let mut wrapped = Wrapped::new(80, 24);
    wrapped.ui.start("go");
    let answer =
        (0..12).map(|n| format!("Paragraph {n} of an answer that takes more than a row.\n\n")).collect::<String>();
    wrapped.ui.text(&answer);
    wrapped.ui.reply(vec![Content::text(answer)]);
    wrapped.ui.end(done());
    for n in 0..4 {
        wrapped.ui.types(&format!("line {n} of a message {}", "that is quite long ".repeat(6)));
        wrapped.ui.press(KeyCode::Enter, KeyModifiers::ALT);
    }
    wrapped.draw();
    for size in SIZES.repeat(3) {
        wrapped.resize(size);
    }
}

/// Returns whether all characters of a step take one column.
fn is_narrow(step: &Step) -> bool {
    let text = format!("{step:?}");
    text.is_ascii() && !text.contains("\\u{")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn new_sizes_leave_every_final_row_in_its_place(steps in steps(), columns in 10_u16..70, rows in 4_u16..20) {
        let mut wrapped = Wrapped::new(columns, rows);
        wrapped.draw();
        for step in steps.into_iter().filter(is_narrow) {
            match step {
                Step::Size(columns, rows) => wrapped.resize((columns.max(10), rows.max(4))),
                step => {
                    apply(&mut wrapped.ui, step);
                    wrapped.draw();
                }
            }
        }
    }
}
