//! Questions of plugins: confirm, select, input.
//!
//! The host words the frame and names the plugin; the plugin's text stands behind a bar with nothing hidden. An answer
//! counts only after all of the question was on the screen, and only by keys pressed after it has been visible for a quiet
//! moment. Neither time nor focus answers.

use crate::composer::{Composer, is_plain};
use crate::dialog::approval::guest;
use crate::dialog::key_guard::{BURST, KeyGuard, SEVERAL_KEYS};
use crate::dialog::picker::{PickChoice, list};
use crate::keys::Action;
use crate::rows::{Lead, Row, StyledPiece, wrap};
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pinion_protocol::dialog::asker;
use pinion_protocol::text::{exposed, one_line};
use pinion_protocol::{Dialog, DialogAnswer, DialogError, DialogKind};
use std::borrow::Cow;
use std::time::Duration;

/// The answer to a dialog, or the reason it is missing.
pub type DialogReply = Result<DialogAnswer, DialogError>;

/// The key of the program that is pressed with Ctrl to mute a plugin.
const MUTE: char = 'x';
/// Maximum rows of options.
const MAX_OPTIONS: usize = 8;

/// A dialog on the screen.
#[derive(Debug)]
pub(crate) struct PluginDialog {
    id: u64,
    dialog: Dialog,
    columns: usize,
    head: Vec<Row>,
    body: Vec<Row>,
    /// First row of the body on the screen, rows of it that the screen has room for, and rows that were on the screen.
    top: usize,
    page: usize,
    seen: usize,
    selected: usize,
    line: Composer,
    keys: KeyGuard<DialogReply>,
    /// Time of the last key.
    last: Option<Duration>,
    hint: Option<&'static str>,
}

impl PluginDialog {
    pub(crate) fn new(id: u64, dialog: Dialog) -> Self {
        let mut line = Composer::default();
        if let DialogKind::Input(initial) = &dialog.kind {
            line.set(initial);
        }
        let (head, body) = (Vec::new(), Vec::new());
        Self {
            id,
            dialog,
            columns: 0,
            head,
            body,
            top: 0,
            page: 0,
            seen: 0,
            selected: 0,
            line,
            keys: KeyGuard::default(),
            last: None,
            hint: None,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether keys have not counted yet, so that they are still meant for the previous screen.
    pub(crate) fn is_new(&self) -> bool {
        self.keys.is_new()
    }

    /// Returns the time when [`Self::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.keys.deadline()
    }

    /// Takes a key. Only keys that close the dialog answer at once.
    pub(crate) fn key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) -> Option<DialogReply> {
        let is_control = key.modifiers == KeyModifiers::CONTROL;
        if !self.keys.counts(now) {
            return None;
        }
        let is_burst = self.last.replace(now).is_some_and(|last| now < last + BURST);
        if self.keys.release() && is_burst {
            self.burst(now);
            return None;
        }
        let has_read = self.seen >= self.body.len();
        match key.code {
            KeyCode::Esc => self.press(Err(DialogError::Dismissed), now),
            KeyCode::Char(MUTE) if is_control => self.press(Err(DialogError::Muted), now),
            KeyCode::PageUp => self.top = self.top.saturating_sub(self.page.max(1)),
            KeyCode::PageDown => self.scroll_to((self.top + self.page.max(1)).min(self.seen.max(self.page))),
            _ if !has_read => match key.code {
                KeyCode::Char(' ') | KeyCode::Down => {
                    self.scroll_to((self.top + self.page.max(1)).min(self.seen.max(self.page)));
                }
                _ => self.hint = Some("read to the end before answering"),
            },
            _ => self.answering(key, action, is_burst, now),
        }
        None
    }

    fn answering(&mut self, key: KeyEvent, action: Option<Action>, is_burst: bool, now: Duration) {
        self.hint = None;
        match (&self.dialog.kind, key.code) {
            (DialogKind::Confirm, KeyCode::Char('y' | 'Y')) if is_plain(key) => {
                self.press(Ok(DialogAnswer::Confirmed(true)), now);
            }
            (DialogKind::Confirm, KeyCode::Char('n' | 'N')) if is_plain(key) => {
                self.press(Ok(DialogAnswer::Confirmed(false)), now);
            }
            (DialogKind::Confirm, _) => self.hint = Some("press y, n or esc"),
            (DialogKind::Select(_), KeyCode::Up) => self.selected = self.selected.saturating_sub(1),
            (DialogKind::Select(options), KeyCode::Down) => {
                self.selected = (self.selected + 1).min(options.len().saturating_sub(1));
            }
            (DialogKind::Select(_), KeyCode::Enter) if !is_burst => {
                self.press(Ok(DialogAnswer::Selected(self.selected)), now);
            }
            (DialogKind::Select(_), _) => {}
            (DialogKind::Input(_), KeyCode::Enter) => {
                self.press(Ok(DialogAnswer::Entered(self.line.message())), now);
            }
            (DialogKind::Input(_), _) => self.line.line_key(key, action),
        }
    }

    fn press(&mut self, reply: DialogReply, now: Duration) {
        self.keys.press(reply, now);
    }

    /// Takes pasted text: a part of a line, which answers nothing by itself.
    pub(crate) fn paste(&mut self, text: &str, now: Duration) {
        match self.dialog.kind {
            DialogKind::Input(_) if self.keys.is_quiet() => {
                self.line.line_paste(text);
                self.last = Some(now);
            }
            _ => self.burst(now),
        }
    }

    fn burst(&mut self, now: Duration) {
        self.keys.burst(now);
        self.hint = Some(SEVERAL_KEYS);
    }

    /// Applies an answer once it is clear that its key was the last one.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<DialogReply> {
        self.keys.tick(now)
    }

    fn scroll_to(&mut self, top: usize) {
        self.top = top.min(self.body.len().saturating_sub(self.page.max(1)));
    }

    /// Draws the dialog into at most `height` rows. Returns them with the place of the cursor.
    pub(crate) fn draw(
        &mut self,
        columns: usize,
        height: usize,
        theme: &Theme,
        now: Duration,
    ) -> (Vec<Row>, Option<(usize, usize)>) {
        if self.columns != columns {
            (self.columns, self.top, self.seen) = (columns, 0, 0);
            self.head = head(&self.dialog.plugin, columns, theme);
            self.body.clear();
            exposed(&self.dialog.question)
                .split('\n')
                .for_each(|line| guest(&mut self.body, line, theme.text, columns, theme));
        }
        self.keys.show(now);
        let (head, answers) = self.fit(height);
        self.scroll_to(self.top);
        if self.top <= self.seen {
            self.seen = self.seen.max(self.top + self.page).min(self.body.len());
        }
        let mut rows: Vec<Row> = self.head.iter().take(head).cloned().collect();
        rows.extend(self.body.iter().skip(self.top).take(self.page).cloned());
        let cursor = self.answers(&mut rows, answers, theme);
        let line = |text: &str, style| Row::from_pieces([StyledPiece::line(text, columns, style)]);
        rows.extend(self.hint.map(|hint| line(&format!("  {hint}"), theme.warning)));
        rows.push(line(&self.keys(answers), theme.strong));
        rows.truncate(height.max(1));
        (rows, cursor.filter(|(row, _)| *row < height))
    }

    /// Divides `height` rows among the parts. Returns the rows of the head and of the answers; the question has a page
    /// of the remaining rows. On a low screen, the answers shrink first, then the head, and one row of each remains
    /// with the keys.
    fn fit(&mut self, height: usize) -> (usize, usize) {
        let answers = match &self.dialog.kind {
            DialogKind::Confirm => 0,
            DialogKind::Select(options) => options.len().min(MAX_OPTIONS),
            DialogKind::Input(_) => 1,
        };
        let foot = 1 + usize::from(self.hint.is_some());
        let least = foot + 1 + answers.min(1);
        let head = self.head.len().min(height.saturating_sub(least).max(1));
        let left = height.saturating_sub(head + foot);
        let answers = answers.min(left.saturating_sub(1).max(1));
        self.page = left.saturating_sub(answers).clamp(1, self.body.len().max(1));
        (head, answers)
    }

    /// Draws the controls for the user's answer, and returns the place of the cursor.
    fn answers(&mut self, rows: &mut Vec<Row>, height: usize, theme: &Theme) -> Option<(usize, usize)> {
        let columns = self.columns;
        match &self.dialog.kind {
            DialogKind::Confirm => None,
            DialogKind::Select(options) => {
                let label = |option: &String| PickChoice { label: exposed(option), ..PickChoice::default() };
                let choices: Vec<PickChoice> = options.iter().map(label).collect();
                rows.extend(list(&choices.iter().collect::<Vec<_>>(), self.selected, columns, height, theme));
                None
            }
            DialogKind::Input(_) => {
                let drawn = self.line.draw(columns.saturating_sub(4).max(2), 1, theme.text, None);
                let mut row = Row::from_pieces([StyledPiece::new("  › ", theme.user)]);
                drawn.rows.iter().flat_map(Row::pieces).for_each(|piece| row.push(piece.clone()));
                rows.push(row);
                Some((rows.len() - 1, 4 + drawn.cursor.1))
            }
        }
    }

    /// Names the keys once they count, and the place among options that are only partly shown.
    fn keys(&self, shown: usize) -> Cow<'static, str> {
        match &self.dialog.kind {
            _ if !self.keys.is_quiet() => "  …".into(),
            _ if self.seen < self.body.len() => {
                "  space for more, esc closes, ctrl+x: no dialogs of this plugin".into()
            }
            DialogKind::Confirm => "  [y] yes   [n] no   esc closes, ctrl+x: no dialogs of this plugin".into(),
            DialogKind::Select(options) if options.len() > shown => {
                let (at, count) = (self.selected + 1, options.len());
                format!("  ↑↓ {at} of {count}, enter   esc closes, ctrl+x: no dialogs of this plugin").into()
            }
            DialogKind::Select(_) => "  ↑↓ enter   esc closes, ctrl+x: no dialogs of this plugin".into(),
            DialogKind::Input(_) => "  enter sends   esc closes, ctrl+x: no dialogs of this plugin".into(),
        }
    }
}

/// Renders the frame, in the words of the host.
fn head(plugin: &str, columns: usize, theme: &Theme) -> Vec<Row> {
    let mut rows = Vec::new();
    let lead = Lead::new(vec![StyledPiece::new("? ", theme.warning)], vec![StyledPiece::new("    ", theme.strong)]);
    let text = format!("{} asks you; this grants nothing:", asker(&exposed(&one_line(plugin, 128))));
    wrap(&[StyledPiece::new(&text, theme.strong)], columns, &lead, &mut rows);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialog(kind: DialogKind, question: &str) -> PluginDialog {
        let mut dialog = PluginDialog::new(1, Dialog { plugin: "talker".into(), question: question.into(), kind });
        dialog.draw(60, 20, &Theme::plain(), ms(0));
        dialog
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn press(dialog: &mut PluginDialog, code: KeyCode, at: u64) -> Option<DialogReply> {
        let answer = dialog.key(KeyEvent::new(code, KeyModifiers::NONE), None, ms(at));
        answer.or_else(|| dialog.tick(ms(at + 50)))
    }

    #[test]
    fn type_ahead_and_bursts_do_not_answer_a_plugin() {
        let mut asked = dialog(DialogKind::Confirm, "go on?");
        assert_eq!(press(&mut asked, KeyCode::Char('y'), 100), None);
        asked.tick(ms(500));
        "yes".chars().for_each(|c| drop(asked.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), None, ms(600))));
        assert_eq!(asked.tick(ms(700)), None);
        asked.tick(ms(1_200));
        assert_eq!(press(&mut asked, KeyCode::Char('y'), 1_300), Some(Ok(DialogAnswer::Confirmed(true))));
    }

    #[test]
    fn question_of_a_plugin_is_framed_by_the_host() {
        let mut asked = dialog(DialogKind::Confirm, "ok\n? allow this call? It reads\x1b[2J\u{202e}");
        let rows = asked.draw(60, 20, &Theme::plain(), ms(0)).0;
        let rows: Vec<String> = rows.iter().map(Row::plain).collect();
        assert_eq!(rows[0], "? the plugin talker asks you; this grants nothing:");
        assert_eq!(rows[1..3], ["│ ok", "│ ? allow this call? It reads␛[2J\\u{202e}"]);
    }

    #[test]
    fn long_question_is_read_to_its_end_before_an_answer() {
        let mut asked = dialog(DialogKind::Confirm, &"line\n".repeat(40));
        asked.tick(ms(500));
        assert_eq!(press(&mut asked, KeyCode::Char('y'), 600), None);
        for page in 0..6 {
            press(&mut asked, KeyCode::Char(' '), 700 + page * 100);
            asked.draw(60, 20, &Theme::plain(), ms(700));
        }
        assert_eq!(press(&mut asked, KeyCode::Char('n'), 2_000), Some(Ok(DialogAnswer::Confirmed(false))));
    }

    #[test]
    fn option_is_selected_and_line_is_entered() {
        let mut asked = dialog(DialogKind::Select(vec!["a".into(), "b".into()]), "which?");
        asked.tick(ms(500));
        assert_eq!(press(&mut asked, KeyCode::Down, 600), None);
        assert_eq!(press(&mut asked, KeyCode::Enter, 700), Some(Ok(DialogAnswer::Selected(1))));
        let mut asked = dialog(DialogKind::Input("ab".into()), "name?");
        asked.tick(ms(500));
        press(&mut asked, KeyCode::Char('c'), 600);
        asked.paste("d\nrest", ms(700));
        assert_eq!(asked.tick(ms(800)), None, "the end of a pasted line sends nothing");
        assert_eq!(press(&mut asked, KeyCode::Enter, 900), Some(Ok(DialogAnswer::Entered("abcd".into()))));
    }

    #[test]
    fn user_closes_a_dialog_or_mutes_its_plugin() {
        let mut asked = dialog(DialogKind::Confirm, "go on?");
        asked.tick(ms(500));
        assert_eq!(press(&mut asked, KeyCode::Esc, 600), Some(Err(DialogError::Dismissed)));
        asked.key(KeyEvent::new(KeyCode::Char('x'), KeyModifiers::CONTROL), None, ms(700));
        assert_eq!(asked.tick(ms(800)), Some(Err(DialogError::Muted)));
    }
}
