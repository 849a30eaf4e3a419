//! Keys of vi, where the UI has them.

use crate::update::App;
use crossterm::event::{KeyCode, KeyEvent};

impl App {
    /// Applies a key as vi does. Returns `false` for a key that vi leaves to the UI.
    pub(super) fn vi_key(&mut self, key: KeyEvent) -> bool {
        // Escape closes the completions first.
        let is_closing = key.code == KeyCode::Esc && self.popup.is_some() && self.vi.inserts();
        self.settings.has_vi_keys && !is_closing && self.vi.key(key, &mut self.composer)
    }
}
