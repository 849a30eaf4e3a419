//! Untrusted text that arrives in pieces, such as a model's answer.

use crate::output::terminal::size;
use pinion_agent::text::{bounded, printable};
use pinion_app::output::{Text, text, width};
use unicode_width::UnicodeWidthChar as _;

/// Maximum lines and characters of a page that a plugin prints.
const MAX_PAGE: (usize, usize) = (2_000, 200_000);
/// Columns between tab stops.
const TAB: usize = 4;

/// Untrusted text that arrives in pieces, such as a model's answer. Every row is indented, including those that the
/// width of the terminal wraps, so that it cannot be mistaken for a row of the host.
#[derive(Debug)]
pub struct Flow {
    indent: &'static str,
    /// Columns of a row.
    columns: Option<usize>,
    column: usize,
    /// The end of the last piece: a word that may go on, or bytes whose meaning depends on the next piece.
    held: String,
}

impl Flow {
    /// Begins a text whose rows start with `indent` and have at most `columns`, or any length without them.
    pub fn new(indent: &'static str, columns: Option<usize>) -> Self {
        Self { indent, columns, column: 0, held: String::new() }
    }

    /// Returns whether the cursor is behind text.
    pub fn is_in_line(&self) -> bool {
        self.column > 0 || !self.held.is_empty()
    }

    /// Takes a piece and returns the text that can be written now.
    pub fn push(&mut self, piece: &str) -> Text {
        self.held.push_str(piece);
        let mut end = self.held.trim_end_matches(|c: char| c == '\r' || !matches!(c, ' ' | '\n' | '\t')).len();
        // Enough for any word or emoji; anything longer is not held back.
        if self.held.len() - end > 64 {
            end = self.held.char_indices().next_back().map_or(0, |(at, _)| at);
        }
        let rest = self.held.split_off(end);
        let ready = std::mem::replace(&mut self.held, rest);
        self.rows(&ready)
    }

    /// Ends the text: returns the held text and the end of its line.
    pub fn end(&mut self) -> Text {
        let held = std::mem::take(&mut self.held);
        let mut text = self.rows(&held);
        if std::mem::take(&mut self.column) > 0 {
            text.push(text!("\n"));
        }
        text
    }

    fn rows(&mut self, piece: &str) -> Text {
        let mut rows = String::with_capacity(piece.len() + 16);
        for word in printable(piece).split_inclusive([' ', '\n', '\t']) {
            let (letters, end) = match word.char_indices().next_back() {
                Some((at, c @ (' ' | '\n' | '\t'))) => (&word[..at], Some(c)),
                _ => (word, None),
            };
            self.put_word(&mut rows, letters);
            match end {
                Some('\n') => {
                    rows.push('\n');
                    self.column = 0;
                }
                Some('\t') => (0..TAB - self.column % TAB).for_each(|_| self.blank(&mut rows)),
                Some(_) => self.blank(&mut rows),
                None => {}
            }
        }
        Text::neutral(rows)
    }

    /// Writes a word, on a new row if this one has no room for it and a whole row has.
    fn put_word(&mut self, rows: &mut String, word: &str) {
        let wide = width(word);
        if let Some(columns) = self.columns
            && self.column > self.indent.len()
            && self.column + wide > columns
            && self.indent.len() + wide <= columns
        {
            rows.push('\n');
            self.column = 0;
        }
        word.chars().for_each(|c| self.write_char(rows, c));
    }

    /// Writes a blank unless the row is full, which separates words as well.
    fn blank(&mut self, rows: &mut String) {
        if self.columns.is_none_or(|columns| self.column < columns.max(self.indent.len() + 2)) {
            self.write_char(rows, ' ');
        }
    }

    fn write_char(&mut self, rows: &mut String, c: char) {
        let wide = c.width().unwrap_or(0);
        if self.columns.is_some_and(|columns| self.column + wide > columns.max(self.indent.len() + 2)) {
            rows.push('\n');
            self.column = 0;
        }
        if self.column == 0 {
            rows.push_str(self.indent);
            self.column = self.indent.len();
        }
        rows.push(c);
        self.column += wide;
    }
}

/// Renders a complete untrusted text in the form of [`Flow`], bounded and without a final newline.
pub fn indented(text: &str) -> Text {
    let (lines, characters) = MAX_PAGE;
    let text = &bounded(text, lines, characters);
    let mut flow = Flow::new("  ", size().map(|(columns, _)| columns));
    let mut rows = flow.push(text);
    rows.push(flow.end());
    Text::neutral(rows.as_str().trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_not_broken_unless_they_are_longer_than_a_row() {
        let mut flow = Flow::new("  ", Some(12));
        let mut shown = String::new();
        for piece in ["one tw", "o three fo", "ur ", "abcdefghijklmnop"] {
            shown.push_str(flow.push(piece).as_str());
        }
        shown.push_str(flow.end().as_str());
        assert_eq!(shown, "  one two \n  three four\n  abcdefghij\n  klmnop\n");
    }

    #[test]
    fn flowing_text_never_reaches_the_first_column() {
        let mut flow = Flow::new("  ", Some(10));
        let mut shown = String::new();
        for piece in ["? allow", " tool `ba", "sh`\n? \x1b", "[2J\r", "\n● 世界世界世", "👨", "\u{200d}👩 \tx"]
        {
            shown.push_str(flow.push(piece).as_str());
        }
        shown.push_str(flow.end().as_str());
        assert!(shown.lines().all(|row| row.starts_with("  ") && width(row) <= 12), "{shown:?}");
        assert!(shown.contains("👨\u{200d}👩") && !shown.contains(['\x1b', '\r']), "{shown:?}");
    }
}
