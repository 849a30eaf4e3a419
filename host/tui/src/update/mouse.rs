//! The effects of the mouse, where the user wants one: the wheel scrolls or moves in a list, a click folds or unfolds, and
//! a drag marks text, which is copied.
//!
//! No click answers a question, because it may be meant for the previous screen.

use crate::dialog::screen_view::{ReadingKeys, ViewLayer};
use crate::input::UiRequest;
use crate::keys::Action;
use crate::transcript::RowPosition;
use crate::update::App;
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use std::time::Duration;

/// Rows of one step of the wheel.
const STEP: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent, now: Duration) {
        let (row, column) = (usize::from(mouse.row), usize::from(mouse.column));
        match mouse.kind {
            MouseEventKind::ScrollUp => self.wheel(false, now),
            MouseEventKind::ScrollDown => self.wheel(true, now),
            MouseEventKind::Down(MouseButton::Left) => self.press(row, column, now),
            MouseEventKind::Drag(MouseButton::Left) => self.drag(row, column, now),
            MouseEventKind::Up(MouseButton::Left) => self.release(row, now),
            _ => {}
        }
    }

    /// Gives the mouse to the UI, or back to the terminal.
    pub(super) fn toggle_mouse(&mut self, now: Duration) {
        if self.settings.is_inline {
            return self.hint("in the inline form, the mouse is the terminal's", now);
        }
        self.settings.has_mouse = !self.settings.has_mouse;
        self.transcript.unmark();
        self.requests.push(UiRequest::Mouse(self.settings.has_mouse));
        let hint = match self.settings.has_mouse {
            true => "a drag copies, a click folds, the wheel scrolls",
            false => "the mouse is the terminal's",
        };
        let back = self.settings.keys.says(Action::Mouse, "; ", "changes that");
        self.hint(format!("{hint}{back}"), now);
    }

    fn wheel(&mut self, is_down: bool, now: Duration) {
        let is_reading = self.views.reading_keys() != ReadingKeys::Nothing;
        if self.wheel_in_view(is_down, now) || (!is_reading && self.select_completion(is_down)) {
            return;
        }
        self.scroll_by(if is_down { STEP } else { -STEP }, now);
    }

    /// Scrolls like the keys that do.
    fn scroll_by(&mut self, rows: isize, now: Duration) {
        let below = self.height + usize::from(!self.transcript.is_at_end());
        self.transcript.scroll(rows, if rows > 0 { below } else { self.height }, now);
    }

    /// Begins to mark text.
    fn press(&mut self, row: usize, column: usize, now: Duration) {
        self.transcript.unmark();
        if let Some(place) = self.find_place(row, now) {
            self.transcript.mark(place, column);
        }
    }

    /// Marks text up to a cell. Beyond the rows of the conversation, it scrolls.
    fn drag(&mut self, row: usize, column: usize, now: Duration) {
        if self.transcript.region().is_none() {
            return;
        }
        match row {
            0 => self.scroll_by(-1, now),
            _ if row >= self.height => self.scroll_by(1, now),
            _ => {}
        }
        let shown = self.transcript.visible(self.height, now);
        let last = shown.last().map(|(place, _)| (*place, usize::MAX - 1));
        let at = shown.get(row).map(|(place, _)| (*place, column)).or(last);
        at.into_iter().for_each(|(place, column)| self.transcript.mark_to(place, column));
    }

    /// Copies the marked text. Without a mark, folds or unfolds the item in the row.
    fn release(&mut self, row: usize, now: Duration) {
        match self.transcript.marked(now) {
            Some(text) if text.trim().is_empty() => self.transcript.unmark(),
            Some(text) => {
                self.copy_text(text, "the marked text", now);
                if let Some((hint, _)) = self.hint.as_mut().filter(|_| !self.knows_selection) {
                    hint.push_str("; with shift, the terminal selects");
                }
                self.knows_selection = true;
            }
            None => self.click(row, now),
        }
    }

    fn click(&mut self, row: usize, now: Duration) {
        let item = self.find_place(row, now).map(|place| place.item);
        if let Some(item) = item.filter(|item| self.transcript.is_foldable(*item)) {
            self.transcript.toggle_at(item);
            self.transcript.reveal(item, self.height, now);
        }
    }

    /// Returns the place in the conversation that a row of the screen shows.
    fn find_place(&mut self, row: usize, now: Duration) -> Option<RowPosition> {
        // Completions cover the end of the transcript.
        let is_free = self.popup.is_none() && row < self.height;
        let is_free = is_free && !self.views.has(ViewLayer::Page);
        let shown = is_free.then(|| self.transcript.visible(self.height, now))?;
        shown.get(row).map(|(place, _)| *place)
    }
}
