//! The question whether a call may run.
//!
//! The host words the question; everything from a model or a plugin stands behind a bar with nothing hidden. A yes
//! counts only after all of it was on the screen, and only by a single key pressed after the question has been visible
//! for a quiet moment. Neither time nor focus answers.

use crate::composer::{Composer, is_plain};
use crate::dialog::approval_question::{ApprovalAnswer, ApprovalQuestion};
use crate::dialog::key_guard::{BURST, KeyGuard, SEVERAL_KEYS};
use crate::keys::Action;
use crate::rows::{Lead, Row, StyledPiece, wrap};
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pinion_protocol::text::{exposed, one_line};
use ratatui_core::style::Style;
use serde_json::Value;
use std::time::Duration;

/// Characters of a digest on the screen.
const DIGEST: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalKey {
    Yes,
    Always,
    Rule,
    No,
    Refuse,
    Up,
    Down,
    End,
}

/// A question on the screen.
#[derive(Debug)]
pub(crate) struct Approval {
    question: ApprovalQuestion,
    columns: usize,
    head: Vec<Row>,
    body: Vec<Row>,
    /// First row of the body on the screen, and rows of it that the screen has room for.
    top: usize,
    page: usize,
    /// Rows of the body that were on the screen.
    seen: usize,
    keys: KeyGuard<ApprovalKey>,
    hint: Option<&'static str>,
    /// The user's words for the model, while they are written.
    words: Option<Composer>,
}

impl Approval {
    pub(crate) fn new(question: ApprovalQuestion) -> Self {
        Self {
            question,
            columns: 0,
            head: Vec::new(),
            body: Vec::new(),
            top: 0,
            page: 0,
            seen: 0,
            keys: KeyGuard::default(),
            hint: None,
            words: None,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.question.id
    }

    /// Returns whether keys have not counted yet, so that they are still meant for the previous screen.
    pub(crate) fn is_new(&self) -> bool {
        self.keys.is_new()
    }

    /// Returns the time when [`Self::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.keys.deadline()
    }

    /// Takes a key. Returns the answer if there is one.
    pub(crate) fn key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) -> Option<ApprovalAnswer> {
        if key.modifiers == KeyModifiers::CONTROL && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(ApprovalAnswer::Interrupt);
        }
        if self.words.is_some() {
            return self.write(key, action);
        }
        if !self.keys.counts(now) {
            return None;
        }
        if let Some(at) = self.keys.pressed_at() {
            // Some people add Enter out of habit.
            if key.code == KeyCode::Enter {
                return None;
            }
            if now < at + BURST {
                self.burst(now);
                return None;
            }
        }
        self.keys.release();
        match meaning(key) {
            Some(key) => self.keys.press(key, now),
            None if is_plain(key) => self.hint = Some("press y, a, n or r"),
            None => {}
        }
        None
    }

    /// Takes pasted text, which answers nothing.
    pub(crate) fn paste(&mut self, text: &str, now: Duration) {
        match &mut self.words {
            Some(words) => drop(words.paste(text)),
            None => self.burst(now),
        }
    }

    fn burst(&mut self, now: Duration) {
        self.keys.burst(now);
        self.hint = Some(SEVERAL_KEYS);
    }

    /// Applies a key once it is clear that it was the last one.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<ApprovalAnswer> {
        let key = self.keys.tick(now)?;
        self.hint = None;
        let is_all = self.seen >= self.body.len();
        match key {
            ApprovalKey::Rule if self.question.rule.is_none() => {}
            ApprovalKey::Yes | ApprovalKey::Always | ApprovalKey::Rule if !is_all => {
                self.hint = Some("read to the end before answering yes")
            }
            ApprovalKey::Yes => return Some(ApprovalAnswer::Yes),
            ApprovalKey::Always => return Some(ApprovalAnswer::Always),
            ApprovalKey::Rule => return Some(ApprovalAnswer::Rule),
            ApprovalKey::No => return Some(ApprovalAnswer::No(None)),
            ApprovalKey::Refuse => self.words = Some(Composer::default()),
            ApprovalKey::Up => self.top = self.top.saturating_sub(self.page.max(1)),
            // Rows that End skipped come next.
            ApprovalKey::Down => self.scroll_to((self.top + self.page.max(1)).min(self.seen.max(self.page))),
            ApprovalKey::End => self.scroll_to(self.body.len()),
        }
        None
    }

    fn scroll_to(&mut self, top: usize) {
        self.top = top.min(self.body.len().saturating_sub(self.page.max(1)));
    }

    /// Writes the user's words for the model.
    fn write(&mut self, key: KeyEvent, action: Option<Action>) -> Option<ApprovalAnswer> {
        let words = self.words.as_mut()?;
        match key.code {
            KeyCode::Enter => {
                let text = words.message();
                return Some(ApprovalAnswer::No(Some(text).filter(|text| !text.trim().is_empty())));
            }
            KeyCode::Esc => self.words = None,
            _ => words.line_key(key, action),
        }
        None
    }

    /// Draws the question into at most `height` rows. Returns them with the place of the cursor.
    pub(crate) fn draw(
        &mut self,
        columns: usize,
        height: usize,
        theme: &Theme,
        now: Duration,
    ) -> (Vec<Row>, Option<(usize, usize)>) {
        if self.columns != columns {
            (self.columns, self.top, self.seen) = (columns, 0, 0);
            self.head = head(&self.question, columns, theme);
            self.body = body(&self.question, columns, theme);
        }
        self.keys.show(now);
        let foot = self.foot(theme);
        // A low screen drops rows of the head, but the arguments and the keys always have room.
        let room = height.saturating_sub(foot.len());
        let head = self.head.len().min(room.saturating_sub(2.min(self.body.len())));
        self.page = room.saturating_sub(head).clamp(1, self.body.len().max(1));
        self.scroll_to(self.top);
        if self.top <= self.seen {
            self.seen = self.seen.max(self.top + self.page).min(self.body.len());
        }
        let foot = self.foot(theme);
        let mut rows: Vec<Row> = self.head.iter().take(head).cloned().collect();
        rows.extend(self.body.iter().skip(self.top).take(self.page).cloned());
        let cursor = self.words.as_mut().map(|words| {
            let drawn = words.draw(columns.saturating_sub(4).max(2), 1, theme.text, None);
            (rows.len() + 1, 4 + drawn.cursor.1)
        });
        rows.extend(foot);
        rows.truncate(height.max(1));
        (rows, cursor.filter(|(row, _)| *row < height))
    }

    fn foot(&mut self, theme: &Theme) -> Vec<Row> {
        let line = |text: &str, style: Style| {
            Row::from_pieces([
                StyledPiece::new("  ", style),
                StyledPiece::line(text, self.columns.saturating_sub(2), style),
            ])
        };
        if let Some(words) = &mut self.words {
            let drawn = words.draw(self.columns.saturating_sub(4).max(2), 1, theme.text, None);
            let mut row = Row::from_pieces([StyledPiece::new("  › ", theme.user)]);
            drawn.rows.iter().flat_map(Row::pieces).for_each(|piece| row.push(piece.clone()));
            return vec![line("no, and tell the model (enter sends, esc returns):", theme.warning), row];
        }
        let hint = self.hint.map(|hint| line(hint, theme.warning));
        if self.seen < self.body.len() {
            let progress = format!("{} of {} rows; space for more, n for no", self.seen, self.body.len());
            return hint.into_iter().chain([line(&progress, theme.warning)]).collect();
        }
        let to = self.question.reach.as_ref().map(|reach| format!(" to {reach}")).unwrap_or_default();
        let tool = &self.question.tool;
        let scope = format!("a: do not ask again for {tool}{to} in this session, unless it can do more");
        let mut rows: Vec<Row> = hint.into_iter().collect();
        let lead = Lead::same(vec![StyledPiece::new("  ", theme.dim)]);
        wrap(&[StyledPiece::new(&exposed(&one_line(&scope, 200)), theme.dim)], self.columns, &lead, &mut rows);
        if let Some(rule) = self.question.rule.as_ref().filter(|_| self.keys.is_quiet()) {
            let text = format!("[p] always `{}` in this project", exposed(&one_line(rule, 100)));
            rows.push(line(&text, theme.strong));
        }
        // The keys are named only once they count.
        let keys = match self.columns {
            _ if !self.keys.is_quiet() => "  …",
            ..56 => "  [y]es [a]lways [n]o [r]efuse, say why",
            _ => "  [y] yes   [a] always   [n] no   [r] no, and tell it why",
        };
        rows.push(Row::from_pieces([StyledPiece::new(keys, theme.strong)]));
        rows
    }
}

/// Returns the meaning of a key. Enter has no meaning, because people press it without looking.
fn meaning(key: KeyEvent) -> Option<ApprovalKey> {
    if !is_plain(key) {
        return None;
    }
    match key.code {
        KeyCode::Char('y' | 'Y') => Some(ApprovalKey::Yes),
        KeyCode::Char('a' | 'A') => Some(ApprovalKey::Always),
        KeyCode::Char('p' | 'P') => Some(ApprovalKey::Rule),
        KeyCode::Char('n' | 'N') | KeyCode::Esc => Some(ApprovalKey::No),
        KeyCode::Char('r' | 'R') => Some(ApprovalKey::Refuse),
        KeyCode::Char(' ') | KeyCode::Down | KeyCode::PageDown => Some(ApprovalKey::Down),
        KeyCode::Up | KeyCode::PageUp => Some(ApprovalKey::Up),
        KeyCode::End | KeyCode::Char('G') => Some(ApprovalKey::End),
        _ => None,
    }
}

/// Renders the question itself, in the words of the host.
fn head(question: &ApprovalQuestion, columns: usize, theme: &Theme) -> Vec<Row> {
    let name = |text: &str| exposed(&one_line(text, 128));
    let can = if question.can.is_empty() { "touches nothing" } else { &question.can };
    let mut rows = Vec::new();
    let mut line = |mark: &str, text: &str, style: Style| {
        let lead = Lead::new(vec![StyledPiece::new(mark, theme.warning)], vec![StyledPiece::new("    ", style)]);
        wrap(&[StyledPiece::new(text, style)], columns, &lead, &mut rows);
    };
    line("? ", &format!("allow this call? It {can}"), theme.strong);
    let plugin = match question.plugin.as_str() {
        "" => "none (part of pinion)".to_owned(),
        plugin => format!("{} ({})", name(plugin), question.digest.chars().take(DIGEST).collect::<String>()),
    };
    line("  ", &format!("tool: {}   plugin: {plugin}", name(&question.tool)), theme.text);
    if !question.label.is_empty() && question.label != question.tool {
        line("  ", &format!("label: \"{}\"", name(&question.label)), theme.dim);
    }
    rows
}

/// Renders the notes of plugins, one line each, and all arguments of a call behind a bar, with another bar on continuation
/// rows.
fn body(question: &ApprovalQuestion, columns: usize, theme: &Theme) -> Vec<Row> {
    let (arguments, mut rows) = (&question.arguments, Vec::new());
    for note in &question.notes {
        sentence(&mut rows, &exposed(note).replace('\n', "⏎"), columns, theme);
    }
    if let Some(reason) = &question.reason {
        let reason = exposed(&one_line(reason, 300));
        sentence(&mut rows, &format!("asked because {reason}"), columns, theme);
    }
    let Value::Object(fields) = arguments else {
        guest(&mut rows, &format!("arguments: {}", exposed(&pretty(arguments))), theme.text, columns, theme);
        return rows;
    };
    if fields.is_empty() {
        guest(&mut rows, "no arguments", theme.dim, columns, theme);
    }
    for (name, value) in fields {
        if let (Some(change), "content") = (&question.change, name.as_str()) {
            changed(change, columns, theme, &mut rows);
            continue;
        }
        let name = exposed(&serde_json::to_string(name).unwrap_or_default());
        if let Some(edits) = edits(value) {
            for (number, (old, new)) in edits.iter().enumerate() {
                guest(&mut rows, &format!("{name} {}:", number + 1), theme.dim, columns, theme);
                let (removed, added) = (theme.removed, theme.added);
                lines(&exposed(old)).for_each(|l| guest(&mut rows, &format!("- {l}"), removed, columns, theme));
                lines(&exposed(new)).for_each(|l| guest(&mut rows, &format!("+ {l}"), added, columns, theme));
                if !old.is_empty() && !new.is_empty() && old.ends_with('\n') != new.ends_with('\n') {
                    let does = if new.ends_with('\n') { "adds" } else { "removes" };
                    guest(&mut rows, &format!("({does} the line break at the end)"), theme.dim, columns, theme);
                }
            }
            continue;
        }
        let value = match value {
            Value::String(text) => exposed(text),
            other => exposed(&pretty(other)),
        };
        match value.contains('\n') {
            false => guest(&mut rows, &format!("{name}: {value}"), theme.text, columns, theme),
            true => {
                guest(&mut rows, &format!("{name}:"), theme.text, columns, theme);
                value.split('\n').for_each(|l| guest(&mut rows, &format!("    {l}"), theme.text, columns, theme));
            }
        }
    }
    rows
}

/// Renders the change that a call would make in a file.
fn changed(diff: &str, columns: usize, theme: &Theme, rows: &mut Vec<Row>) {
    let text = if diff.is_empty() { "content: as the file is now" } else { "content, as changes to the file:" };
    guest(rows, text, theme.dim, columns, theme);
    for line in diff.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => theme.added,
            Some(b'-') => theme.removed,
            Some(b'@') => theme.accent,
            _ => theme.text,
        };
        guest(rows, &exposed(line), style, columns, theme);
    }
}

/// Returns the lines of a text. A line break at its end begins no further one.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let whole = text.strip_suffix('\n').unwrap_or(text);
    whole.split('\n').take(if text.is_empty() { 0 } else { usize::MAX })
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns the old and new texts of edits, if the value consists of nothing else.
fn edits(value: &Value) -> Option<Vec<(&str, &str)>> {
    let edit = |value: &'_ Value| -> Option<()> { (value.as_object()?.len() == 2).then_some(()) };
    let list = value.as_array().filter(|list| !list.is_empty())?;
    list.iter()
        .map(|value| {
            edit(value)?;
            Some((value.get("old_text")?.as_str()?, value.get("new_text")?.as_str()?))
        })
        .collect()
}

/// Wraps a sentence behind a bar, at words.
fn sentence(rows: &mut Vec<Row>, text: &str, columns: usize, theme: &Theme) {
    let lead = Lead::new(vec![StyledPiece::new("│ ", theme.dim)], vec![StyledPiece::new("┊ ", theme.dim)]);
    wrap(&[StyledPiece::new(text, theme.warning)], columns.saturating_sub(1), &lead, rows);
}

/// Wraps a line of a model or a plugin behind a bar. Breaks anywhere, so that no blank is lost.
pub(super) fn guest(rows: &mut Vec<Row>, line: &str, style: Style, columns: usize, theme: &Theme) {
    use unicode_segmentation::UnicodeSegmentation as _;
    let room = columns.saturating_sub(3).max(2);
    let piece = StyledPiece::new(line, style);
    let (mut part, mut used, mut bar) = (String::new(), 0, "│ ");
    for cluster in piece.text().graphemes(true) {
        let wide = crate::rows::cluster_width(cluster);
        if used + wide > room {
            rows.push(Row::from_pieces([
                StyledPiece::new(bar, theme.dim),
                StyledPiece::new(&std::mem::take(&mut part), style),
            ]));
            (used, bar) = (0, "┊ ");
        }
        part.push_str(cluster);
        used += wide;
    }
    rows.push(Row::from_pieces([StyledPiece::new(bar, theme.dim), StyledPiece::new(&part, style)]));
}

#[cfg(test)]
#[path = "approval_tests.rs"]
mod tests;
