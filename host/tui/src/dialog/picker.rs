//! A list where the user picks one entry, with a fuzzy filter.
//!
//! A list that appears by itself, such as the ways to continue with a plan, takes keys only after a quiet moment, like
//! the question about a call: keys that were typed for the editor pick nothing.

use crate::composer::Composer;
use crate::dialog::key_guard::QUIET;
pub use crate::dialog::pick::{Pick, PickChoice};
use crate::fuzzy::filter;
use crate::keys::Action;
use crate::rows::{Lead, Row, StyledPiece, wrap};
use crate::shorten::without_middle;
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::style::Style;
use std::borrow::Cow;
use std::time::Duration;

const MAX_MATCHES: usize = 500;
/// Mark before the label of a choice that belongs to one above it, after two blanks for each further generation.
pub const NESTED: &str = "└ ";
const PREVIEW_ROWS: usize = 6;

/// Returns the choices whose label or value matches the typed text, best first.
pub fn matching(typed: &str, choices: Vec<PickChoice>) -> Vec<PickChoice> {
    let text = |choice: &PickChoice| match choice.value == choice.label {
        true => choice.label.clone(),
        false => format!("{} {}", choice.value, choice.label),
    };
    let texts: Vec<String> = choices.iter().map(text).collect();
    let found = filter(typed.trim(), texts.iter().map(String::as_str), MAX_MATCHES);
    found.into_iter().map(|at| choices[at].clone()).collect()
}

/// A list on the screen.
#[derive(Debug)]
pub(crate) struct Picker {
    pub(crate) pick: Pick,
    choices: Vec<PickChoice>,
    query: Composer,
    matches: Vec<usize>,
    selected: usize,
    /// The new name of the selected session, while it is written.
    name: Option<Composer>,
    is_deleting: bool,
    /// Value of the choice that is in use.
    current: Option<String>,
    /// A remark in place of the keys, until the next key.
    notice: Option<Cow<'static, str>>,
    /// Value of a choice, and text about it.
    preview: Option<(String, String)>,
    /// Time since which no key arrived, until keys count.
    quiet_since: Option<Duration>,
}

/// The effect of a key on a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Picked {
    Nothing,
    Closed,
    Choice(PickChoice),
    /// Continue in a copy of the session with this id.
    Fork(String),
    Delete(String),
    Rename(String, String),
    /// Copy the command that continues the session with this id.
    Copy(String),
    /// List the sessions of the directory instead of all, or the other way round.
    Scope,
    /// Change the queue.
    Queued(u64, OfQueue),
}

/// A change of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfQueue {
    Remove,
    /// Let the agent read the message after the calls in progress.
    Steer,
    Up,
    Down,
}

impl Picker {
    pub(crate) fn new(pick: Pick, choices: Vec<PickChoice>) -> Self {
        let mut picker = Self {
            pick,
            choices,
            query: Composer::default(),
            matches: Vec::new(),
            selected: 0,
            name: None,
            is_deleting: false,
            current: None,
            notice: None,
            preview: None,
            quiet_since: None,
        };
        picker.search();
        picker
    }

    /// Takes other choices over, with the place of the user among them. Returns whether there are any.
    pub(crate) fn replace(&mut self, choices: Vec<PickChoice>) -> bool {
        let (at, value) = (self.selected, self.choice().map(|choice| choice.value.clone()));
        self.choices = choices;
        self.search();
        let is_same = |at: &usize| Some(&self.choices[*at].value) == value.as_ref();
        let place = self.matches.iter().position(is_same).unwrap_or(at);
        self.selected = place.min(self.matches.len().saturating_sub(1));
        !self.choices.is_empty()
    }

    /// Shows a remark until the next key.
    pub(crate) fn set_notice(&mut self, text: impl Into<Cow<'static, str>>) {
        self.notice = Some(text.into());
    }

    /// Takes keys only after a quiet moment.
    pub(crate) fn appears_at(self, now: Duration) -> Self {
        Self { quiet_since: Some(now), ..self }
    }

    /// Returns the time when keys begin to count if no other follows; `None` if they count.
    pub(crate) fn quiet_at(&self) -> Option<Duration> {
        self.quiet_since.map(|since| since + QUIET)
    }

    /// Lets keys count after a quiet moment.
    pub(crate) fn tick(&mut self, now: Duration) {
        self.quiet_since.take_if(|since| now >= *since + QUIET);
    }

    /// Returns whether an input comes too early to be meant for the list.
    fn is_early(&mut self, now: Duration) -> bool {
        self.tick(now);
        self.quiet_since.as_mut().map(|since| *since = now).is_some()
    }

    fn search(&mut self) {
        let query = self.query.text();
        self.matches = match self.pick {
            // An action is looked for by its key and by its effect.
            Pick::Keys | Pick::Settings => {
                let texts: Vec<String> =
                    self.choices.iter().map(|choice| format!("{} {}", choice.label, choice.detail)).collect();
                filter(query, texts.iter().map(String::as_str), MAX_MATCHES)
            }
            _ => filter(query, self.choices.iter().map(|choice| choice.label.as_str()), MAX_MATCHES),
        };
        if self.pick.is_sessions() && !query.is_empty() {
            // Their directories and ids are found as they are written.
            let is_other = |at: &usize| self.choices[*at].detail.contains(query) && !self.matches.contains(at);
            let others: Vec<usize> = (0..self.choices.len()).filter(is_other).collect();
            self.matches.extend(others);
        }
        self.selected = 0;
    }

    /// Marks the choice with this value, which is in use, and selects it in a list that has just opened.
    pub(crate) fn mark(&mut self, value: &str, mark: &str) {
        let Some(at) = self.choices.iter().position(|choice| choice.value == value) else { return };
        let choice = &mut self.choices[at];
        choice.detail = format!("{mark} · {}", choice.detail);
        if self.current.replace(value.to_owned()).is_none() && self.query.is_empty() {
            self.selected = self.matches.iter().position(|place| *place == at).unwrap_or(self.selected);
        }
    }

    pub(crate) fn paste(&mut self, text: &str, now: Duration) {
        if self.is_early(now) {
            return;
        }
        if let Some(name) = &mut self.name {
            return name.line_paste(text);
        }
        self.query.line_paste(text);
        self.search();
    }

    /// Returns the selected choice.
    fn choice(&self) -> Option<&PickChoice> {
        self.matches.get(self.selected).map(|at| &self.choices[*at])
    }

    /// Picks the selected choice, or the model that was typed if no choice matches.
    fn picked(&self) -> Picked {
        let typed = PickChoice { value: self.query.message().trim().to_owned(), ..PickChoice::default() };
        let typed = Some(typed).filter(|typed| self.pick == Pick::Model && !typed.value.is_empty());
        self.choice().cloned().or(typed).map_or(Picked::Nothing, Picked::Choice)
    }

    /// Returns the value of the selected choice if its preview is missing.
    pub(crate) fn lacks_preview(&self) -> Option<&str> {
        let value = self.choice().filter(|_| self.pick.is_sessions())?.value.as_str();
        Some(value).filter(|value| self.preview.as_ref().is_none_or(|(known, _)| known != value))
    }

    /// Shows a text about a choice.
    pub(crate) fn set_preview(&mut self, value: String, text: String) {
        self.preview = Some((value, text));
    }

    /// Applies a key that acts on the selected session.
    fn session_key(&mut self, key: KeyEvent, action: Option<Action>) -> Option<Picked> {
        let (id, label) = self.choice().map(|choice| (choice.value.clone(), choice.label.clone()))?;
        if let Some(name) = &mut self.name {
            match key.code {
                KeyCode::Esc => self.name = None,
                KeyCode::Enter => return self.name.take().map(|name| Picked::Rename(id, name.message())),
                _ => name.line_key(key, action),
            }
            return Some(Picked::Nothing);
        }
        let was_deleting = std::mem::take(&mut self.is_deleting);
        match (key.code, key.modifiers) {
            (KeyCode::Char('r'), KeyModifiers::CONTROL) => {
                let name = label.trim_start();
                let mut line = Composer::default();
                line.insert(name.strip_prefix(NESTED).unwrap_or(name));
                self.name = Some(line);
            }
            (KeyCode::Char('f'), KeyModifiers::CONTROL) => return Some(Picked::Fork(id)),
            (KeyCode::Char('c'), KeyModifiers::ALT) => return Some(Picked::Copy(id)),
            (KeyCode::Char('x'), KeyModifiers::CONTROL) if self.current.as_ref() == Some(&id) => {
                self.set_notice("this is the conversation; `/new` begins another one first");
            }
            (KeyCode::Char('x'), KeyModifiers::CONTROL) if was_deleting => return Some(Picked::Delete(id)),
            (KeyCode::Char('x'), KeyModifiers::CONTROL) => self.is_deleting = true,
            _ => return None,
        }
        Some(Picked::Nothing)
    }

    /// Applies a key that acts on the selected text of the queue.
    fn queue_key(&self, key: KeyEvent) -> Option<Picked> {
        let change = match (key.code, key.modifiers) {
            (KeyCode::Char('x'), KeyModifiers::CONTROL) => OfQueue::Remove,
            (KeyCode::Char('s'), KeyModifiers::CONTROL) => OfQueue::Steer,
            (KeyCode::Up, KeyModifiers::CONTROL) => OfQueue::Up,
            (KeyCode::Down, KeyModifiers::CONTROL) => OfQueue::Down,
            _ => return None,
        };
        Some(Picked::Queued(self.choice()?.value.parse().ok()?, change))
    }

    /// Applies a key, and its action in the editor.
    pub(crate) fn key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) -> Picked {
        if self.is_early(now) {
            return Picked::Nothing;
        }
        self.notice = None;
        let of_pick = match self.pick {
            Pick::Session | Pick::AllSessions if is_scope(key) && self.name.is_none() => Some(Picked::Scope),
            Pick::Session | Pick::AllSessions => self.session_key(key, action),
            Pick::Queue => self.queue_key(key),
            _ => None,
        };
        if let Some(picked) = of_pick {
            return picked;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Picked::Closed,
            KeyCode::Char('c' | 'g') if is_control => return Picked::Closed,
            KeyCode::Enter => return self.picked(),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Char('p') if is_control => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.select(1),
            KeyCode::Char('n') if is_control => self.select(1),
            KeyCode::PageDown => self.select(10),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            _ => {
                let before = self.query.version();
                self.query.line_key(key, action);
                if self.query.version() != before {
                    self.search();
                }
            }
        }
        Picked::Nothing
    }

    fn select(&mut self, by: usize) {
        self.selected = (self.selected + by).min(self.matches.len().saturating_sub(1));
    }

    /// Draws the list and its keys into at most `height` rows, and returns the place of the cursor.
    pub(crate) fn draw(&self, columns: usize, height: usize, theme: &Theme) -> (Vec<Row>, Option<(usize, usize)>) {
        self.draw_with(self.foot(columns, height, theme), columns, height, theme)
    }

    /// Draws the list above other rows.
    pub(crate) fn draw_with(
        &self,
        foot: Vec<Row>,
        columns: usize,
        height: usize,
        theme: &Theme,
    ) -> (Vec<Row>, Option<(usize, usize)>) {
        let count = match self.quiet_since {
            Some(_) => format!("{}: keys count in a moment", self.pick.title()),
            None => format!("{} {} of {}", self.pick.title(), self.matches.len(), self.choices.len()),
        };
        let (mark, typed, about) = match &self.name {
            Some(name) => ("name: ", name, "enter renames, esc returns"),
            None => ("› ", &self.query, count.as_str()),
        };
        let drawn = typed.rows(columns.saturating_sub(mark.chars().count()), 1, theme.text, None);
        let mut head = Row::from_pieces([StyledPiece::new(mark, theme.user)]);
        let cursor = head.width() + drawn.cursor.1;
        drawn.rows.iter().flat_map(Row::pieces).for_each(|piece| head.push(piece.clone()));
        let left = columns.saturating_sub(head.width() + 3);
        head.push(StyledPiece::new("  ", theme.text));
        head.push(StyledPiece::line(about, left, theme.dim));
        let mut rows = vec![head];
        let entries: Vec<&PickChoice> = self.matches.iter().map(|at| &self.choices[*at]).collect();
        rows.extend(list(&entries, self.selected, columns, height.saturating_sub(1 + foot.len()), theme));
        rows.extend(foot);
        (rows, Some((0, cursor.min(columns.saturating_sub(1)))))
    }

    /// Draws a remark or the keys for the selected choice, and the preview of a session, where there is room.
    fn foot(&self, columns: usize, height: usize, theme: &Theme) -> Vec<Row> {
        let (text, style) = match (&self.notice, self.keys()) {
            (Some(notice), _) => (notice.as_ref(), theme.warning),
            (None, _) if self.is_deleting => {
                ("ctrl+x again deletes the session and its sub-agents' sessions", theme.warning)
            }
            (None, keys) => (keys, theme.dim),
        };
        if height < 6 && self.notice.is_none() {
            return Vec::new();
        }
        let mut rows = Vec::new();
        let lead = Lead::same(vec![StyledPiece::new("  ", theme.text)]);
        // The row of an action may be too short for its description; a low list keeps most rows for its choices.
        if let Some(choice) = self.choice().filter(|_| matches!(self.pick, Pick::Keys | Pick::Settings) && height >= 6)
        {
            wrap(&[StyledPiece::new(&choice.detail, theme.text)], columns, &lead, &mut rows);
            rows.truncate(if height < 12 { 2 } else { rows.len() });
        }
        let preview =
            self.preview.as_ref().filter(|(value, _)| self.choice().is_some_and(|choice| choice.value == *value));
        if let Some((_, text)) = preview.filter(|_| height >= 12) {
            rows.push(Row::from_pieces([StyledPiece::new(&"┄".repeat(columns), theme.dim)]));
            wrap(&[StyledPiece::new(text.trim(), theme.dim)], columns, &lead, &mut rows);
            rows.truncate(1 + PREVIEW_ROWS);
        }
        let mut keys = Vec::new();
        wrap(&[StyledPiece::new(text, style)], columns, &lead, &mut keys);
        if keys.len() > height / 3 && self.notice.is_none() && !self.is_deleting {
            // That leaves more of the list.
            keys.clear();
            wrap(&[StyledPiece::new(&ends(text), style)], columns, &lead, &mut keys);
        }
        rows.extend(keys);
        rows
    }

    /// Names the keys that act on the selected choice.
    fn keys(&self) -> &'static str {
        match self.pick {
            Pick::Session => {
                "enter resumes · ctrl+f forks · ctrl+r renames · ctrl+x deletes · ctrl+a lists those of all directories \
                 · esc closes"
            }
            Pick::AllSessions => {
                "enter resumes, elsewhere in a copy · ctrl+f forks · ctrl+r renames · ctrl+x deletes · \
                 alt+c copies the command · ctrl+a lists those of this directory · esc closes"
            }
            Pick::Queue => "enter edits · ctrl+s sends sooner · ctrl+x removes · ctrl+↑ and ctrl+↓ move · esc closes",
            Pick::Plan => "enter chooses · pageup and pagedown scroll · esc keeps the plan for later",
            Pick::History => "enter edits the message again · esc closes",
            Pick::Model if self.choice().is_none() => "enter uses this name · esc closes",
            Pick::Keys => "enter does it · `/` lists commands, `@` files, and `!` runs a shell command · esc closes",
            Pick::Settings => {
                "enter changes it for this conversation; names in backticks are keys of the config · esc closes"
            }
            Pick::Model | Pick::Palette | Pick::Theme | Pick::Provider => "enter chooses · esc closes",
        }
    }
}

/// Returns the first and the last of several keys.
pub(crate) fn ends(keys: &str) -> String {
    let parts: Vec<&str> = keys.split(" · ").collect();
    [parts[0], parts[parts.len() - 1]].join(" · ")
}

/// Returns whether a key switches between the sessions of the directory and all.
fn is_scope(key: KeyEvent) -> bool {
    (key.code, key.modifiers) == (KeyCode::Char('a'), KeyModifiers::CONTROL)
}

/// Columns of a name that are read.
const MAX_NAME: usize = 500;
/// Columns below which the labels take the whole row.
const NARROW: usize = 50;

/// Draws entries in two columns, with the selected one among at most `height` rows. A narrow screen has only the labels.
pub(crate) fn list(choices: &[&PickChoice], selected: usize, columns: usize, height: usize, theme: &Theme) -> Vec<Row> {
    let first = (selected + 1).saturating_sub(height.max(1));
    let shown = &choices[first.min(choices.len())..];
    let shown = &shown[..shown.len().min(height)];
    let wide = shown.iter().map(|choice| crate::rows::width(&choice.label)).max().unwrap_or(0);
    let wide = wide.min(if columns < NARROW { columns.saturating_sub(2) } else { columns * 3 / 5 });
    let row = |(at, choice): (usize, &&PickChoice)| {
        let is_selected = first + at == selected;
        let mark = if is_selected { "❯ " } else { "  " };
        let label = label(&choice.label, wide, if is_selected { theme.strong } else { theme.text });
        let blank = " ".repeat(wide.saturating_sub(crate::rows::width(label.text())) + 2);
        let room = columns.saturating_sub(wide + 5);
        let mut row = Row::from_pieces([StyledPiece::new(mark, theme.accent), label]);
        if room >= 8 {
            row.push(StyledPiece::new(&blank, theme.text));
            row.push(StyledPiece::line(&choice.detail, room, theme.dim));
        }
        row
    };
    shown.iter().enumerate().map(row).collect()
}

/// Draws a label. A name that is too long, such as a model's name, lacks its middle, because others may begin like it.
fn label(text: &str, columns: usize, style: Style) -> StyledPiece {
    if columns < 8 || text.contains(char::is_whitespace) {
        return StyledPiece::line(text, columns, style);
    }
    let whole = StyledPiece::line(text, MAX_NAME, style);
    StyledPiece::line(&without_middle(whole.text(), columns, 0), columns, style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_differ_on_a_narrow_screen() {
        let choice =
            |label: &str| PickChoice { value: label.into(), label: label.into(), detail: "200 k context".into() };
        let names = ["openrouter/anthropic/claude-fable-5-large", "openrouter/anthropic/claude-fable-5-small"];
        let choices = names.map(choice);
        let rows = list(&choices.iter().collect::<Vec<_>>(), 0, 40, 5, &Theme::plain());
        let shown: Vec<String> = rows.iter().map(Row::plain).collect();
        assert_eq!(shown, ["❯ openrouter/anthropi…aude-fable-5-large", "  openrouter/anthropi…aude-fable-5-small"]);
        assert!(rows.iter().all(|row| row.width() <= 40));
        assert_eq!(label("目录/文件/名字/长长长的名字.rs", 20, Theme::plain().text).text(), "目录/文件/…的名字.rs");
    }

    #[test]
    fn typed_letters_filter_and_enter_picks() {
        let choice = |label: &str| PickChoice { value: label.into(), label: label.into(), detail: "x".into() };
        let mut picker = Picker::new(Pick::Model, ["gpt-5", "claude-sonnet", "claude-opus"].map(choice).into());
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        "clop".chars().for_each(|c| drop(picker.key(key(KeyCode::Char(c)), None, Duration::ZERO)));
        let (rows, _) = picker.draw(40, 5, &Theme::plain());
        assert_eq!(rows.iter().map(Row::plain).collect::<Vec<_>>(), ["› clop  models 1 of 3", "❯ claude-opus  x"]);
        assert_eq!(picker.key(key(KeyCode::Enter), None, Duration::ZERO), Picked::Choice(choice("claude-opus")));
        assert_eq!(picker.key(key(KeyCode::Esc), None, Duration::ZERO), Picked::Closed);
    }
}
