//! The editor of the user's message.

mod buffer;
mod chips;
mod history;
mod layout;
#[cfg(test)]
mod tests;

pub(crate) use self::buffer::Motion;

use self::buffer::Buffer;
pub(crate) use self::chips::MAX_OPEN;

use self::chips::{Chips, plain};
use self::history::{History, Recalled};
use self::layout::Layout;
use crate::keys::Action;
use crate::rows::{Row, StyledPiece};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::style::Style;
use std::ops::Range;

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

/// A range of the text with the style to lay over it.
pub(crate) type Marked = Option<(Range<usize>, Style)>;

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
    pub(crate) fn take_message(&mut self) -> String {
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

    /// Returns the block before or behind the cursor, if there is one: its place and its text.
    fn block_at_cursor(&self) -> Option<(Range<usize>, String)> {
        let (before, after) = self.buffer.text().split_at(self.buffer.cursor());
        let at = |c: Option<char>, start: usize| c.map(|c| (c, start..start + c.len_utf8()));
        let behind = at(after.chars().next(), before.len());
        let ahead = at(before.chars().next_back(), before.len() - before.chars().next_back().map_or(0, char::len_utf8));
        let text = |(c, range)| Some((range, self.chips.text(c)?.to_owned()));
        [ahead, behind].into_iter().flatten().find_map(text)
    }

    /// Returns whether there is a block before or behind the cursor.
    pub(crate) fn is_at_block(&self) -> bool {
        self.block_at_cursor().is_some()
    }

    /// Puts the text of the block before or behind the cursor, if there is one, in its place.
    ///
    /// # Errors
    /// The block is too large.
    pub(crate) fn open_block(&mut self) -> Result<(), Unopened> {
        let Some((range, text)) = self.block_at_cursor() else { return Ok(()) };
        if text.len() > MAX_OPEN {
            return Err(Unopened { bytes: text.len() });
        }
        self.buffer.splice(range, &text);
        self.changed();
        Ok(())
    }

    pub(crate) fn move_cursor(&mut self, motion: Motion) {
        self.buffer.move_cursor(motion);
        self.goal = None;
    }

    pub(crate) fn delete(&mut self, motion: Motion) {
        self.change(|buffer| buffer.delete(motion));
    }

    pub(crate) fn kill(&mut self, motion: Motion) {
        self.change(|buffer| buffer.kill(motion));
    }

    /// Moves the cursor to an offset. The column that movements between rows aim at stays.
    pub(crate) fn set_cursor(&mut self, at: usize) {
        self.buffer.set_cursor(at);
    }

    /// Replaces a range as one change to undo, and puts the cursor behind the new text.
    pub(crate) fn splice(&mut self, range: Range<usize>, text: &str) {
        self.change(|buffer| buffer.splice(range, text));
    }

    /// Keeps a part of this text for a yank.
    pub(crate) fn keep_cut(&mut self, text: String) {
        self.buffer.keep(text);
    }

    /// Returns the text that a yank inserts.
    pub(crate) fn latest_cut(&self) -> Option<&str> {
        self.buffer.kills().next()
    }

    /// Returns the number of states to undo.
    pub(crate) fn undo_depth(&self) -> usize {
        self.buffer.undo_depth()
    }

    /// Makes all changes since there were this many states to undo a single one.
    pub(crate) fn join_undo(&mut self, depth: usize) {
        self.buffer.join_undo(depth);
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
            Action::Left => self.move_cursor(Motion::Left),
            Action::Right => self.move_cursor(Motion::Right),
            Action::WordLeft => self.move_cursor(Motion::WordLeft),
            Action::WordRight => self.move_cursor(Motion::WordRight),
            Action::LineStart => self.move_cursor(Motion::LineStart),
            Action::LineEnd => self.move_cursor(Motion::LineEnd),
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
        self.row(1) || self.recall(false)
    }

    /// Moves the cursor to the row above, or in the history above the first one. Returns whether anything happened.
    pub(crate) fn move_up(&mut self) -> bool {
        self.row(-1) || self.recall(true)
    }

    /// Moves the cursor by rows. Returns whether there is such a row.
    pub(crate) fn row(&mut self, by: isize) -> bool {
        let layout = Layout::new(self.buffer.text(), &self.chips, self.columns.max(2));
        let (row, column) = layout.position_of(self.buffer.cursor());
        let goal = self.goal.unwrap_or(column);
        let Some(row) = row.checked_add_signed(by).filter(|row| *row < layout.rows.len()) else { return false };
        let at = layout.at(row, goal);
        self.buffer.set_cursor(at);
        self.goal = Some(goal);
        true
    }

    /// Shows an earlier or a later message of the history, keeping the text that was written before.
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
            self.buffer.move_cursor(Motion::Start);
        }
        true
    }

    /// Replaces the history, oldest first.
    pub(crate) fn set_history(&mut self, messages: Vec<String>) {
        self.history = History::new(messages);
    }

    /// Adds a message that was not sent to the end of the history.
    pub(crate) fn offer(&mut self, message: &str) {
        self.history.add(message);
    }

    /// Returns the messages of the history, latest first.
    pub(crate) fn past(&self) -> impl Iterator<Item = &str> {
        self.history.latest_first()
    }

    /// Lays the text out in rows of at most `columns`, and returns at most `height` of them around the cursor.
    pub(crate) fn draw(&mut self, columns: usize, height: usize, style: Style, marked: Marked) -> Drawn {
        self.columns = columns;
        self.rows(columns, height, style, marked)
    }

    /// Lays the text out like [`Self::draw`], for a text whose rows no key moves between.
    pub(crate) fn rows(&self, columns: usize, height: usize, style: Style, marked: Marked) -> Drawn {
        let layout = Layout::new(self.buffer.text(), &self.chips, columns.max(2));
        let (row, column) = layout.position_of(self.buffer.cursor());
        let above = (row + 1).saturating_sub(height.max(1));
        let (range, mark) = marked.unwrap_or_default();
        let rows =
            (above..layout.rows.len()).take(height.max(1)).map(|at| {
                let parts = layout.parts(at, &range);
                Row::from_pieces(parts.map(|(text, is_marked)| {
                    StyledPiece::new(&text, if is_marked { style.patch(mark) } else { style })
                }))
            });
        Drawn { rows: rows.collect(), cursor: (row - above, column.min(columns.saturating_sub(1))), above }
    }
}

/// Returns whether a key types its character.
pub(crate) fn is_plain(key: KeyEvent) -> bool {
    !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER)
}
