//! A conversation on a terminal, line by line.
//!
//! rustyline edits lines on a separate thread, which reads only while nothing runs. Ctrl-C interrupts the agent while
//! it works, and ends the conversation when pressed twice at the prompt.

use crate::actions::definition::{ActionTable, describe_actions};
use crate::conversation_output::Voice;
use crate::cost::TurnMeter;
use crate::elsewhere::elsewhere;
use crate::images::{Prompt, with_images};
use crate::line_editor::{Input, LineEditor, PROMPT};
use crate::modes;
use crate::perform::NextPrompt;
use crate::render::{Detail, Renderer};
use crate::resumed_ending::recall;
use crate::runs::Runs;
use crate::shell::PendingMessages;
use crate::shell::ShellCommand;
use pinion_agent::Message;
use pinion_agent::channel::EventReceiver;
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::names::nearest;
use pinion_app::plugins::sources::Purpose;
use pinion_app::run::notices::PluginNotices;
use pinion_app::run::setup::Ready;
use pinion_app::sessions::short_id;
use pinion_app::workspace_base::Base;
use pinion_console::approve::TerminalApprover;
use pinion_console::args::{GlobalArgs, RunArgs};
use pinion_console::output::terminal::{Style, is_linear};
use pinion_console::output::{self, Stdout, Text, count, indented, showing, text, written};
use pinion_console::process::signals::{self, interruptible, interruptible_by};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum number of events that wait for the terminal.
const CHANNEL: usize = 256;

/// State of a conversation, in lines or on the full screen.
pub(crate) struct Chat<'a> {
    pub(crate) base: &'a Base,
    pub(crate) args: &'a RunArgs,
    pub(crate) ready: Ready,
    pub(crate) voice: Voice,
    /// Messages that the model gets with the next prompt: the user's own shell commands.
    pub(crate) pending: PendingMessages,
    /// The actions that slash commands may name.
    pub(crate) actions: ActionTable,
}

pub(crate) async fn run(base: &Base, args: &RunArgs, global: &GlobalArgs, actions: ActionTable) -> Result<()> {
    let notices = Arc::new(PluginNotices::default());
    let received = notices.clone();
    let approver = Arc::new(TerminalApprover::new(base.permissions.clone()));
    let ready = base
        .ready(&args.options(), Purpose::Conversation, approver.clone(), move |notice| received.push_notice(&notice))
        .await?;
    let watch = ready.runtime.watch(base.plugin_directories(&args.options()));
    let detail = if global.verbose > 0 { Detail::Ledgers } else { Detail::Conversation };
    notices.startup_is_over();
    ready.info.offer(describe_actions(actions, false));
    let mut chat = Chat {
        base,
        args,
        ready,
        voice: Voice::Lines { style: Style::of_stdout(), detail },
        pending: PendingMessages::default(),
        actions,
    };
    chat.greet();
    chat.show_session();
    if let Err(error) = &watch {
        chat.write_line(&text!("! {}", Text::block(pinion_app::failure::with_causes(error))));
    }
    let prompt = args.prompt.join(" ");
    let conversed = chat.converse(prompt, &notices, &approver).await;
    chat.end(conversed).await
}

impl Chat<'_> {
    /// Completes the session of a conversation that has ended, says how to resume it, and hands over the plugins that are
    /// not compiled yet. Called when the terminal shows lines.
    pub(crate) async fn end(&self, conversed: Result<()>) -> Result<()> {
        self.ready.runtime.deliver_events().await;
        let saved = self.ready.session.sync().and(self.base.exchanges.finish());
        let style = Style::of_stdout();
        if let Some(session) = self.ready.session.on_disk.as_ref().filter(|session| session.path().exists()) {
            output::print_line(&style.dim(text!("Resume with: pinion -r {}", short_id(session.id()))));
        }
        if conversed.is_ok()
            && let Some(notice) = self.ready.compile_later(self.base)
        {
            output::print_line(&style.dim(text!("! {}", Text::block(notice))));
        }
        conversed.and(saved)
    }

    fn greet(&self) {
        let style = self.voice.style();
        self.write_line(&text!("{} · {} · {}", style.bold("pinion"), self.ready.info.model(), self.base.workspace));
        self.write_line(&style.dim(indented(&self.facts().join(" · "))));
        self.write_line(&style.dim("  /help lists commands, Ctrl-C interrupts, Ctrl-D exits"));
        let notices = self.ready.notices(self.base).into_iter();
        notices.for_each(|notice| self.write_line(&style.yellow(text!("! {}", Text::block(notice)))));
    }

    /// Describes the conversation's setup: approval, session, context files and tools.
    pub(crate) fn facts(&self) -> Vec<String> {
        let approval = modes::describe(self.ready.agent.config().ports.approval.mode());
        let session = &self.ready.session;
        let saved = match (session.on_disk.is_some(), session.history.messages.len()) {
            (false, _) => "session is not saved".to_owned(),
            (true, 0) => format!("session {}", short_id(&session.id)),
            (true, n) => format!("session {}, {} so far", short_id(&session.id), count(n as u64, "message")),
        };
        let tools = count(self.ready.agent.config().ports.tools.definitions().len() as u64, "tool");
        [vec![approval.to_owned(), saved], self.ready.context_files(), vec![tools]].concat()
    }

    /// Writes a line. Ignores errors, because a lost terminal ends the conversation soon enough.
    pub(crate) fn write_line(&self, line: &Text) {
        match &self.voice {
            Voice::Lines { .. } => output::print_line(line),
            Voice::Screen(said) => said.line(line),
        }
    }

    /// Shows Markdown that a command prints.
    pub(crate) fn page(&self, markdown: &str) {
        match &self.voice {
            Voice::Lines { style, .. } => output::print_line(&output::page(markdown, *style)),
            Voice::Screen(said) => said.page(markdown),
        }
    }

    /// Shows the session: all of it on the screen, and in lines where it was left.
    pub(crate) fn show_session(&mut self) {
        let session = &mut self.ready.session;
        let history = std::mem::take(&mut session.history);
        match &self.voice {
            Voice::Lines { style, .. } => {
                recall(&session.messages, *style).iter().for_each(|line| self.write_line(line))
            }
            Voice::Screen(said) => {
                let path = session.on_disk.as_ref().map(|session| session.path());
                said.session(history.into_events(path));
            }
        }
    }

    async fn converse(
        &mut self,
        first: String,
        notices: &Arc<PluginNotices>,
        approver: &TerminalApprover,
    ) -> Result<()> {
        let style = self.voice.style();
        if first.trim().is_empty() && self.args.continues() && self.ready.is_unfinished() {
            self.write_line(&style.dim("Continuing the unfinished run"));
            self.work(None, notices).await?;
        }
        let mut editor = LineEditor::start(self.ready.runtime.clone(), self.base, self.actions)?;
        let first = Some(first).filter(|text| !text.trim().is_empty()).map(Prompt::from);
        let mut waiting: VecDeque<Prompt> = first.into_iter().collect();
        if let Some(prompt) = waiting.front() {
            // As if it had been typed here.
            self.write_line(&text!("› {}", Text::block(&prompt.text)));
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
            notices.take_lines().iter().for_each(|notice| self.write_line(&style.dim(notice)));
            if let Some(prompt) = waiting.pop_front() {
                self.work(Some(prompt), notices).await?;
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
                    next.offer.into_iter().for_each(|text| editor.offer(&text, style));
                    signals.forget();
                }
            }
        }
    }

    /// Handles a line of the user: a command or a message.
    pub(crate) async fn enter(&mut self, line: &str) -> NextPrompt {
        if matches!(line, "exit" | "quit") {
            return NextPrompt { quit: true, ..NextPrompt::default() };
        }
        if let Some(command) = ShellCommand::parse(line) {
            let (voice, session) = (self.voice.clone(), self.ready.session.id.clone());
            self.pending.add(command.show(voice, &self.ready.runtime, &self.base.secrets, session).await);
            return NextPrompt::default();
        }
        let command = pinion_tui::of_hash(line).or_else(|| pinion_tui::of_word(line));
        let line = command.as_deref().unwrap_or(line);
        let Some((name, arguments)) = pinion_tui::command_of(line) else {
            let submit = Some(line.to_owned()).filter(|line| !line.is_empty()).map(Prompt::from).into_iter().collect();
            return NextPrompt { submit, ..NextPrompt::default() };
        };
        let runtime = self.ready.runtime.clone();
        let is_known = runtime.commands().iter().any(|command| command.name == name);
        if !is_known && let Some(instead) = elsewhere(name) {
            self.page(instead);
            return NextPrompt::default();
        }
        let token = CancellationToken::new();
        let session = self.ready.session.id.clone();
        let services = self.ready.agent.services_for_command(&token);
        let running = runtime.run_command(name, arguments, &session, Some(services), token.clone());
        match interruptible_by(move || token.cancel(), running).await.0 {
            Ok(effects) => self.perform(effects).await,
            Err(error) => {
                self.write_line(&self.voice.style().red(text!("! {}", Text::block(format_args!("{error:#}")))));
                let commands = self.ready.runtime.commands();
                if commands.is_empty() {
                    self.write_line(&text!("  no plugin offers commands; `exit` exits"));
                }
                if let Some(meant) = nearest(name, commands.iter().map(|command| &*command.name))
                    && meant != name
                {
                    self.write_line(&text!("  did you mean `/{}`?", meant));
                }
                NextPrompt::default()
            }
        }
    }

    /// Runs the agent on one message, or continues the last run without one.
    async fn work(&mut self, prompt: Option<Prompt>, notices: &Arc<PluginNotices>) -> Result<()> {
        let (agent, prompts) = (self.ready.agent.clone(), self.prompts(prompt).await);
        let events = agent.subscribe(CHANNEL);
        let (style, detail) = match self.voice {
            Voice::Lines { style, detail } => (style, detail),
            Voice::Screen(_) => (Style::Plain, Detail::Conversation),
        };
        let rendering = showing(render(events, Renderer::new(Stdout, style, detail), notices.clone(), style));
        let meter = TurnMeter::begin(self.base, &agent);
        let (outcome, _) = interruptible(&agent, self.ready.work(prompts)).await;
        let rendered = rendering.await.map_err(|error| Failure::failed("the display failed").because(error))?;
        written(rendered)?;
        self.say_gaps();
        let outcome = outcome.map_err(Failure::from)?;
        self.say_turn_cost(meter, &outcome);
        Ok(())
    }

    /// Returns the messages to send for a prompt of the user; an empty list without a prompt.
    pub(crate) async fn prompts(&mut self, prompt: Option<Prompt>) -> Vec<Message> {
        let changed = self.base.refresh_offers(&self.args.options(), &self.ready.runtime).await;
        let changed = changed.into_iter().chain(self.ready.refresh_context(self.base, &self.args.options()));
        changed.for_each(|changed| self.write_line(&text!("! {}", Text::block(changed))));
        let Some(prompt) = prompt else { return Vec::new() };
        self.begin_session_after_pause().await;
        self.warn_of_changed_tools();
        let (message, problems) = with_images(self.base, &self.ready.info.model(), prompt);
        problems.iter().for_each(|problem| self.write_line(&text!("! {}", Text::block(problem))));
        self.pending.take_messages().into_iter().chain([message]).collect()
    }
}

/// Renders the events of a run, and notices about plugins when they arrive.
async fn render(
    mut events: EventReceiver,
    mut renderer: Renderer<Stdout>,
    notices: Arc<PluginNotices>,
    style: Style,
) -> io::Result<()> {
    let mut runs = Runs::default();
    loop {
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return Ok(()) };
                renderer.event(&event)?;
                if runs.is_end(&event) {
                    return renderer.after_limit(&event);
                }
            }
            () = notices.arrived.notified() => {
                notices.take_lines().iter().try_for_each(|notice| renderer.line(&style.dim(notice)))?;
            }
        }
    }
}

fn remark_on_interrupt() {
    output::print_line(&Style::of_stdout().dim("Press Ctrl-C again to exit"));
    if is_linear() {
        // The line that is read goes on below.
        let _ = output::print(&text!("{}", PROMPT));
    }
}
