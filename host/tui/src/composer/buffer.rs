//! The text that the user edits: cursor, undo and redo, and the kill ring.

use std::collections::VecDeque;
use std::ops::Range;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

/// Maximum states to undo.
const MAX_UNDO: usize = 500;
/// Maximum killed texts.
const MAX_KILLS: usize = 60;

/// A movement of the cursor that does not depend on the width of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Start,
}

/// The kind of the last change, which decides whether the next one continues it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Other,
    Typed,
    Killed,
    Yanked,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BufferState {
    text: String,
    cursor: usize,
}

/// A text with a cursor, which is always at a boundary of grapheme clusters.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    state: BufferState,
    undo: VecDeque<BufferState>,
    redo: Vec<BufferState>,
    kills: VecDeque<String>,
    last: Last,
    /// The text that the last yank inserted.
    yanked: Range<usize>,
}

impl Buffer {
    pub(crate) fn text(&self) -> &str {
        &self.state.text
    }

    pub(crate) fn cursor(&self) -> usize {
        self.state.cursor
    }

    /// Moves the cursor to an offset, or to the next boundary after it.
    pub(crate) fn set_cursor(&mut self, at: usize) {
        self.last = Last::Other;
        self.move_cursor_to(at);
    }

    fn move_cursor_to(&mut self, at: usize) {
        let text = &self.state.text;
        let at = text.floor_char_boundary(at);
        let mut cursor = GraphemeCursor::new(at, text.len(), true);
        let is_boundary = cursor.is_boundary(text, 0).unwrap_or(true);
        self.state.cursor =
            if is_boundary { at } else { cursor.next_boundary(text, 0).ok().flatten().unwrap_or(text.len()) };
    }

    /// Inserts typed or pasted text at the cursor.
    pub(crate) fn insert(&mut self, text: &str) {
        let is_letter = text.graphemes(true).nth(1).is_none() && !text.contains(char::is_whitespace);
        if !(is_letter && self.last == Last::Typed) {
            self.save();
        }
        self.replace(self.state.cursor..self.state.cursor, text);
        self.last = if is_letter { Last::Typed } else { Last::Other };
    }

    /// Replaces a range and puts the cursor behind the new text, without a state to undo.
    fn replace(&mut self, range: Range<usize>, text: &str) {
        self.state.text.replace_range(range.clone(), text);
        self.move_cursor_to(range.start + text.len());
    }

    /// Replaces a range as one change to undo.
    pub(crate) fn splice(&mut self, range: Range<usize>, text: &str) {
        let range = self.state.text.floor_char_boundary(range.start)..self.state.text.floor_char_boundary(range.end);
        self.save();
        self.replace(range, text);
        self.last = Last::Other;
    }

    /// Replaces everything as one change to undo.
    pub(crate) fn set(&mut self, text: &str) {
        self.splice(0..self.state.text.len(), text);
    }

    /// Forgets everything but the kill ring.
    pub(crate) fn reset(&mut self) {
        *self = Self { kills: std::mem::take(&mut self.kills), ..Self::default() };
    }

    pub(crate) fn move_cursor(&mut self, motion: Motion) {
        self.state.cursor = self.target(motion);
        self.last = Last::Other;
    }

    /// Deletes up to the target of a motion.
    pub(crate) fn delete(&mut self, motion: Motion) {
        let range = self.range(motion);
        if !range.is_empty() {
            self.splice(range, "");
        }
    }

    /// Deletes up to the target of a motion and keeps the text for [`Self::yank`]. At the end of a line, the line end
    /// itself is killed.
    pub(crate) fn kill(&mut self, motion: Motion) {
        let mut range = self.range(motion);
        if range.is_empty() && motion == Motion::LineEnd {
            range = self.range(Motion::Right);
        }
        if range.is_empty() {
            return;
        }
        let killed = self.state.text[range.clone()].to_owned();
        let continues = self.last == Last::Killed;
        let is_before = range.end == self.state.cursor;
        self.splice(range, "");
        self.last = Last::Killed;
        match self.kills.front_mut().filter(|_| continues) {
            Some(kill) if is_before => kill.insert_str(0, &killed),
            Some(kill) => kill.push_str(&killed),
            None => self.keep(killed),
        }
    }

    /// Returns the texts of the kill ring.
    pub(crate) fn kills(&self) -> impl Iterator<Item = &str> {
        self.kills.iter().map(String::as_str)
    }

    /// Adds a text to the kill ring.
    pub(crate) fn keep(&mut self, text: String) {
        self.kills.push_front(text);
        self.kills.truncate(MAX_KILLS);
    }

    /// Inserts the text that was killed last.
    pub(crate) fn yank(&mut self) {
        let Some(text) = self.kills.front().cloned() else { return };
        let start = self.state.cursor;
        self.splice(start..start, &text);
        self.yanked = start..start + text.len();
        self.last = Last::Yanked;
    }

    /// Replaces the text of the last yank by the one killed before it.
    pub(crate) fn yank_earlier(&mut self) {
        if self.last != Last::Yanked {
            return;
        }
        self.kills.rotate_left(1);
        let Some(text) = self.kills.front().cloned() else { return };
        let range = self.yanked.clone();
        self.replace(range.clone(), &text);
        self.yanked = range.start..range.start + text.len();
    }

    pub(crate) fn undo(&mut self) {
        if let Some(state) = self.undo.pop_back() {
            self.redo.push(std::mem::replace(&mut self.state, state));
        }
        self.last = Last::Other;
    }

    pub(crate) fn redo(&mut self) {
        if let Some(state) = self.redo.pop() {
            self.undo.push_back(std::mem::replace(&mut self.state, state));
        }
        self.last = Last::Other;
    }

    /// Returns the number of states to undo.
    pub(crate) fn undo_depth(&self) -> usize {
        self.undo.len()
    }

    /// Makes all changes since there were this many states to undo a single one.
    pub(crate) fn join_undo(&mut self, depth: usize) {
        self.undo.truncate(depth + 1);
        self.last = Last::Other;
    }

    fn save(&mut self) {
        self.undo.push_back(self.state.clone());
        if self.undo.len() > MAX_UNDO {
            self.undo.pop_front();
        }
        self.redo.clear();
    }

    fn range(&self, motion: Motion) -> Range<usize> {
        let (target, cursor) = (self.target(motion), self.state.cursor);
        target.min(cursor)..target.max(cursor)
    }

    fn target(&self, motion: Motion) -> usize {
        let (text, at) = (self.state.text.as_str(), self.state.cursor);
        let (before, after) = text.split_at(at);
        match motion {
            Motion::Left => before.grapheme_indices(true).next_back().map_or(0, |(at, _)| at),
            Motion::Right => at + after.graphemes(true).next().map_or(0, str::len),
            Motion::WordLeft => {
                let word = before.trim_end_matches(|c: char| !is_word(c));
                let at = word.trim_end_matches(is_word).len();
                before.grapheme_indices(true).rfind(|(start, _)| *start <= at).map_or(0, |(start, _)| start)
            }
            Motion::WordRight => {
                let word = after.trim_start_matches(|c: char| !is_word(c));
                let end = text.len() - word.trim_start_matches(is_word).len();
                let mut ends = after.grapheme_indices(true).map(|(start, cluster)| at + start + cluster.len());
                ends.find(|next| *next >= end).unwrap_or(text.len())
            }
            Motion::LineStart => before.rfind('\n').map_or(0, |at| at + 1),
            Motion::LineEnd => at + after.find('\n').unwrap_or(after.len()),
            Motion::Start => 0,
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buffer(text: &str) -> Buffer {
        let mut buffer = Buffer::default();
        buffer.insert(text);
        buffer
    }

    #[test]
    fn kills_in_one_direction_are_one_text() {
        let mut buffer = buffer("one two three");
        buffer.kill(Motion::WordLeft);
        buffer.kill(Motion::WordLeft);
        assert_eq!(buffer.text(), "one ");
        buffer.yank();
        assert_eq!(buffer.text(), "one two three");
        buffer.move_cursor(Motion::Start);
        buffer.kill(Motion::LineEnd);
        buffer.yank();
        buffer.yank_earlier();
        assert_eq!(buffer.text(), "two three");
    }

    #[test]
    fn typed_word_is_undone_at_once() {
        let mut buffer = Buffer::default();
        "ab cd".chars().for_each(|c| buffer.insert(&c.to_string()));
        buffer.undo();
        assert_eq!(buffer.text(), "ab ");
        buffer.redo();
        assert_eq!((buffer.text(), buffer.cursor()), ("ab cd", 5));
    }

    #[test]
    fn clusters_are_deleted_whole() {
        let mut buffer = buffer("a👨‍👩‍👧");
        buffer.delete(Motion::Left);
        assert_eq!(buffer.text(), "a");
    }

    #[derive(Debug, Clone)]
    enum Edit {
        Insert(String),
        Go(Motion),
        Delete(Motion),
        Kill(Motion),
        Yank,
        YankEarlier,
        Cursor(usize),
        Undo,
        Redo,
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        use Motion::*;
        let motion = || prop::sample::select(vec![Left, Right, WordLeft, WordRight, LineStart, LineEnd, Start]);
        let edit = prop_oneof![
            3 => "[a-c \n]{1,4}|\\PC{1,3}|[e\u{301}\u{200d}👩]{1,3}".prop_map(Edit::Insert),
            1 => motion().prop_map(Edit::Go),
            1 => motion().prop_map(Edit::Delete),
            1 => motion().prop_map(Edit::Kill),
            1 => Just(Edit::Yank),
            1 => Just(Edit::YankEarlier),
            1 => (0_usize..40).prop_map(Edit::Cursor),
            1 => Just(Edit::Undo),
            1 => Just(Edit::Redo),
        ];
        prop::collection::vec(edit, 0..40)
    }

    proptest! {
        #[test]
        fn cursor_stays_at_boundaries_and_undo_restores(edits in edits()) {
            let mut buffer = Buffer::default();
            for edit in edits {
                match edit {
                    Edit::Insert(text) => buffer.insert(&text),
                    Edit::Go(motion) => buffer.move_cursor(motion),
                    Edit::Delete(motion) => buffer.delete(motion),
                    Edit::Kill(motion) => buffer.kill(motion),
                    Edit::Yank => buffer.yank(),
                    Edit::YankEarlier => buffer.yank_earlier(),
                    Edit::Cursor(at) => buffer.set_cursor(at),
                    Edit::Undo => buffer.undo(),
                    Edit::Redo => buffer.redo(),
                }
                prop_assert!(buffer.text().is_char_boundary(buffer.cursor()));
                let mut cursor = GraphemeCursor::new(buffer.cursor(), buffer.text().len(), true);
                prop_assert!(cursor.is_boundary(buffer.text(), 0).unwrap());
            }
            let last = buffer.text().to_owned();
            let steps = buffer.undo.len();
            (0..steps).for_each(|_| buffer.undo());
            prop_assert_eq!(buffer.text(), "");
            (0..steps + buffer.redo.len()).for_each(|_| buffer.redo());
            prop_assert!(buffer.redo.is_empty() && (steps == 0 || buffer.text() == last || !buffer.undo.is_empty()));
        }
    }
}
