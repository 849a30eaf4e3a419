//! Completion of slash commands, their arguments, and files.

use crate::dialog::picker::PickChoice;
use crate::fuzzy::{best, filter, matches};
use crate::input::UiRequest;
use crate::update::{App, attached};
use std::sync::Arc;

/// Maximum number of entries.
const MAX_ENTRIES: usize = 100;

/// Completions of the word at the cursor.
#[derive(Debug)]
pub(crate) struct Popup {
    /// Offset where the completed text begins.
    start: usize,
    pub(crate) choices: Vec<PickChoice>,
    pub(crate) selected: usize,
    kind: CompletionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletionKind {
    Command,
    Argument,
    File,
}

/// The search for completions.
#[derive(Debug, Default)]
pub(super) struct CompletionSearch {
    /// The text and cursor that the last search was for.
    last: (u64, usize),
    /// Number of the last request.
    id: u64,
    /// Offset where the argument of that request begins.
    start: usize,
    is_closed: bool,
    has_files: bool,
    narrowed: Option<Narrowed>,
}

/// The files that match the typed text. If more is typed, the matches are among them.
#[derive(Debug)]
struct Narrowed {
    files: Arc<Vec<String>>,
    query: String,
    matches: Vec<usize>,
}

impl App {
    /// Repeats the search if the text or the cursor changed.
    pub(super) fn search_completions(&mut self) {
        let now = (self.composer.version(), self.composer.cursor());
        if self.completion.last == now {
            return;
        }
        let is_edited = self.completion.last.0 != now.0;
        self.completion.last = now;
        if is_edited {
            self.completion.is_closed = false;
        }
        self.popup = None;
        if self.completion.is_closed || !is_edited || self.composer.is_empty() {
            return;
        }
        let before = self.composer.text()[..self.composer.cursor()].to_owned();
        if let Some(typed) = before.strip_prefix('/').filter(|typed| !typed.contains('\n')) {
            match typed.split_once([' ', ':']) {
                None if !typed.contains('/') => self.complete_command(typed),
                None => {}
                Some((name, argument)) => self.complete_argument(name.to_owned(), argument.to_owned()),
            }
        } else if let Some((start, query)) = file_word(&before) {
            self.complete_file(start, query);
        }
    }

    fn complete_command(&mut self, typed: &str) {
        let matches = filter(typed, self.commands.iter().map(|command| command.name.as_str()), MAX_ENTRIES);
        let is_line = self.vi_view.has_command_line();
        let choice = |at: usize| {
            let command = &self.commands[at];
            let hint = if command.hint.is_empty() { String::new() } else { format!(" {}", command.hint) };
            PickChoice {
                value: format!("/{} ", command.name),
                label: format!("{}{}{hint}", if is_line { ":" } else { "/" }, command.name),
                detail: command.description.clone(),
            }
        };
        let choices = matches.into_iter().map(choice).collect();
        self.open(0, choices, CompletionKind::Command);
    }

    fn complete_argument(&mut self, command: String, argument: String) {
        if !self.commands.iter().any(|known| known.name == command) {
            return;
        }
        self.completion.id += 1;
        self.completion.start = 1 + command.len() + 1;
        self.requests.push(UiRequest::Complete { id: self.completion.id, command, argument });
    }

    /// Returns whether there is a slash command of this name.
    pub(super) fn has_command(&self, name: &str) -> bool {
        self.commands.iter().any(|command| command.name == name)
    }

    /// Returns the form of the arguments of the command in the editor, while it has no arguments.
    pub(crate) fn argument_hint(&self) -> Option<&str> {
        let name = self.composer.text().strip_prefix('/')?.strip_suffix(' ')?;
        let command = self.commands.iter().find(|command| command.name == name)?;
        Some(command.hint.as_str()).filter(|hint| !hint.is_empty())
    }

    /// Shows the completions of an argument, unless the user has typed on.
    pub(super) fn completions(&mut self, id: u64, choices: Vec<PickChoice>) {
        let is_current = self.completion.id == id && self.completion.last.0 == self.composer.version();
        if is_current && !self.completion.is_closed && self.composer.text().starts_with('/') {
            self.open(self.completion.start, choices, CompletionKind::Argument);
        }
    }

    /// Completes the name of a file whose word begins at `start`.
    fn complete_file(&mut self, start: usize, query: &str) {
        if query.is_empty() || !self.completion.has_files {
            self.completion.has_files = true;
            self.requests.push(UiRequest::ListFiles);
        }
        let files = self.files.clone();
        let is_same = |known: &Narrowed| Arc::ptr_eq(&known.files, &files) && query.starts_with(&known.query);
        let found = match self.completion.narrowed.take().filter(is_same) {
            Some(known) => matches(query, known.matches.into_iter().map(|at| (at, files[at].as_str()))),
            None => matches(query, files.iter().map(String::as_str).enumerate()),
        };
        let narrowed = found.iter().map(|(.., at)| *at).collect();
        self.completion.narrowed = Some(Narrowed { files: files.clone(), query: query.to_owned(), matches: narrowed });
        let choice =
            |at: usize| PickChoice { value: attached(&files[at]), label: files[at].clone(), detail: String::new() };
        self.open(start, best(found, MAX_ENTRIES).into_iter().map(choice).collect(), CompletionKind::File);
    }

    fn open(&mut self, start: usize, choices: Vec<PickChoice>, kind: CompletionKind) {
        self.popup = Some(Popup { start, choices, selected: 0, kind }).filter(|popup| !popup.choices.is_empty());
    }

    /// Lists the files again that were not known when the popup opened.
    pub(super) fn files_arrived(&mut self) {
        if !self.completion.is_closed {
            self.completion.last.0 = self.completion.last.0.wrapping_sub(1);
        }
    }

    pub(super) fn close_popup(&mut self) -> bool {
        self.completion.is_closed = true;
        self.popup.take().is_some()
    }

    pub(super) fn select_completion(&mut self, is_down: bool) -> bool {
        let Some(popup) = &mut self.popup else { return false };
        let count = popup.choices.len();
        popup.selected = if is_down { popup.selected + 1 } else { popup.selected + count - 1 } % count;
        true
    }

    /// Inserts the selected completion. Returns `false` without one.
    pub(super) fn accept(&mut self) -> bool {
        let Some(popup) = self.popup.take() else { return false };
        let Some(choice) = popup.choices.get(popup.selected) else { return false };
        self.composer.complete(popup.start.min(self.composer.cursor()), &choice.value);
        true
    }

    /// Returns the remark below the completions.
    pub(crate) fn popup_remark(&self) -> Option<&'static str> {
        let is_of_files = self.popup.as_ref().is_some_and(|popup| popup.kind == CompletionKind::File);
        (is_of_files && self.is_cut).then_some("… among the first files only, because there are too many")
    }

    /// Returns whether Enter completes instead of sending: an unfinished command, or an unfinished name of a file.
    pub(super) fn completes_on_enter(&self) -> bool {
        self.popup.as_ref().is_some_and(|popup| match popup.kind {
            CompletionKind::File => {
                let typed = &self.composer.text()[popup.start.min(self.composer.cursor())..self.composer.cursor()];
                popup.choices.get(popup.selected).is_none_or(|choice| choice.value.trim_end() != typed)
            }
            CompletionKind::Argument => false,
            CompletionKind::Command => {
                let typed = self.composer.text().trim_start_matches('/');
                !self.commands.iter().any(|command| command.name == typed)
            }
        })
    }
}

/// Returns the offset of an `@` that begins the last word, with the typed part of the name behind it: `@name`, or
/// `@"name`, which may have blanks.
fn file_word(before: &str) -> Option<(usize, &str)> {
    let begins_word = |at: &usize| before[..*at].chars().next_back().is_none_or(char::is_whitespace);
    if let Some(at) = before.rfind("@\"").filter(begins_word)
        && !before[at + 2..].contains(['"', '\n'])
    {
        return Some((at, &before[at + 2..]));
    }
    let word = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let word = before.ceil_char_boundary(word);
    Some((word, before[word..].strip_prefix('@')?))
}
