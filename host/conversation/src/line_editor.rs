//! The editor of lines in a conversation by lines.

use crate::actions::definition::{ActionTable, complete_argument, describe_actions};
use crate::line_reports::LineReports;
use pinion_agent::secrets::Secrets;
use pinion_agent::text::one_line;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::create_directory;
use pinion_app::run::notices::PluginNotices;
use pinion_app::workspace_base::Base;
use pinion_console::output::terminal::{Style, is_linear};
use pinion_console::output::{Text, print, print_line, text};
use pinion_plugin_runtime::Runtime;
use pinion_tui::PickChoice;
use pinion_tui::terminal::without_reports;
use rustyline::completion::{Completer, Pair};
use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Editor, ExternalPrinter, Helper};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::runtime::Handle;

/// Text before the line that the user edits.
pub(super) const PROMPT: &str = "› ";
const HISTORY_LINES: usize = 1000;
/// Maximum characters that a plugin may insert into the line.
const MAX_INSERT: usize = 4000;
/// Maximum characters of a completion in the list.
const MAX_CANDIDATE: usize = 160;
const MAX_CANDIDATES: usize = 200;

/// Returns the keys in Markdown.
pub(super) fn keys() -> &'static str {
    match is_linear() {
        true => {
            "- Ctrl-C interrupts the model; twice at an empty line, it exits, as does Ctrl-D\n\
             - a `\\` at the end of a line continues it"
        }
        false => {
            "- Ctrl-C interrupts the model and discards a line; twice at an empty line, it exits, as does Ctrl-D\n\
             - Tab completes commands and their arguments\n\
             - ↑ and Ctrl-R find earlier lines\n\
             - a `\\` at the end of a line continues it"
        }
    }
}

/// Input of the user.
pub(super) enum Input {
    Line(String),
    /// Ctrl-C on an empty line.
    Interrupt,
    /// Ctrl-C on a line with text, which it discards.
    Cleared,
    /// Ctrl-D.
    End,
}

/// rustyline, on the thread that it blocks; for linear output, the terminal's own editing.
pub(super) struct LineEditor {
    editor: Option<Editor<Prompting, FileHistory>>,
    /// Writes above the line that is being edited; `None` on a terminal that cannot.
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    /// True while the line being edited has text.
    has_text: Arc<AtomicBool>,
    reports: Arc<Mutex<LineReports>>,
    history: PathBuf,
    secrets: Secrets,
}

impl LineEditor {
    pub(super) fn start(runtime: Arc<Runtime>, base: &Base, actions: ActionTable) -> Result<Self> {
        let history = base.paths.history_file();
        let failed = |error: ReadlineError| Failure::failed("could not read a line").because(error);
        let mut editor = Editor::new().map_err(failed)?;
        let has_text = Arc::new(AtomicBool::new(false));
        let reports = Arc::<Mutex<LineReports>>::default();
        let (has_text_now, reports_seen) = (has_text.clone(), reports.clone());
        let (base_of_helper, handle) = (base.clone(), Handle::current());
        let helper =
            Prompting { runtime, base: base_of_helper, actions, handle, has_text: has_text_now, reports: reports_seen };
        editor.set_helper(Some(helper));
        let printer = editor.create_external_printer().ok().map(|printer| Box::new(printer) as Box<_>);
        editor.set_completion_type(CompletionType::List);
        editor.set_max_history_size(HISTORY_LINES).map_err(failed)?;
        // There is no history the first time.
        let _ = editor.load_history(&history);
        Ok(Self { editor: Some(editor), printer, has_text, reports, history, secrets: base.secrets.clone() })
    }

    /// Reads a line, and writes notices above it when they arrive.
    pub(super) async fn read(&mut self, initial: String, notices: &PluginNotices, style: Style) -> Result<Input> {
        if is_linear() {
            return plain(initial, notices).await;
        }
        let Some(mut editor) = self.editor.take() else { return Ok(Input::End) };
        self.has_text.store(!initial.is_empty(), Ordering::Release);
        *self.reports.lock().unwrap_or_else(PoisonError::into_inner) = LineReports::default();
        let mut reading = tokio::task::spawn_blocking(move || {
            let line = editor.readline_with_initial(PROMPT, (&one_line(&initial, MAX_INSERT), ""));
            (editor, line)
        });
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                () = notices.arrived.notified(), if self.printer.is_some() => self.print(&notices.take_lines(), style),
            }
        };
        let (mut editor, line) = read.map_err(|error| Failure::failed("could not read a line").because(error))?;
        let input = match line {
            Ok(line) => {
                let line = self.reports.lock().unwrap_or_else(PoisonError::into_inner).without(line);
                self.remember(&mut editor, &line);
                // The backslashes only continued the line.
                Ok(Input::Line(line.replace("\\\n", "\n")))
            }
            Err(ReadlineError::Interrupted) if self.has_text.load(Ordering::Acquire) => Ok(Input::Cleared),
            Err(ReadlineError::Interrupted) => Ok(Input::Interrupt),
            Err(ReadlineError::Eof) => Ok(Input::End),
            Err(error) => Err(Failure::failed("could not read a line").because(error)),
        };
        self.editor = Some(editor);
        input
    }

    /// Adds a text that was not sent to the end of the history, where there is one, and says so.
    pub(super) fn offer(&mut self, text: &str, style: Style) {
        let shown = one_line(text, MAX_INSERT);
        match self.editor.as_mut().filter(|_| !is_linear()) {
            Some(editor) => {
                let _ = editor.add_history_entry(&shown);
                print_line(&style.dim("  ↑ brings the message back"));
            }
            None => print_line(&text!("suggested: {}", shown)),
        }
    }

    /// Writes notices above the line that is being edited. Ignores errors, because the editor meets them as well.
    fn print(&mut self, notices: &[Text], style: Style) {
        for notice in notices {
            let line = self.secrets.clean(style.dim(notice).as_str()).into_owned();
            let _ = self.printer.as_mut().map(|printer| printer.print(line + "\n"));
        }
    }

    /// Adds a line to the history. Ignores errors, because the history is only a convenience.
    fn remember(&self, editor: &mut Editor<Prompting, FileHistory>, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        let _ = editor.add_history_entry(&*self.secrets.clean(line));
        let directory = self.history.parent().map_or(Ok(()), create_directory);
        let _ = directory.map(|()| editor.save_history(&self.history));
    }
}

/// Reads a line that the terminal edits. Notices are written below it.
async fn plain(initial: String, notices: &PluginNotices) -> Result<Input> {
    let failed = |error: io::Error| Failure::failed("could not read a line").because(error);
    if !initial.is_empty() {
        print_line(&text!("suggested: {}", one_line(&initial, MAX_INSERT)));
    }
    print(&text!("{}", PROMPT))?;
    let mut reading = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        // A backslash at the end continues the line.
        while io::stdin().read_line(&mut text)? > 0 && text.ends_with("\\\n") {}
        Ok(text)
    });
    let read = loop {
        tokio::select! {
            read = &mut reading => break read,
            () = notices.arrived.notified() => {
                notices.take_lines().iter().for_each(print_line);
                print(&text!("{}", PROMPT))?;
            }
        }
    };
    let text = read.map_err(|error| failed(io::Error::other(error)))?.map_err(failed)?;
    let text = without_reports(&text);
    Ok(if text.is_empty() { Input::End } else { Input::Line(text.trim_end().replace("\\\n", "\n")) })
}

/// Completes slash commands and their arguments.
struct Prompting {
    runtime: Arc<Runtime>,
    base: Base,
    actions: ActionTable,
    handle: Handle,
    has_text: Arc<AtomicBool>,
    reports: Arc<Mutex<LineReports>>,
}

impl Completer for Prompting {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Some(typed) = line[..at].strip_prefix('/') else { return Ok((at, Vec::new())) };
        match typed.split_once([' ', ':']) {
            None => {
                let pair = |name: &str, hint: &str, description: &str| {
                    let hint = if hint.is_empty() { String::new() } else { format!(" {hint}") };
                    let display = one_line(&format!("/{name}{hint}  {description}"), MAX_CANDIDATE);
                    Pair { display, replacement: format!("{name} ") }
                };
                let actions = describe_actions(self.actions, false);
                let commands = self.runtime.commands().into_iter();
                let begun = commands.filter(|c| c.name.starts_with(typed) && c.is_offered(&actions));
                let pair_of = |c: pinion_plugin_runtime::CommandDefinition| {
                    pair(&c.name, c.argument_hint.as_deref().unwrap_or_default(), &c.description)
                };
                Ok((1, begun.map(pair_of).collect()))
            }
            Some((name, argument)) => {
                let completing = complete_argument(&self.base, &self.runtime, self.actions, name, argument);
                let values = self.handle.block_on(completing);
                let pair = |c: PickChoice| {
                    let more = if c.detail.is_empty() { String::new() } else { format!("  {}", c.detail) };
                    Pair { display: one_line(&format!("{}{more}", c.value), MAX_CANDIDATE), replacement: c.value }
                };
                Ok((1 + name.len() + 1, values.into_iter().take(MAX_CANDIDATES).map(pair).collect()))
            }
        }
    }
}

/// Gives no hints, but learns at each key whether the line has text.
impl Hinter for Prompting {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> Option<String> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).saw(line, at, Instant::now());
        self.has_text.store(!line.is_empty(), Ordering::Release);
        None
    }
}

impl Highlighter for Prompting {}

/// Continues a line that ends with a backslash.
impl Validator for Prompting {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = context.input().ends_with('\\');
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Helper for Prompting {}
