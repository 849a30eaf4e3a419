//! The effects of the mouse, where the user wants one: the wheel scrolls or moves in a list, and a click folds or unfolds.
//!
//! No click answers a question, because it may be meant for what was there before.

use crate::update::App;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use std::time::Duration;

/// Rows of one step of the wheel.
const STEP: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent, now: Duration) {
        match mouse.kind {
            MouseEventKind::ScrollUp => self.wheel(false, now),
            MouseEventKind::ScrollDown => self.wheel(true, now),
            MouseEventKind::Down(MouseButton::Left) => self.click(mouse.row.into(), now),
            _ => {}
        }
    }

    fn wheel(&mut self, is_down: bool, now: Duration) {
        let is_asking = self.approval.is_some() || self.dialog.is_some();
        if let Some(picker) = self.picker.as_mut().filter(|_| !is_asking) {
            let code = if is_down { KeyCode::Down } else { KeyCode::Up };
            let picked = picker.key(KeyEvent::new(code, KeyModifiers::NONE), None, now);
            return self.picked(picked, now);
        }
        if !is_asking && self.select_completion(is_down) {
            return;
        }
        // As with the keys that scroll.
        let below = self.height + usize::from(!self.transcript.is_at_end());
        match is_down {
            true => self.transcript.scroll(STEP, below, now),
            false => self.transcript.scroll(-STEP, self.height, now),
        }
    }

    /// Folds or unfolds the item in a row of the screen.
    fn click(&mut self, row: usize, now: Duration) {
        // Completions cover the end of the transcript.
        if self.popup.is_some() || row >= self.height {
            return;
        }
        let item = self.transcript.visible(self.height, now).get(row).map(|(item, _)| *item);
        if let Some(item) = item.filter(|item| self.transcript.is_foldable(*item)) {
            self.transcript.toggle_at(item);
            self.transcript.reveal(item, self.height, now);
        }
    }
}
