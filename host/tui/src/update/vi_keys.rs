//! Keys of vi where the UI has them: the normal mode moves in the conversation while the editor is empty, and `:` opens the
//! command line.

use crate::commands::command_of;
use crate::composer::Composer;
use crate::dialog::screen_view::ViewLayer;
use crate::input::UiRequest;
use crate::keys::Action;
use crate::update::{App, ViView};
use crate::vi::{ConversationInput, ConversationKey};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Short names of commands, with their slash commands.
const ALIASES: [(&str, &str); 4] = [("q", "quit"), ("q!", "quit"), ("qa", "quit"), ("h", "help")];

impl ViView {
    /// Returns whether the editor has the command line.
    pub(crate) fn has_command_line(&self) -> bool {
        self.message.is_some()
    }
}

impl App {
    /// Applies a key as vi does. Returns `false` for a key that vi leaves to the UI.
    pub(super) fn vi_key(&mut self, key: KeyEvent, now: Duration) -> bool {
        if !self.settings.has_vi_keys {
            return false;
        }
        let is_colon = key.code == KeyCode::Char(':') && key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        if is_colon && self.vi.is_normal() && !self.vi.has_begun() {
            self.open_command_line();
            return true;
        }
        if self.vi.is_normal() && self.composer.is_empty() && self.conversation_key(key, now) {
            return true;
        }
        // Escape closes the completions first.
        let is_closing = key.code == KeyCode::Esc && self.popup.is_some() && self.vi.inserts();
        !is_closing && self.vi.key(key, &mut self.composer)
    }

    /// Returns the name of the mode and the keys so far; `None` without keys of vi.
    pub(crate) fn vi_label(&self) -> Option<String> {
        let is_command = self.vi_view.has_command_line();
        self.settings.has_vi_keys.then(|| if is_command { "command".to_owned() } else { self.vi.label() })
    }

    fn conversation_key(&mut self, key: KeyEvent, now: Duration) -> bool {
        let half = (self.height / 2).max(1).cast_signed();
        let page = self.height.saturating_sub(2).max(1).cast_signed();
        match (key.code, key.modifiers) {
            (KeyCode::Char('d'), KeyModifiers::CONTROL) => self.scroll_rows(half, now),
            (KeyCode::Char('u'), KeyModifiers::CONTROL) => self.scroll_rows(-half, now),
            (KeyCode::Char('f'), KeyModifiers::CONTROL) => self.scroll_rows(page, now),
            (KeyCode::Char('b'), KeyModifiers::CONTROL) => self.scroll_rows(-page, now),
            (KeyCode::Char(' '), KeyModifiers::NONE) if self.transcript.selected().is_some() => {
                self.transcript.toggle();
            }
            (KeyCode::Char(c), modifiers) if modifiers.difference(KeyModifiers::SHIFT).is_empty() => {
                match self.vi.conversation_key(c) {
                    ConversationInput::Unfinished => {}
                    ConversationInput::Action(action, count) => self.conversation_action(action, count, now),
                    ConversationInput::Other => return false,
                }
            }
            _ => return false,
        }
        true
    }

    fn conversation_action(&mut self, action: ConversationKey, count: Option<usize>, now: Duration) {
        let times = count.unwrap_or(1);
        let rows = times.cast_signed();
        let mut repeat = |action: Action| {
            (0..times).for_each(|_| {
                self.scroll(Some(action), now);
            })
        };
        match action {
            ConversationKey::Down => self.scroll_rows(rows, now),
            ConversationKey::Up => self.scroll_rows(-rows, now),
            ConversationKey::Top => drop(self.scroll(Some(Action::Top), now)),
            ConversationKey::Bottom => drop(self.scroll(Some(Action::Bottom), now)),
            ConversationKey::PromptUp => repeat(Action::PromptUp),
            ConversationKey::PromptDown => repeat(Action::PromptDown),
            ConversationKey::BlockUp => repeat(Action::SelectUp),
            ConversationKey::BlockDown => repeat(Action::SelectDown),
            ConversationKey::Fold => self.act(Action::Toggle, now),
            ConversationKey::FoldAll => self.act(Action::Unfold, now),
            ConversationKey::Copy => self.act(Action::Copy, now),
            ConversationKey::CopyCode => self.act(Action::CopyCode, now),
            ConversationKey::SearchDown | ConversationKey::SearchUp => {
                self.begin_search(Some(action == ConversationKey::SearchDown));
            }
            ConversationKey::Next => self.search_again(times, true, now),
            ConversationKey::Previous => self.search_again(times, false, now),
        }
    }

    fn scroll_rows(&mut self, by: isize, now: Duration) {
        // At the end, the row that says where the end is becomes one of the window.
        let below = usize::from(by > 0 && !self.transcript.is_at_end());
        self.transcript.scroll(by, self.height + below, now);
        self.view_elsewhere();
    }

    /// Ends the typing of a search that a key of vi began, and shows its first match.
    pub(crate) fn end_vi_search(&mut self, typed: String, is_down: bool, now: Duration) {
        self.views.close(ViewLayer::Line);
        let text = Some(typed)
            .filter(|text| !text.is_empty())
            .or_else(|| self.vi_view.last_search.take().map(|(text, _)| text));
        self.vi_view.last_search = text.map(|text| (text, is_down));
        self.search_again(1, true, now);
    }

    /// Shows the next match of the last search, in its direction or in the other one, around the end of the conversation.
    fn search_again(&mut self, times: usize, is_same_direction: bool, now: Duration) {
        let Some((text, is_down)) = self.vi_view.last_search.clone() else {
            return self.hint("nothing was searched for; `/` begins a search", now);
        };
        let is_down = is_down == is_same_direction;
        let is_found = (0..times).all(|_| {
            self.transcript.find(&text, is_down, now) || {
                self.transcript.search_from_edge(is_down);
                self.transcript.find(&text, is_down, now)
            }
        });
        if !is_found {
            self.hint(format!("no match for `{text}`"), now);
        }
        self.view_elsewhere();
    }

    fn open_command_line(&mut self) {
        let message = std::mem::take(&mut self.composer);
        self.vi_view.message = Some(Box::new(message));
        self.composer.insert("/");
    }

    /// Returns the editor to the message. Returns whether it had the command line.
    pub(super) fn close_command_line(&mut self) -> bool {
        let Some(message) = self.vi_view.message.take() else { return false };
        self.composer = *message;
        self.popup = None;
        true
    }

    /// Returns the message, also while the editor has the command line.
    pub(super) fn message_composer(&self) -> &Composer {
        self.vi_view.message.as_deref().unwrap_or(&self.composer)
    }

    /// Applies a key to the command line.
    pub(super) fn command_line_key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) {
        match (key.code, action) {
            (KeyCode::Esc, _) | (_, Some(Action::Cancel | Action::Interrupt)) => {
                self.close_command_line();
            }
            (KeyCode::Enter, _) => self.run_command_line(now),
            (KeyCode::Tab, _) => drop(self.accept()),
            (_, Some(Action::Up)) => drop(self.select_completion(false)),
            (_, Some(Action::Down)) => drop(self.select_completion(true)),
            _ => {
                self.composer.line_key(key, action);
                match self.composer.text() {
                    "" => drop(self.close_command_line()),
                    text if !text.starts_with('/') => {
                        let text = format!("/{text}");
                        self.composer.set(&text);
                    }
                    _ => {}
                }
                if self.vi_view.has_command_line() && self.composer.cursor() == 0 {
                    self.composer.set_cursor(1);
                }
            }
        }
    }

    /// Runs the typed command. An unknown one completes, or stays for a correction.
    fn run_command_line(&mut self, now: Duration) {
        let typed = self.composer.text().trim_start_matches('/').trim().to_owned();
        if typed.is_empty() {
            self.close_command_line();
            return;
        }
        let alias = ALIASES.iter().find(|(short, _)| *short == typed);
        let line = format!("/{}", alias.map_or(typed.as_str(), |(_, name)| name));
        let name = command_of(&line).map_or("", |(name, _)| name);
        if !self.has_command(name) {
            if !self.accept() {
                self.hint(format!("there is no command `:{typed}`"), now);
            }
            return;
        }
        self.close_command_line();
        self.transcript.unselect();
        self.end_view();
        self.requests.push(UiRequest::Remember(line.clone()));
        if !self.own_command(&line, now) {
            self.submit(line, now);
        }
    }
}
