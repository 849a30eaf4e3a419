//! Keys of vi in the editor.
//!
//! A subset: counts, motions, the operators `d`, `c` and `y` with motions or doubled, and the usual single keys. Keys with
//! Ctrl or Alt keep their actions in both modes.

use crate::composer::Motion;
use crate::update::App;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Maximum count.
const MAX_COUNT: usize = 999;

impl App {
    /// Applies a key as vi does. Returns `false` for a key that vi leaves to the UI.
    pub(super) fn vi_key(&mut self, key: KeyEvent) -> bool {
        if !self.settings.has_vi_keys || !key.modifiers.difference(KeyModifiers::SHIFT).is_empty() {
            return false;
        }
        match key.code {
            KeyCode::Esc if self.vi.is_normal => {
                // A second one interrupts.
                std::mem::take(&mut self.vi.pending).is_some() | (std::mem::take(&mut self.vi.count) > 0)
            }
            KeyCode::Esc if self.popup.is_none() => {
                self.vi.is_normal = true;
                true
            }
            KeyCode::Char(c) if self.vi.is_normal => {
                self.vi_command(c);
                true
            }
            _ => false,
        }
    }

    fn vi_command(&mut self, c: char) {
        let is_digit = c.is_ascii_digit() && (c != '0' || self.vi.count > 0);
        if let Some(digit) = c.to_digit(10).filter(|_| is_digit) {
            self.vi.count = (self.vi.count * 10 + digit as usize).min(MAX_COUNT);
            return;
        }
        let pending = self.vi.pending.take();
        if pending.is_none() && matches!(c, 'd' | 'c' | 'y' | 'g') {
            self.vi.pending = Some(c);
            return;
        }
        let count = std::mem::take(&mut self.vi.count).max(1);
        match pending {
            Some('g') if c == 'g' => self.composer.go(Motion::Start),
            Some('g') => {}
            Some(operator) if operator == c => {
                for _ in 0..count {
                    self.composer.line(operator);
                }
                self.vi.is_normal = operator != 'c';
            }
            Some(operator) => self.vi_operate(operator, c, count),
            None => self.vi_single(c, count),
        }
    }

    fn vi_operate(&mut self, operator: char, c: char, count: usize) {
        // As in vi, a change of a word leaves the blanks behind it.
        let c = if operator == 'c' && c == 'w' { 'e' } else { c };
        let Some(motion) = motion(c) else { return };
        match operator {
            'y' => self.composer.copy(motion, count),
            _ => (0..count).for_each(|_| self.composer.kill(motion)),
        }
        self.vi.is_normal = operator != 'c';
    }

    fn vi_single(&mut self, c: char, count: usize) {
        if let Some(motion) = motion(c) {
            return (0..count).for_each(|_| self.composer.go(motion));
        }
        let is_empty = self.composer.is_empty();
        let composer = &mut self.composer;
        let mut inserts = true;
        match c {
            'i' => {}
            'a' => composer.go(Motion::Right),
            'I' => composer.go(Motion::LineStart),
            'A' => composer.go(Motion::LineEnd),
            'o' => {
                composer.go(Motion::LineEnd);
                composer.insert("\n");
            }
            'O' => {
                composer.go(Motion::LineStart);
                composer.insert("\n");
                composer.go(Motion::Left);
            }
            's' => (0..count).for_each(|_| composer.kill(Motion::Right)),
            'C' => composer.kill(Motion::LineEnd),
            // Commands of the conversation begin with a slash.
            ':' if is_empty => composer.insert("/"),
            _ => inserts = false,
        }
        if inserts {
            self.vi.is_normal = false;
            return;
        }
        for _ in 0..count {
            match c {
                'j' => drop(composer.down()),
                'k' => drop(composer.up()),
                'x' => composer.kill(Motion::Right),
                'X' => composer.kill(Motion::Left),
                'D' => composer.kill(Motion::LineEnd),
                'p' => {
                    composer.go(Motion::Right);
                    composer.yank();
                }
                'P' => composer.yank(),
                'u' => composer.undo(),
                'U' => composer.redo(),
                'G' => composer.go(Motion::End),
                _ => {}
            }
        }
    }
}

fn motion(c: char) -> Option<Motion> {
    Some(match c {
        'h' => Motion::Left,
        'l' | ' ' => Motion::Right,
        'w' => Motion::NextWord,
        'b' => Motion::WordLeft,
        'e' => Motion::WordRight,
        '0' | '^' => Motion::LineStart,
        '$' => Motion::LineEnd,
        _ => return None,
    })
}
