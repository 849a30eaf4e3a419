//! The search in the conversation: a line in place of the message.

use crate::composer::Composer;
use crate::dialog::screen_view::{ScreenView, ViewFrame, ViewLayer, ViewOutcome, ViewRows};
use crate::keys::Action;
use crate::rows::{Row, StyledPiece, width};
use crate::update::App;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// The keys of a search, behind the searched text, where there is more room and less.
const KEYS: [&str; 2] = ["   enter finds above · ↓ below · esc closes", "   esc closes"];
const VI_KEYS: [&str; 2] = ["   enter finds · n and N repeat · esc closes", "   esc closes"];

/// The words that the conversation is searched for, while they are written.
#[derive(Debug, Default)]
pub(crate) struct SearchLine {
    query: Composer,
    /// In a search that a key of vi began, true if it goes downwards.
    vi_direction: Option<bool>,
}

impl App {
    /// Opens the search. A key of vi gives its direction, downwards if true.
    pub(crate) fn begin_search(&mut self, vi_direction: Option<bool>) {
        self.views.open(SearchLine { query: Composer::default(), vi_direction });
        self.transcript.begin_search();
        self.is_viewing = self.settings.is_inline;
    }

    fn find(&mut self, words: &str, is_down: bool, now: Duration) {
        if !self.transcript.find(words, is_down, now) {
            self.hint(if is_down { "no match below" } else { "no match above" }, now);
        }
    }
}

impl SearchLine {
    fn find(&self, is_down: bool) -> ViewOutcome<App> {
        let words = self.query.text().to_owned();
        ViewOutcome::effect(move |app: &mut App, now| app.find(&words, is_down, now))
    }
}

impl ScreenView<App> for SearchLine {
    fn layer(&self) -> ViewLayer {
        ViewLayer::Line
    }

    fn draw_rows(&mut self, frame: ViewFrame<'_>) -> ViewRows {
        let ViewFrame { columns, theme, .. } = frame;
        let label = match self.vi_direction {
            Some(true) => "/",
            Some(false) => "?",
            None => "search: ",
        };
        let mut row = Row::from_pieces([StyledPiece::new(label, theme.accent)]);
        let left = row.width();
        let drawn = self.query.rows(columns.saturating_sub(left), 1, theme.text, None);
        drawn.rows.iter().flat_map(Row::pieces).for_each(|piece| row.push(piece.clone()));
        let room = columns.saturating_sub(row.width());
        let keys = if self.vi_direction.is_some() { VI_KEYS } else { KEYS };
        let keys = keys.into_iter().find(|keys| width(keys) < room);
        row.push(StyledPiece::new(keys.unwrap_or_default(), theme.dim));
        (vec![row], Some((0, left + drawn.cursor.1)))
    }

    fn take_key(&mut self, key: KeyEvent, action: Option<Action>, _now: Duration) -> ViewOutcome<App> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code, self.vi_direction) {
            (KeyCode::Enter, Some(is_down)) => {
                let words = self.query.text().to_owned();
                ViewOutcome::effect(move |app: &mut App, now| app.end_vi_search(words, is_down, now))
            }
            (KeyCode::Esc, _) => ViewOutcome::effect(|app: &mut App, _| app.views.close(ViewLayer::Line)),
            (KeyCode::Char('c' | 'g'), _) if is_control => {
                ViewOutcome::effect(|app: &mut App, _| app.views.close(ViewLayer::Line))
            }
            (KeyCode::Enter | KeyCode::Up, _) => self.find(false),
            (KeyCode::Char('s' | 'p' | 'r'), _) if is_control => self.find(false),
            (KeyCode::Down, _) => self.find(true),
            (KeyCode::Char('n'), _) if is_control => self.find(true),
            _ => {
                let before = self.query.version();
                self.query.line_key(key, action);
                match self.query.version() == before {
                    true => ViewOutcome::Taken,
                    false => ViewOutcome::effect(|app: &mut App, _| app.transcript.begin_search()),
                }
            }
        }
    }

    fn take_paste(&mut self, text: &str, _now: Duration) -> ViewOutcome<App> {
        self.query.line_paste(text);
        ViewOutcome::Taken
    }

    fn marked_text(&self) -> Option<&str> {
        Some(self.query.text())
    }
}
