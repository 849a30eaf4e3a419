//! A list from which the user picks one entry, with a fuzzy filter.

use crate::fuzzy::filter;
use crate::rows::{Piece, Row};
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Maximum number of matches in a list.
const MAX_MATCHES: usize = 500;

/// An entry of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// The value that the choice stands for.
    pub value: String,
    /// Text in the list, which the filter searches.
    pub label: String,
    /// More about it, in the second column.
    pub detail: String,
}

/// The subject of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// Models that can be used.
    Model,
    /// Sessions that can be resumed.
    Session,
    /// Slash commands and actions of the UI.
    Palette,
    /// Earlier messages of the user.
    History,
}

impl Pick {
    fn title(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Session => "sessions",
            Self::Palette => "commands",
            Self::History => "history",
        }
    }
}

/// A list on the screen.
#[derive(Debug)]
pub(crate) struct Picker {
    pub(crate) pick: Pick,
    choices: Vec<Choice>,
    query: String,
    matches: Vec<usize>,
    selected: usize,
}

/// The effect of a key on a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Picked {
    Nothing,
    Closed,
    Choice(Choice),
}

impl Picker {
    pub(crate) fn new(pick: Pick, choices: Vec<Choice>) -> Self {
        let mut picker = Self { pick, choices, query: String::new(), matches: Vec::new(), selected: 0 };
        picker.search();
        picker
    }

    fn search(&mut self) {
        self.matches = filter(&self.query, self.choices.iter().map(|choice| choice.label.as_str()), MAX_MATCHES);
        self.selected = 0;
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.query.push_str(text.lines().next().unwrap_or_default());
        self.search();
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Picked {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Picked::Closed,
            KeyCode::Char('c' | 'g') if is_control => return Picked::Closed,
            KeyCode::Enter => {
                let choice = self.matches.get(self.selected).map(|at| self.choices[*at].clone());
                return choice.map_or(Picked::Nothing, Picked::Choice);
            }
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Char('p') if is_control => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.select(1),
            KeyCode::Char('n') if is_control => self.select(1),
            KeyCode::PageDown => self.select(10),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::Backspace => {
                self.query.pop();
                self.search();
            }
            KeyCode::Char('u') if is_control => {
                self.query.clear();
                self.search();
            }
            KeyCode::Char(c) if !is_control => {
                self.query.push(c);
                self.search();
            }
            _ => {}
        }
        Picked::Nothing
    }

    fn select(&mut self, by: usize) {
        self.selected = (self.selected + by).min(self.matches.len().saturating_sub(1));
    }

    /// Draws the list into at most `height` rows, and returns the place of the cursor.
    pub(crate) fn draw(&self, columns: usize, height: usize, theme: &Theme) -> (Vec<Row>, Option<(usize, usize)>) {
        let count = format!("{} {} of {}", self.pick.title(), self.matches.len(), self.choices.len());
        let query = Piece::line(&self.query, columns.saturating_sub(4), theme.text);
        let cursor = 2 + crate::rows::width(query.text());
        let mut head = Row::of([Piece::new("› ", theme.user), query]);
        let left = columns.saturating_sub(head.width() + 3);
        head.push(Piece::new("  ", theme.text));
        head.push(Piece::line(&count, left, theme.dim));
        let mut rows = vec![head];
        let entries: Vec<&Choice> = self.matches.iter().map(|at| &self.choices[*at]).collect();
        rows.extend(list(&entries, self.selected, columns, height.saturating_sub(1), theme));
        (rows, Some((0, cursor.min(columns.saturating_sub(1)))))
    }
}

/// Draws entries in two columns, with the selected one among at most `height` rows.
pub(crate) fn list(choices: &[&Choice], selected: usize, columns: usize, height: usize, theme: &Theme) -> Vec<Row> {
    let first = (selected + 1).saturating_sub(height.max(1));
    let shown = &choices[first.min(choices.len())..];
    let shown = &shown[..shown.len().min(height)];
    let wide = shown.iter().map(|choice| crate::rows::width(&choice.label)).max().unwrap_or(0);
    let wide = wide.min(columns.saturating_sub(4).min((columns * 3 / 5).max(16)));
    let row = |(at, choice): (usize, &&Choice)| {
        let is_selected = first + at == selected;
        let mark = if is_selected { "❯ " } else { "  " };
        let label = Piece::line(&choice.label, wide, if is_selected { theme.strong } else { theme.text });
        let blank = " ".repeat(wide.saturating_sub(crate::rows::width(label.text())) + 2);
        let room = columns.saturating_sub(wide + 5);
        let detail = if room < 8 { "" } else { &choice.detail };
        Row::of([
            Piece::new(mark, theme.accent),
            label,
            Piece::new(&blank, theme.text),
            Piece::line(detail, room, theme.dim),
        ])
    };
    shown.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_letters_filter_and_enter_picks() {
        let choice = |label: &str| Choice { value: label.into(), label: label.into(), detail: "x".into() };
        let mut picker = Picker::new(Pick::Model, ["gpt-5", "claude-sonnet", "claude-opus"].map(choice).into());
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        "clop".chars().for_each(|c| drop(picker.key(key(KeyCode::Char(c)))));
        let (rows, _) = picker.draw(40, 5, &Theme::plain());
        assert_eq!(rows.iter().map(Row::plain).collect::<Vec<_>>(), ["› clop  models 1 of 3", "❯ claude-opus  x"]);
        assert_eq!(picker.key(key(KeyCode::Enter)), Picked::Choice(choice("claude-opus")));
        assert_eq!(picker.key(key(KeyCode::Esc)), Picked::Closed);
    }
}
