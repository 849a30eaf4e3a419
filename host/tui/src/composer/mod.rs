//! The editor of the user's message.

mod buffer;
mod chips;
mod history;
mod layout;

pub(crate) use self::buffer::Motion;

use self::buffer::Buffer;
pub(crate) use self::chips::MAX_OPEN;

use self::chips::{Chips, plain};
use self::history::{History, Recalled};
use self::layout::Layout;
use crate::keys::Action;
use crate::rows::{Piece, Row};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::style::Style;

/// A message that is being edited, with the history of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    buffer: Buffer,
    chips: Chips,
    history: History,
    /// Columns of the last layout.
    columns: usize,
    /// The column that movements between rows aim at.
    goal: Option<usize>,
    /// Counts changes of the text.
    version: u64,
}

/// The rows of the editor, with the row and column of the cursor among them.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) rows: Vec<Row>,
    pub(crate) cursor: (usize, usize),
    /// Number of rows above the first one.
    pub(crate) above: usize,
}

/// A block that is too large to be opened in place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unopened {
    pub(crate) bytes: usize,
}

impl Composer {
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.text().is_empty()
    }

    /// Returns the text with pasted blocks as single characters.
    pub(crate) fn text(&self) -> &str {
        self.buffer.text()
    }

    pub(crate) fn cursor(&self) -> usize {
        self.buffer.cursor()
    }

    /// Returns a number that changes with the text.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the message with all pasted blocks.
    pub(crate) fn message(&self) -> String {
        self.chips.expand(self.buffer.text())
    }

    /// Takes the message, and remembers it in the history.
    pub(crate) fn take(&mut self) -> String {
        let message = self.message();
        self.history.add(&message);
        self.clear();
        message
    }

    /// Discards the text, which a yank brings back.
    pub(crate) fn discard(&mut self) {
        if !self.is_empty() {
            self.buffer.keep(self.buffer.text().to_owned());
        }
        self.clear();
    }

    /// Keeps a text for a yank.
    pub(crate) fn keep(&mut self, text: &str) {
        let text = self.block(plain(text));
        self.buffer.keep(text);
    }

    /// Returns the character that stands for a text if that is long, and else the text.
    fn block(&mut self, text: String) -> String {
        let chip = Chips::is_block(&text).then(|| self.chips.add(text.clone())).flatten();
        chip.map_or(text, String::from)
    }

    fn clear(&mut self) {
        self.buffer.reset();
        self.chips.retain(self.buffer.kills());
        self.history.leave();
        self.changed();
    }

    fn changed(&mut self) {
        self.version += 1;
        self.goal = None;
    }

    /// Inserts typed text.
    pub(crate) fn insert(&mut self, text: &str) {
        self.buffer.insert(&plain(text));
        self.changed();
    }

    /// Inserts pasted text; a long one becomes a block. Returns whether it has.
    pub(crate) fn paste(&mut self, text: &str) -> bool {
        let text = self.block(plain(text));
        self.buffer.splice(self.buffer.cursor()..self.buffer.cursor(), &text);
        self.changed();
        self.chips.label(&text).is_some()
    }

    /// Replaces the text; long parts stay as they are.
    pub(crate) fn set(&mut self, text: &str) {
        let text = plain(text);
        match text.len() > MAX_OPEN {
            true => {
                self.buffer.set("");
                self.paste(&text);
            }
            false => self.buffer.set(&text),
        }
        self.changed();
    }

    /// Inserts text at the beginning, and puts the cursor behind it.
    pub(crate) fn insert_first(&mut self, text: &str) {
        self.buffer.splice(0..0, &plain(text));
        self.changed();
    }

    /// Replaces the text before the cursor that begins at `start`, for a completion.
    pub(crate) fn complete(&mut self, start: usize, text: &str) {
        self.buffer.splice(start..self.buffer.cursor(), &plain(text));
        self.changed();
    }

    /// Puts the text of the block before or behind the cursor, if there is one, in its place.
    ///
    /// # Errors
    /// The block is too large.
    pub(crate) fn open_block(&mut self) -> Result<(), Unopened> {
        let (before, after) = self.buffer.text().split_at(self.buffer.cursor());
        let at = |c: Option<char>, start: usize| c.map(|c| (c, start..start + c.len_utf8()));
        let behind = at(after.chars().next(), before.len());
        let ahead = at(before.chars().next_back(), before.len() - before.chars().next_back().map_or(0, char::len_utf8));
        for (c, range) in [ahead, behind].into_iter().flatten() {
            let Some(text) = self.chips.text(c).map(str::to_owned) else { continue };
            if text.len() > MAX_OPEN {
                return Err(Unopened { bytes: text.len() });
            }
            self.buffer.splice(range, &text);
            self.changed();
            return Ok(());
        }
        Ok(())
    }

    pub(crate) fn go(&mut self, motion: Motion) {
        self.buffer.go(motion);
        self.goal = None;
    }

    pub(crate) fn delete(&mut self, motion: Motion) {
        self.change(|buffer| buffer.delete(motion));
    }

    pub(crate) fn kill(&mut self, motion: Motion) {
        self.change(|buffer| buffer.kill(motion));
    }

    /// Keeps the text up to the target of repeated motions for a yank.
    pub(crate) fn copy(&mut self, motion: Motion, count: usize) {
        self.buffer.copy(motion, count);
    }

    /// Applies an operator of vi to the line of the cursor: `d` and `c` cut it, `y` copies it. `c` keeps its end.
    pub(crate) fn line(&mut self, operator: char) {
        let range = self.buffer.line();
        let text = self.buffer.text()[range.clone()].to_owned();
        self.buffer.keep(text.clone());
        let kept = if operator == 'c' && text.ends_with('\n') { "\n" } else { "" };
        if operator != 'y' {
            self.buffer.splice(range.clone(), kept);
            self.buffer.set_cursor(range.start);
            self.changed();
        }
    }

    pub(crate) fn yank(&mut self) {
        self.change(Buffer::yank);
    }

    pub(crate) fn yank_earlier(&mut self) {
        self.change(Buffer::yank_earlier);
    }

    pub(crate) fn undo(&mut self) {
        self.change(Buffer::undo);
    }

    pub(crate) fn redo(&mut self) {
        self.change(Buffer::redo);
    }

    /// Changes the text or moves in it. Returns whether the action does that.
    pub(crate) fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Newline => self.insert("\n"),
            Action::Undo => self.undo(),
            Action::Redo => self.redo(),
            Action::Yank => self.yank(),
            Action::YankEarlier => self.yank_earlier(),
            Action::KillLine => self.kill(Motion::LineEnd),
            Action::KillBefore => self.kill(Motion::LineStart),
            Action::KillWord => self.kill(Motion::WordLeft),
            Action::KillWordAfter => self.kill(Motion::WordRight),
            Action::Backspace => self.delete(Motion::Left),
            Action::Delete => self.delete(Motion::Right),
            Action::Left => self.go(Motion::Left),
            Action::Right => self.go(Motion::Right),
            Action::WordLeft => self.go(Motion::WordLeft),
            Action::WordRight => self.go(Motion::WordRight),
            Action::LineStart => self.go(Motion::LineStart),
            Action::LineEnd => self.go(Motion::LineEnd),
            _ => return false,
        }
        true
    }

    /// Applies a key, and its action in the editor, to a text of a single line.
    pub(crate) fn line_key(&mut self, key: KeyEvent, action: Option<Action>) {
        match key.code {
            KeyCode::Char(c) if is_plain(key) => self.insert(c.encode_utf8(&mut [0; 4])),
            _ => {
                let _ = action.is_some_and(|action| action != Action::Newline && self.act(action));
            }
        }
    }

    /// Inserts the first line of a pasted text into a text of a single line.
    pub(crate) fn line_paste(&mut self, text: &str) {
        self.insert(text.lines().next().unwrap_or_default());
    }

    fn change(&mut self, change: impl FnOnce(&mut Buffer)) {
        change(&mut self.buffer);
        self.changed();
    }

    /// Moves the cursor to the next row, or in the history behind the last one. Returns whether anything happened.
    pub(crate) fn down(&mut self) -> bool {
        self.vertical(1) || self.recall(false)
    }

    /// Moves the cursor to the row above, or in the history above the first one. Returns whether anything happened.
    pub(crate) fn up(&mut self) -> bool {
        self.vertical(-1) || self.recall(true)
    }

    fn vertical(&mut self, by: isize) -> bool {
        let layout = Layout::new(self.buffer.text(), &self.chips, self.columns.max(2));
        let (row, column) = layout.place(self.buffer.cursor());
        let goal = self.goal.unwrap_or(column);
        let Some(row) = row.checked_add_signed(by).filter(|row| *row < layout.rows.len()) else { return false };
        let at = layout.at(row, goal);
        self.buffer.set_cursor(at);
        self.goal = Some(goal);
        true
    }

    /// Shows an earlier or a later message of the history, keeping what was written before.
    fn recall(&mut self, is_earlier: bool) -> bool {
        match self.history.step(is_earlier, self.buffer.text()) {
            None => return false,
            Some(Recalled::Message(text)) => self.set(&text),
            Some(Recalled::Draft(text)) => {
                self.buffer.set(&text);
                self.changed();
            }
        }
        if is_earlier {
            self.buffer.go(Motion::Start);
        }
        true
    }

    /// Replaces the history, oldest first.
    pub(crate) fn set_history(&mut self, messages: Vec<String>) {
        self.history = History::new(messages);
    }

    /// Returns the messages of the history, latest first.
    pub(crate) fn past(&self) -> impl Iterator<Item = &str> {
        self.history.latest_first()
    }

    /// Lays the text out in rows of at most `columns`, and returns at most `height` of them around the cursor.
    pub(crate) fn draw(&mut self, columns: usize, height: usize, style: Style) -> Drawn {
        self.columns = columns;
        self.rows(columns, height, style)
    }

    /// Lays the text out like [`Self::draw`], for a text whose rows no key moves between.
    pub(crate) fn rows(&self, columns: usize, height: usize, style: Style) -> Drawn {
        let layout = Layout::new(self.buffer.text(), &self.chips, columns.max(2));
        let (row, column) = layout.place(self.buffer.cursor());
        let above = (row + 1).saturating_sub(height.max(1));
        let rows =
            (above..layout.rows.len()).take(height.max(1)).map(|at| Row::of([Piece::new(&layout.row(at), style)]));
        Drawn { rows: rows.collect(), cursor: (row - above, column.min(columns.saturating_sub(1))), above }
    }
}

/// Returns whether a key types its character.
pub(crate) fn is_plain(key: KeyEvent) -> bool {
    !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::width;
    use proptest::prelude::*;

    fn composer(text: &str, columns: usize) -> Composer {
        let mut composer = Composer::default();
        composer.insert(text);
        composer.draw(columns, 10, Style::new());
        composer
    }

    fn drawn(composer: &mut Composer, columns: usize) -> (Vec<String>, (usize, usize)) {
        let drawn = composer.draw(columns, 10, Style::new());
        (drawn.rows.iter().map(Row::plain).collect(), drawn.cursor)
    }

    #[test]
    fn rows_wrap_at_blanks_and_the_cursor_follows() {
        let mut composer = composer("one two three", 9);
        assert_eq!(drawn(&mut composer, 9), (vec!["one two ".into(), "three".into()], (1, 5)));
        composer.up();
        assert_eq!(drawn(&mut composer, 9).1, (0, 5));
        composer.down();
        assert_eq!(drawn(&mut composer, 9).1, (1, 5));
    }

    #[test]
    fn column_is_kept_over_shorter_rows() {
        let mut composer = composer("abcdef\nx\nabcdef", 40);
        composer.up();
        composer.up();
        assert_eq!(drawn(&mut composer, 40).1, (0, 6));
    }

    #[test]
    fn pasted_block_is_one_sign_that_opens() {
        let mut composer = Composer::default();
        composer.insert("see ");
        composer.paste("1\r\n2\n3\n4\n5\n6\n");
        assert_eq!(drawn(&mut composer, 40).0, ["see [pasted 6 lines]"]);
        assert_eq!(composer.message(), "see 1\n2\n3\n4\n5\n6\n");
        assert_eq!(composer.open_block(), Ok(()));
        assert_eq!(composer.text(), "see 1\n2\n3\n4\n5\n6\n");
        composer.undo();
        composer.delete(Motion::Left);
        assert_eq!(composer.text(), "see ");
    }

    #[test]
    fn megabyte_is_pasted_as_a_block() {
        let mut composer = Composer::default();
        composer.paste(&"0123456789abcdef\n".repeat(65_536));
        assert_eq!(composer.text().chars().count(), 1);
        assert_eq!(composer.open_block(), Err(Unopened { bytes: 17 * 65_536 }));
        assert_eq!(composer.take().len(), 17 * 65_536);
    }

    #[test]
    fn history_keeps_what_was_being_written() {
        let mut composer = Composer::default();
        composer.set_history(vec!["first".into(), "second".into()]);
        composer.insert("draft");
        composer.draw(40, 5, Style::new());
        assert!(composer.up() && composer.text() == "second");
        assert!(composer.up() && composer.text() == "first" && !composer.up());
        assert!(composer.down() && composer.down() && composer.text() == "draft");
    }

    #[test]
    fn block_that_was_cut_is_pasted_again_in_later_messages() {
        let block = |name: &str| format!("{name}\n").repeat(12);
        let mut composer = Composer::default();
        composer.paste(&block("A"));
        composer.kill(Motion::LineStart);
        composer.paste(&block("B"));
        assert_eq!(composer.take(), block("B"));
        composer.paste(&block("C"));
        composer.yank();
        assert_eq!(composer.take(), block("C") + &block("A"));
        // What was cleared comes back as it was, and not as thousands of rows.
        composer.paste(&block("D"));
        composer.discard();
        composer.yank();
        assert_eq!(composer.text().chars().count(), 1);
        assert_eq!(composer.message(), block("D"));
        let kept: Vec<&str> = composer.buffer.kills().collect();
        assert_eq!(kept.len(), 2);
    }

    #[test]
    fn draft_with_a_block_survives_a_look_at_the_history() {
        let mut composer = Composer::default();
        composer.set_history(vec!["earlier".into()]);
        composer.paste(&"line\n".repeat(12));
        composer.draw(40, 5, Style::new());
        assert!(composer.up() && composer.text() == "earlier" && composer.down());
        assert_eq!((composer.text().chars().count(), composer.message().len()), (1, 60));
    }

    proptest! {
        #[test]
        fn yank_inserts_what_was_cut_whatever_happened_meanwhile(steps in prop::collection::vec((0_u8..6, 0_usize..3), 0..30)) {
            let mut composer = Composer::default();
            let mut cut: Option<String> = None;
            for (step, size) in steps {
                let text = ["word ".to_owned(), "line\n".repeat(8 + size), "x".repeat(MAX_OPEN + 1 + size)][size].clone();
                match step {
                    0 => drop(composer.paste(&text)),
                    1 => drop(composer.take()),
                    2 if !composer.is_empty() => {
                        cut = Some(composer.message());
                        composer.discard();
                    }
                    3 => {
                        composer.go(Motion::End);
                        let (text, message) = (composer.text().to_owned(), composer.message());
                        composer.kill(Motion::Left);
                        let left = composer.message();
                        // Two kills in a row are one text.
                        composer.go(Motion::End);
                        cut = if text.is_empty() { cut } else { Some(message[left.len()..].to_owned()) };
                    }
                    4 => {
                        composer.go(Motion::End);
                        let before = composer.message();
                        composer.yank();
                        prop_assert_eq!(composer.message(), before + cut.as_deref().unwrap_or_default());
                    }
                    _ => {
                        composer.keep(&text);
                        cut = Some(text);
                    }
                }
                prop_assert!(composer.text().len() < 4 * MAX_OPEN);
            }
        }

        #[test]
        fn cursor_is_always_on_the_screen(
            text in "([a-c \t\n]|\\PC|[世👩\u{200d}\x1b]){0,60}", columns in 1_usize..30, height in 1_usize..6,
            keys in prop::collection::vec(0_u8..8, 0..20),
        ) {
            let mut composer = Composer::default();
            composer.paste(&text);
            for key in keys {
                match key {
                    0 => drop(composer.up()),
                    1 => drop(composer.down()),
                    2 => composer.go(Motion::Left),
                    3 => composer.go(Motion::WordLeft),
                    4 => composer.insert("x"),
                    5 => composer.undo(),
                    6 => drop(composer.open_block()),
                    _ => composer.go(Motion::LineStart),
                }
                let drawn = composer.draw(columns, height, Style::new());
                prop_assert!(drawn.rows.len() <= height && drawn.cursor.0 < drawn.rows.len());
                prop_assert!(drawn.cursor.1 < columns.max(1));
                prop_assert!(drawn.rows.iter().all(|row| width(&row.plain()) < columns.max(6)), "{:?}", drawn.rows);
            }
        }
    }
}
