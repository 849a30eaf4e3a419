//! The effects of keys.

use crate::commands::{of_hash, of_word};
use crate::composer::{MAX_OPEN, Motion, Unopened, is_plain};
use crate::dialog::picker::Pick;
use crate::dialog::screen_view::ReadingKeys;
use crate::input::UiRequest;
use crate::keys::Action;
use crate::transcript::Look;
use crate::update::App;
use crate::update::plan::ModeCycle;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Time within which a second key quits.
const TWICE: Duration = Duration::from_secs(3);

impl App {
    pub(super) fn key(&mut self, key: KeyEvent, now: Duration) {
        let action = self.settings.keys.action(key);
        let quits = match action {
            Some(Action::Cancel | Action::Exit) => true,
            Some(Action::Quit) => self.composer.is_empty(),
            _ => false,
        };
        let is_over = self.quitting.take_if(|at| !quits || now > *at + TWICE).is_some();
        if self.quitting.is_some() {
            return self.leave();
        }
        if action != Some(Action::Mode) {
            self.mode_cycle = ModeCycle::default();
        }
        self.transcript.unmark();
        // A remark matters until something else is done.
        if is_over || action.is_some() || !is_plain(key) {
            self.hint = None;
        }
        if self.reads_above(key) && (self.toggles_agents(action) || self.scroll(action, now)) {
            return;
        }
        self.type_ahead(key, action);
        if self.give_views(now, |view| view.take_key(key, action, now)) {
            return;
        }
        if self.vi_view.has_command_line() {
            return self.command_line_key(key, action, now);
        }
        if self.vi_key(key, now) {
            return;
        }
        match action {
            Some(action) => self.act(action, now),
            None => self.typed(key, now),
        }
    }

    /// Returns whether a key may scroll the conversation above a question or a plan to decide on, which have the other keys.
    fn reads_above(&self, key: KeyEvent) -> bool {
        let has_modifier = key.modifiers != KeyModifiers::NONE;
        match self.views.reading_keys() {
            ReadingKeys::Nothing => false,
            ReadingKeys::WithModifier => has_modifier,
            ReadingKeys::WithModifierAndPages => {
                has_modifier || matches!(key.code, KeyCode::PageUp | KeyCode::PageDown)
            }
        }
    }

    /// Keeps the typed keys for the editor when a question appeared above it; nothing of that answers, or is sent.
    fn type_ahead(&mut self, key: KeyEvent, action: Option<Action>) {
        if self.views.is_typed_ahead() && self.vi.inserts() && !self.vi_view.has_command_line() {
            self.composer.line_key(key, action);
        }
    }

    fn typed(&mut self, key: KeyEvent, now: Duration) {
        match key.code {
            // No message begins with it.
            KeyCode::Char('?') if is_plain(key) && self.composer.is_empty() => self.list_keys(now),
            KeyCode::Char(c) if is_plain(key) => {
                if c == ' ' && self.composer.is_empty() && self.transcript.selected().is_some() {
                    return self.transcript.toggle();
                }
                self.composer.insert(c.encode_utf8(&mut [0; 4]));
            }
            _ => {}
        }
    }

    pub(super) fn act(&mut self, action: Action, now: Duration) {
        if self.scroll(Some(action), now) || self.composer.act(action) {
            return;
        }
        match action {
            Action::Send => self.send(false, now),
            Action::SendLater => self.send(true, now),
            Action::Interrupt => self.interrupt(),
            Action::Cancel => self.cancel(now),
            Action::Quit if self.composer.is_empty() => self.quit(now),
            Action::Exit => self.quit(now),
            Action::Quit => self.composer.delete(Motion::Right),
            Action::Complete if self.accept() => {}
            Action::Complete if self.status.is_busy() && !self.composer.is_at_block() => self.send(true, now),
            Action::Complete => {
                if let Some(Unopened { bytes }) = self.composer.open_block().err() {
                    self.hint_at_block(bytes, now);
                }
            }
            Action::Edit => self.requests.push(UiRequest::Edit(self.composer.message())),
            Action::PastePicture => self.requests.push(UiRequest::PastePicture),
            Action::Mode => self.next_mode(now),
            Action::Plan => self.toggle_plan_mode(now),
            Action::History => self.history(now),
            Action::Palette => self.palette(now),
            Action::ThinkingLevel => self.requests.push(UiRequest::NextThinking),
            Action::Models => self.requests.push(UiRequest::List(Pick::Model)),
            Action::Sessions => self.requests.push(UiRequest::List(Pick::Session)),
            Action::Queue => self.list_queue(now),
            Action::Agents => self.toggle_agents(),
            Action::Unfold => {
                self.transcript.forget_folds();
                self.change_look(|look| look.is_unfolded = !look.is_unfolded);
            }
            Action::Toggle => self.toggle(now),
            Action::Thinking => self.change_look(|look| look.has_thinking = !look.has_thinking),
            Action::Ledgers => self.change_look(|look| look.has_ledgers = !look.has_ledgers),
            Action::Mouse => self.toggle_mouse(now),
            Action::Sides => self.change_look(|look| look.has_sides = !look.has_sides),
            Action::Search => self.begin_search(None),
            Action::Copy => self.copy(now),
            Action::CopyCode => self.copy_code(1, now),
            Action::Redraw => self.requests.push(UiRequest::Redraw),
            Action::Suspend => self.requests.push(UiRequest::Suspend),
            Action::Help => self.list_keys(now),
            Action::Up if self.select_completion(false) => {}
            Action::Down if self.select_completion(true) => {}
            Action::Up if self.composer.is_empty() && self.queue.has_any() => self.unqueue(now),
            Action::Up => drop(self.composer.move_up()),
            Action::Down => drop(self.composer.down()),
            _ => {}
        }
    }

    /// Moves the window. Returns whether the action does that.
    pub(super) fn scroll(&mut self, action: Option<Action>, now: Duration) -> bool {
        let (page, height) = (self.height.saturating_sub(2).max(1).cast_signed(), self.height);
        // At the end, the row that says where the end is becomes one of the window.
        let below = height + usize::from(!self.transcript.is_at_end());
        match action {
            Some(Action::PageUp) => self.transcript.scroll(-page, height, now),
            Some(Action::PageDown) => self.transcript.scroll(page, below, now),
            Some(Action::ScrollUp) => self.transcript.scroll(-1, height, now),
            Some(Action::ScrollDown) => self.transcript.scroll(1, below, now),
            Some(Action::Top) => self.transcript.rewind(),
            Some(Action::Bottom) => self.transcript.follow(),
            Some(Action::PromptUp) => self.transcript.jump(false),
            Some(Action::PromptDown) => self.transcript.jump(true),
            Some(Action::SelectUp) => self.transcript.select(false, height, now),
            Some(Action::SelectDown) => self.transcript.select(true, height, now),
            _ => return false,
        }
        if action == Some(Action::Bottom) {
            self.is_viewing = false;
        }
        self.view_elsewhere();
        true
    }

    /// Begins the view of the whole conversation in the inline form, unless its end is shown.
    pub(super) fn view_elsewhere(&mut self) {
        let is_elsewhere = !self.transcript.is_at_end() || self.transcript.selected().is_some();
        self.is_viewing |= self.settings.is_inline && is_elsewhere;
    }

    /// Folds or unfolds the selected block, or selects the last one for that.
    fn toggle(&mut self, now: Duration) {
        if self.transcript.selected().is_none() {
            self.transcript.select(false, self.height, now);
            self.is_viewing |= self.settings.is_inline && self.transcript.selected().is_some();
        }
        self.transcript.toggle();
    }

    /// Changes the way the conversation is shown; rows in the terminal's scrollback stay as they are.
    fn change_look(&mut self, change: impl FnOnce(&mut Look)) {
        self.transcript.set_look(change);
        self.is_viewing = self.settings.is_inline;
    }

    /// Ends the view of the whole conversation. Returns whether there was one.
    pub(super) fn end_view(&mut self) -> bool {
        if self.is_viewing {
            self.transcript.follow();
        }
        std::mem::take(&mut self.is_viewing)
    }

    /// Sends the message in the editor; `is_later` lets it wait for the end of the work.
    fn send(&mut self, is_later: bool, now: Duration) {
        if self.completes_on_enter() && self.accept() {
            return;
        }
        if self.composer.text().trim().is_empty() {
            if !is_later {
                self.send_nothing(now);
            }
            return;
        }
        if self.send_to_agent(now) {
            return;
        }
        // A backslash at the end continues the message, for terminals without another key.
        if self.composer.text().ends_with('\\') && self.composer.cursor() == self.composer.text().len() {
            self.composer.delete(Motion::Left);
            return self.composer.insert("\n");
        }
        self.popup = None;
        self.transcript.unselect();
        self.end_view();
        let text = self.composer.take_message();
        self.requests.push(UiRequest::Remember(text.clone()));
        let text = of_hash(&text).or_else(|| of_word(&text)).unwrap_or(text);
        self.vi.reset();
        match self.own_command(&text, now) {
            true => {}
            false if is_later => self.submit_later(text, now),
            false => self.submit(text, now),
        }
    }

    fn interrupt(&mut self) {
        if self.close_popup() || self.transcript.unselect() || self.leave_agent() || self.end_view() {
            return;
        }
        if self.status.is_busy() {
            if !self.urge() {
                self.stop();
            }
        } else if self.asides > 0 {
            self.requests.push(UiRequest::CancelAsides);
        }
    }

    /// Ends the conversation; while something works, only if a key that quits follows.
    pub(super) fn quit(&mut self, now: Duration) {
        if !self.status.is_busy() && self.queue.is_empty() {
            return self.leave();
        }
        self.quitting = Some(now);
        let key = self.settings.keys.says(Action::Quit, "the agent works; ", "again ends that and exits");
        self.hint = Some((key, now + TWICE));
    }

    /// Says how the block that was pasted or is at the cursor can be seen.
    pub(super) fn hint_at_block(&mut self, bytes: usize, now: Duration) {
        let keys = &self.settings.keys;
        let hint = match bytes > MAX_OPEN {
            true => keys.says(Action::Edit, "more than 64 kB; ", "edits it"),
            false => keys.says(Action::Complete, "", "opens what was pasted"),
        };
        self.hint(hint, now);
    }

    /// Ends the conversation, with the last draft on the disk.
    fn leave(&mut self) {
        if self.draft.1.take().is_some() {
            self.save_draft();
        }
        self.requests.push(UiRequest::Quit);
    }

    fn cancel(&mut self, now: Duration) {
        if !self.composer.is_empty() {
            self.composer.discard();
            let cleared = self.settings.keys.says(Action::Yank, "cleared; ", "brings it back");
            return self.hint(cleared, now);
        }
        self.quitting = Some(now);
        if self.status.is_busy() {
            return self.stop();
        }
        let exits = self.settings.keys.says(Action::Cancel, "press ", "again to exit");
        self.hint = Some((exits, now + TWICE));
    }
}
