//! A conversation on a terminal, line by line.
//!
//! rustyline edits lines on a thread of its own, which reads only while nothing runs. Ctrl-C interrupts the agent while
//! it works, and ends the conversation when pressed twice at the prompt.

use crate::approve::TerminalApprover;
use crate::args::{GlobalArgs, RunArgs};
use crate::base::Base;
use crate::commands::session::short_id;
use crate::failure::{Failure, Result, Status};
use crate::files::private::create_directory;
use crate::names::nearest;
use crate::output::terminal::Style;
use crate::output::{self, Stdout, Text, count, indented, text, written};
use crate::plugins::sources::Purpose;
use crate::process::signals::{self, interruptible, interruptible_by};
use crate::run::actions::Next;
use crate::run::images::with_images;
use crate::run::loops::Loops;
use crate::run::mcp_command;
use crate::run::notices::describe;
use crate::run::own_commands::{self, COMMANDS};
use crate::run::recall::recall;
use crate::run::render::{Detail, Renderer};
use crate::run::setup::Ready;
use crate::run::shell::ShellCommand;
use crate::run::voice::Voice;
use pinion_agent::Message;
use pinion_agent::channel::EventReceiver;
use pinion_agent::secrets::Secrets;
use pinion_agent::text::{find_unsafe, one_line};
use pinion_plugin_runtime::{Notice, NoticeEvent, Runtime};
use rustyline::completion::{Completer, Pair};
use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Editor, ExternalPrinter, Helper};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Maximum number of events that wait for the terminal.
const CHANNEL: usize = 256;
const HISTORY_LINES: usize = 1000;
/// Maximum characters that a plugin may insert into the line.
const MAX_INSERT: usize = 4000;
/// Maximum characters of a completion in the list.
const MAX_CANDIDATE: usize = 160;
const MAX_CANDIDATES: usize = 200;

/// State of a conversation, in lines or on the full screen.
pub(crate) struct Chat<'a> {
    pub(crate) base: &'a Base,
    pub(crate) args: &'a RunArgs,
    pub(crate) ready: Ready,
    pub(crate) voice: Voice,
    /// Messages that the model gets with the next prompt: the user's own shell commands.
    pub(crate) pending: Vec<Message>,
}

/// Input of the user.
enum Input {
    Line(String),
    /// Ctrl-C on an empty line.
    Interrupt,
    /// Ctrl-C on a line with text, which it discards.
    Cleared,
    /// Ctrl-D.
    End,
}

pub(crate) async fn run(base: &Base, args: &RunArgs, global: &GlobalArgs) -> Result<()> {
    let notices = Arc::new(Notices::default());
    let received = notices.clone();
    let approver = Arc::new(TerminalApprover::new(base.permissions.clone()));
    let ready = base.ready(args, Purpose::Conversation, approver.clone(), move |notice| received.put(&notice)).await?;
    let watch = ready.runtime.watch(base.plugin_directories(args));
    let detail = if global.verbose > 0 { Detail::Ledgers } else { Detail::Conversation };
    notices.startup_is_over();
    ready.info.offer(COMMANDS.to_vec());
    let mut chat =
        Chat { base, args, ready, voice: Voice::Lines { style: Style::of_stdout(), detail }, pending: Vec::new() };
    chat.greet();
    chat.show_session();
    if let Err(error) = &watch {
        chat.say(&text!("! {}", Text::block(crate::failure::with_causes(error))));
    }
    let prompt = args.prompt.join(" ");
    let conversed = chat.converse(prompt, &notices, &approver).await;
    chat.ready.runtime.deliver_events().await;
    let saved = chat.ready.session.sync().and(base.exchanges.finish());
    if let Some(session) = chat.ready.session.on_disk.as_ref().filter(|session| session.path().exists()) {
        chat.say(&chat.voice.style().dim(text!("Resume with: pinion -r {}", short_id(session.id()))));
    }
    conversed.and(saved)
}

impl Chat<'_> {
    fn greet(&self) {
        let style = self.voice.style();
        self.say(&text!("{} · {} · {}", style.bold("pinion"), self.ready.info.model(), self.base.workspace));
        self.say(&style.dim(indented(&self.facts().join(" · "))));
        self.say(&style.dim("  /help lists commands, Ctrl-C interrupts, Ctrl-D exits"));
        let notices = self.ready.notices(self.base).into_iter();
        notices.for_each(|notice| self.say(&style.yellow(text!("! {}", Text::block(notice)))));
    }

    /// Describes what is in effect: approval, session, context files and tools.
    pub(crate) fn facts(&self) -> Vec<String> {
        let approval = own_commands::describe(self.ready.agent.config().ports.approval.mode());
        let session = &self.ready.session;
        let saved = match (session.on_disk.is_some(), session.messages.len()) {
            (false, _) => "session is not saved".to_owned(),
            (true, 0) => format!("session {}", short_id(&session.id)),
            (true, n) => format!("session {}, {} so far", short_id(&session.id), count(n as u64, "message")),
        };
        let tools = count(self.ready.agent.config().ports.tools.definitions().len() as u64, "tool");
        [vec![approval.to_owned(), saved], self.ready.context_files(), vec![tools]].concat()
    }

    /// Writes a line. Ignores errors, because a lost terminal ends the conversation soon enough.
    pub(crate) fn say(&self, line: &Text) {
        match &self.voice {
            Voice::Lines { .. } => output::say(line),
            Voice::Screen(said) => said.line(line),
        }
    }

    /// Shows Markdown that a command prints.
    pub(crate) fn page(&self, markdown: &str) {
        match &self.voice {
            Voice::Lines { .. } => output::say(&indented(markdown)),
            Voice::Screen(said) => said.page(markdown),
        }
    }

    /// Shows where the session was left.
    pub(crate) fn show_session(&self) {
        let messages = &self.ready.session.messages;
        match &self.voice {
            Voice::Lines { style, .. } => recall(messages, *style).iter().for_each(|line| self.say(line)),
            Voice::Screen(said) => said.session(messages),
        }
    }

    async fn converse(&mut self, first: String, notices: &Arc<Notices>, approver: &TerminalApprover) -> Result<()> {
        let style = self.voice.style();
        if first.trim().is_empty() && self.args.continues() && self.ready.is_unfinished() {
            self.say(&style.dim("Continuing the unfinished run"));
            self.work(None, notices).await?;
        }
        let mut editor = LineEditor::start(self.ready.runtime.clone(), self.base)?;
        let mut waiting: VecDeque<String> = Some(first).filter(|text| !text.trim().is_empty()).into_iter().collect();
        if let Some(prompt) = waiting.front() {
            // As if it had been typed here.
            self.say(&text!("› {}", Text::block(prompt)));
        }
        let mut insert = String::new();
        let signals = signals::waiting(remark_on_interrupt);
        loop {
            // An interrupted question may still be leaving the terminal.
            approver.idle().await;
            if signals::is_final() {
                return Err(Failure::new(Status::Interrupted, "interrupted"));
            }
            self.ready.check_built_ins()?;
            notices.take().iter().for_each(|notice| self.say(&style.dim(notice)));
            if let Some(text) = waiting.pop_front() {
                self.work(Some(text), notices).await?;
                continue;
            }
            match editor.read(std::mem::take(&mut insert), notices, style).await? {
                Input::End => return Ok(()),
                Input::Cleared => signals.forget(),
                Input::Interrupt if signals.key() => return Ok(()),
                Input::Interrupt => remark_on_interrupt(),
                Input::Line(line) => {
                    let next = self.enter(line.trim()).await;
                    if next.quit {
                        return Ok(());
                    }
                    waiting.extend(next.submit);
                    insert = next.insert.unwrap_or_default();
                    signals.forget();
                }
            }
        }
    }

    /// Handles a line of the user: a command or a message.
    pub(crate) async fn enter(&mut self, line: &str) -> Next {
        if matches!(line, "exit" | "quit") {
            return Next { quit: true, ..Next::default() };
        }
        if let Some(command) = ShellCommand::parse(line) {
            let (voice, session) = (self.voice.clone(), self.ready.session.id.clone());
            self.pending.extend(command.show(voice, &self.ready.runtime, &self.base.secrets, session).await);
            return Next::default();
        }
        let Some((name, arguments)) = own_commands::split(line) else {
            let submit = Some(line.to_owned()).filter(|line| !line.is_empty()).into_iter().collect();
            return Next { submit, ..Next::default() };
        };
        if let Some(next) = self.own_command(name, arguments).await {
            return next;
        }
        if name == mcp_command::NAME {
            let token = CancellationToken::new();
            let running = mcp_command::run(self.base, self.args, &self.ready, arguments, token.clone());
            let page = interruptible_by(move || token.cancel(), running).await.0;
            self.page(&page);
            return Next::default();
        }
        let runtime = self.ready.runtime.clone();
        let token = CancellationToken::new();
        let session = self.ready.session.id.clone();
        let services = self.ready.agent.services_for_command(&token);
        let running = runtime.run_command(name, arguments, &session, Some(services), token.clone());
        match interruptible_by(move || token.cancel(), running).await.0 {
            Ok(effects) => self.perform(effects).await,
            Err(error) => {
                self.say(&self.voice.style().red(text!("! {}", Text::block(format_args!("{error:#}")))));
                let commands = self.ready.runtime.commands();
                if let Some(meant) = nearest(name, commands.iter().map(|command| &*command.name))
                    && meant != name
                {
                    self.say(&text!("  did you mean `/{}`?", meant));
                }
                Next::default()
            }
        }
    }

    /// Runs the agent on one message, or continues the last run without one.
    async fn work(&mut self, text: Option<String>, notices: &Arc<Notices>) -> Result<()> {
        let (agent, prompts) = (self.ready.agent.clone(), self.prompts(text).await);
        let events = agent.subscribe(CHANNEL);
        let (style, detail) = match self.voice {
            Voice::Lines { style, detail } => (style, detail),
            Voice::Screen(_) => (Style::Plain, Detail::Conversation),
        };
        let rendering = tokio::spawn(render(events, Renderer::new(Stdout, style, detail), notices.clone(), style));
        let (outcome, _) = interruptible(&agent, self.ready.work(prompts)).await;
        let rendered = rendering.await.map_err(|error| Failure::failed("the display failed").because(error))?;
        written(rendered)?;
        self.say_gaps();
        outcome.map_err(Failure::from)?;
        Ok(())
    }

    /// Returns the messages to send for a prompt of the user; none without one.
    pub(crate) async fn prompts(&mut self, text: Option<String>) -> Vec<Message> {
        let changed = self.base.refresh_offers(self.args, &self.ready.runtime).await;
        changed.iter().for_each(|changed| self.say(&text!("! {}", Text::block(changed))));
        let Some(text) = text else { return Vec::new() };
        let (message, problems) = with_images(self.base, &self.ready.info.model(), text);
        problems.iter().for_each(|problem| self.say(&text!("! {}", Text::block(problem))));
        self.pending.drain(..).chain([message]).collect()
    }
}

/// Renders the events of a run, and notices about plugins when they arrive.
async fn render(
    mut events: EventReceiver,
    mut renderer: Renderer<Stdout>,
    notices: Arc<Notices>,
    style: Style,
) -> io::Result<()> {
    let mut loops = Loops::default();
    loop {
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return Ok(()) };
                renderer.event(&event)?;
                if loops.is_end(&event) {
                    return renderer.after_limit(&event);
                }
            }
            () = notices.arrived.notified() => {
                notices.take().iter().try_for_each(|notice| renderer.line(&style.dim(notice)))?;
            }
        }
    }
}

fn remark_on_interrupt() {
    output::say(&Style::of_stdout().dim("Press Ctrl-C again to exit"));
}

/// Notices about plugins on their way to the terminal.
#[derive(Default)]
pub(crate) struct Notices {
    waiting: Mutex<Vec<Text>>,
    /// Plugins that are gone or were reloaded since the last look: they no longer stand behind what the UI shows of them.
    ended: Mutex<Vec<String>>,
    /// Wakes the current owner of the terminal: the editor, the renderer or the full-screen UI.
    pub(crate) arrived: Notify,
    is_started: AtomicBool,
}

impl Notices {
    pub(crate) fn put(&self, notice: &Notice) {
        if matches!(notice.event, NoticeEvent::Removed | NoticeEvent::Loaded { generation: 2.., .. }) {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(notice.plugin.clone());
        }
        // The user expects the first load, unless the conversation began without it.
        let is_expected = matches!(notice.event, NoticeEvent::Loaded { generation: 1, .. });
        if is_expected && !self.is_started.load(Ordering::Acquire) {
            return;
        }
        let line = describe(notice);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        self.arrived.notify_one();
    }

    pub(crate) fn startup_is_over(&self) {
        self.is_started.store(true, Ordering::Release);
    }

    /// Returns the plugins that are gone or were reloaded since the last call.
    pub(crate) fn take_ended(&self) -> Vec<String> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn take(&self) -> Vec<Text> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// rustyline, on the thread that it blocks.
struct LineEditor {
    editor: Option<Editor<Prompting, FileHistory>>,
    /// Writes above the line that is being edited; none on a terminal that cannot.
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    /// True while the line being edited has text.
    has_text: Arc<AtomicBool>,
    history: PathBuf,
    secrets: Secrets,
}

impl LineEditor {
    fn start(runtime: Arc<Runtime>, base: &Base) -> Result<Self> {
        let history = base.paths.history_file();
        let failed = |error: ReadlineError| Failure::failed("could not read a line").because(error);
        let mut editor = Editor::new().map_err(failed)?;
        let has_text = Arc::new(AtomicBool::new(false));
        editor.set_helper(Some(Prompting { runtime, handle: Handle::current(), has_text: has_text.clone() }));
        let printer = editor.create_external_printer().ok().map(|printer| Box::new(printer) as Box<_>);
        editor.set_completion_type(CompletionType::List);
        editor.set_max_history_size(HISTORY_LINES).map_err(failed)?;
        // There is no history the first time.
        let _ = editor.load_history(&history);
        Ok(Self { editor: Some(editor), printer, has_text, history, secrets: base.secrets.clone() })
    }

    /// Reads a line, and writes notices above it when they arrive.
    async fn read(&mut self, initial: String, notices: &Notices, style: Style) -> Result<Input> {
        let Some(mut editor) = self.editor.take() else { return Ok(Input::End) };
        self.has_text.store(!initial.is_empty(), Ordering::Release);
        let mut reading = tokio::task::spawn_blocking(move || {
            let line = editor.readline_with_initial("› ", (&one_line(&initial, MAX_INSERT), ""));
            (editor, line)
        });
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                () = notices.arrived.notified(), if self.printer.is_some() => self.print(&notices.take(), style),
            }
        };
        let (mut editor, line) = read.map_err(|error| Failure::failed("could not read a line").because(error))?;
        let input = match line {
            Ok(line) => {
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

/// Completes slash commands and their arguments.
struct Prompting {
    runtime: Arc<Runtime>,
    handle: Handle,
    has_text: Arc<AtomicBool>,
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
                let of_plugins = self.runtime.commands().into_iter().filter(|command| command.name.starts_with(typed));
                let of_plugins =
                    of_plugins.map(|c| pair(&c.name, c.argument_hint.as_deref().unwrap_or_default(), &c.description));
                let own = COMMANDS.iter().filter(|command| command.name.starts_with(typed));
                let own = own.map(|command| pair(command.name, command.hint, command.description));
                Ok((1, of_plugins.chain(own).collect()))
            }
            Some((name, argument)) => {
                let values = self.handle.block_on(self.runtime.complete(name, argument));
                let pair = |c: pinion_plugin_runtime::Completion| {
                    let more = c.description.map(|text| format!("  {text}")).unwrap_or_default();
                    Pair { display: one_line(&format!("{}{more}", c.value), MAX_CANDIDATE), replacement: c.value }
                };
                // Values are inserted unchanged, so one that cannot be shown unchanged is skipped.
                let is_plain = |c: &pinion_plugin_runtime::Completion| {
                    c.value.len() <= MAX_INSERT && find_unsafe(&c.value, false).is_none()
                };
                let values = values.into_iter().filter(is_plain).take(MAX_CANDIDATES);
                Ok((1 + name.len() + 1, values.map(pair).collect()))
            }
        }
    }
}

/// Gives no hints, but learns at each key whether the line has text.
impl Hinter for Prompting {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &rustyline::Context<'_>) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_that_is_gone_or_reloaded_ends_what_is_shown_of_it() {
        let notices = Notices::default();
        let loaded = |generation| NoticeEvent::Loaded { generation, version: "1.0.0".to_owned() };
        let events = [("new", loaded(1)), ("reloaded", loaded(2)), ("gone", NoticeEvent::Removed)];
        for (plugin, event) in events.into_iter().chain([("slow", NoticeEvent::Compiling)]) {
            notices.put(&Notice { plugin: plugin.to_owned(), source: "a.wasm".to_owned(), event });
        }
        assert_eq!(notices.take_ended(), ["reloaded", "gone"]);
        assert!(notices.take_ended().is_empty());
    }
}
