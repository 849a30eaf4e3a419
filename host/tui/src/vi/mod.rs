//! Keys of vi in the editor.
//!
//! A subset: counts, motions, text objects, the operators `d`, `c` and `y`, the usual single keys, `.`, and selections. Keys
//! with Ctrl or Alt keep their actions in all modes.

mod change;
mod command;
mod conversation;
mod object;
mod text;
mod visual;

pub(crate) use self::conversation::{ConversationInput, ConversationKey};

use self::command::{Command, Parsed, parse};
use self::text::GraphemeText;
use crate::composer::Composer;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::ops::Range;

/// The meaning of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Insert,
    Normal,
    /// Text is selected from this offset to the cursor.
    Visual {
        anchor: usize,
        is_lines: bool,
    },
}

/// A change that `.` repeats.
#[derive(Debug, Clone, Default)]
struct RepeatableChange {
    keys: String,
    /// The text that was typed after them.
    inserted: String,
}

/// Text that is being typed after a command.
#[derive(Debug)]
struct Insertion {
    /// The keys of the command.
    keys: String,
    start: usize,
    /// Bytes of the message before it.
    length: usize,
    /// States to undo before the command.
    undo: usize,
}

/// State of vi keys.
#[derive(Debug, Default)]
pub(crate) struct Vi {
    mode: Mode,
    /// The keys of the command so far.
    typed: String,
    /// The search that `;` repeats.
    found: Option<(char, char)>,
    /// The text that was cut or copied last, if that was lines.
    lines: Option<String>,
    last: Option<RepeatableChange>,
    insertion: Option<Insertion>,
}

impl Vi {
    /// Returns whether keys type text.
    pub(crate) fn inserts(&self) -> bool {
        self.mode == Mode::Insert
    }

    /// Returns the name of the mode and the keys so far.
    pub(crate) fn label(&self) -> String {
        let name = match self.mode {
            Mode::Insert => "insert",
            Mode::Normal => "normal",
            Mode::Visual { is_lines: false, .. } => "visual",
            Mode::Visual { is_lines: true, .. } => "visual line",
        };
        format!("{name} {}", self.typed).trim_end().to_owned()
    }

    /// Returns the range of the message that is selected.
    pub(crate) fn selected(&self, composer: &Composer) -> Option<Range<usize>> {
        let text = GraphemeText::new(Some(composer.text()).filter(|_| matches!(self.mode, Mode::Visual { .. }))?);
        self.selection(&text, composer).map(|(places, _)| text.offset(places.start)..text.offset(places.end))
    }

    /// Lets keys type text, for a new message.
    pub(crate) fn reset(&mut self) {
        (self.mode, self.insertion) = (Mode::Insert, None);
        self.typed.clear();
    }

    /// Applies a key. Returns `false` for a key that has no meaning in vi.
    pub(crate) fn key(&mut self, key: KeyEvent, composer: &mut Composer) -> bool {
        if !key.modifiers.difference(KeyModifiers::SHIFT).is_empty() {
            return false;
        }
        match key.code {
            KeyCode::Esc if self.mode == Mode::Insert => self.escape(composer),
            // Another one interrupts.
            KeyCode::Esc if self.mode == Mode::Normal => return !std::mem::take(&mut self.typed).is_empty(),
            KeyCode::Esc => self.leave_selection(),
            _ if self.mode == Mode::Insert => return false,
            KeyCode::Char(c) => self.types(c, composer),
            KeyCode::Backspace => self.types('h', composer),
            KeyCode::Delete => self.types('x', composer),
            KeyCode::Enter if !self.typed.is_empty() => self.types('\n', composer),
            _ => {
                self.typed.clear();
                return false;
            }
        }
        true
    }

    /// Ends typing. The cursor is on the last character that was typed, as in vi.
    fn escape(&mut self, composer: &mut Composer) {
        self.mode = Mode::Normal;
        if let Some(insertion) = self.insertion.take() {
            composer.join_undo(insertion.undo);
            let typed = composer.text().len().saturating_sub(insertion.length);
            let is_typed = insertion.start + typed == composer.cursor();
            let inserted = composer.text().get(insertion.start..composer.cursor()).filter(|_| is_typed);
            self.last =
                Some(RepeatableChange { keys: insertion.keys, inserted: inserted.unwrap_or_default().to_owned() });
        }
        let text = GraphemeText::new(composer.text());
        let place = text.cluster_at(composer.cursor());
        let left = text.offset(place.saturating_sub(1).max(text.line_start(place)));
        composer.set_cursor(left);
    }

    fn types(&mut self, c: char, composer: &mut Composer) {
        self.typed.push(c);
        let Parsed::Command(command) = parse(&self.typed, matches!(self.mode, Mode::Visual { .. })) else { return };
        let keys = std::mem::take(&mut self.typed);
        keep_on_line(composer);
        match self.mode {
            Mode::Visual { .. } => self.select(command, composer),
            _ => self.command(command, keys, composer),
        }
        if self.mode != Mode::Insert {
            keep_on_line(composer);
        }
    }

    /// Runs the last change again, with another count if there is one.
    fn repeat(&mut self, count: Option<usize>, composer: &mut Composer) {
        let Some(change) = self.last.clone() else { return };
        let (own, rest) = command::count(&change.keys);
        let count = count.or(own).map(|count| count.to_string()).unwrap_or_default();
        count.chars().chain(rest.chars()).for_each(|key| self.types(key, composer));
        if self.inserts() {
            composer.insert(&change.inserted);
            self.escape(composer);
        }
    }

    /// Moves the cursor by a motion.
    fn moves(&mut self, command: Command, composer: &mut Composer) {
        let Some(command) = self.resolved(command, composer) else { return };
        let text = GraphemeText::new(composer.text());
        let from = text.cluster_at(composer.cursor());
        let Some(target) = text.motion(from, command.key, command.count) else { return };
        let offset = text.offset(text.within_line(target.cluster_index()));
        composer.set_cursor(offset);
    }

    /// Remembers a search in the line, or replaces `;` and `,` by it. Returns `None` if there was no search.
    fn resolved(&mut self, command: Command, composer: &Composer) -> Option<Command> {
        let (key, c) = match command.key {
            (key @ ('f' | 'F' | 't' | 'T'), Some(c)) => {
                self.found = Some((key, c));
                return Some(command);
            }
            (';', _) => self.found?,
            (',', _) => self.found.map(|(key, c)| (opposite(key), c))?,
            _ => return Some(command),
        };
        let key = (key, Some(c));
        let text = GraphemeText::new(composer.text());
        let from = text.cluster_at(composer.cursor());
        // `t` would find the character that it stopped before.
        let is_there = text.motion(from, key, None).is_some_and(|target| target.cluster_index() == from);
        let count = Some(command.count.unwrap_or(1) + usize::from(is_there));
        Some(Command { count, key, ..command })
    }
}

/// Puts the cursor on the last character of its line if it is behind that.
fn keep_on_line(composer: &mut Composer) {
    let text = GraphemeText::new(composer.text());
    let place = text.cluster_at(composer.cursor());
    let kept = text.within_line(place);
    if kept != place {
        let offset = text.offset(kept);
        composer.set_cursor(offset);
    }
}

/// Returns the search in the other direction.
fn opposite(key: char) -> char {
    if key.is_ascii_lowercase() { key.to_ascii_uppercase() } else { key.to_ascii_lowercase() }
}
