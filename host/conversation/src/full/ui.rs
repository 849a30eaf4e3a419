//! The loop of the full-screen UI: terminal, events and questions in, frames and requests out.

use crate::actions::definition::ActionTable;
use crate::full::approver::{AnswerChannel, UiQuestion, withdrawn};
use crate::full::canvas::Canvas;
use crate::full::drafts::{Drafts, MessageDraft};
use crate::full::editor::Editing;
use crate::full::highlight_thread::Light;
use crate::full::keyboard::{AwaitedInput, Batch, begun, keys_or_end};
use crate::full::opening_screen::OpeningScreen;
use crate::full::requests::QUIT;
use crate::full::settings::has_marks;
use crate::full::themes::ThemeChoice;
use crate::full::ui_inbox::UiInbox;
use crate::full::{editor, history, lists};
use crate::modes;
use crate::shell::PendingMessages;
use pinion_agent::channel::EventReceiver;
use pinion_agent::{Agent, Content, EventKind, Message};
use pinion_app::failure::{Failure, Result};
use pinion_app::files::paths::shown_directory;
use pinion_app::model::info::SessionInfo;
use pinion_app::run::notices::PluginNotices;
use pinion_app::sessions::short_id;
use pinion_app::workspace_base::Base;
use pinion_console::output::has_left;
use pinion_console::output::terminal::Style;
use pinion_console::process::signals::{self, Ending};
use pinion_plugin_runtime::Runtime;
use pinion_tui::terminal;
use pinion_tui::{App, Facts, Input, Tone};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// Least time between two frames that no key caused. Text that streams reads as well at 30 frames a second as at 60, which take
/// twice the processor time.
const FRAME: Duration = Duration::from_millis(33);
/// Time for an orderly end after the terminal was lost.
const LOST: Duration = Duration::from_secs(2);
/// Time that is too short to leave and come back.
const AWAY: Duration = Duration::from_millis(100);
/// Items of the transcript that remain on the main screen.
const PRINTED_ITEMS: usize = 1_000;
/// Most events that are applied before the next frame.
const BATCH: usize = 512;

/// Something to work on.
pub(super) enum UiWork {
    /// A message or a slash command.
    Line(String),
    /// The session to continue.
    Resume(String),
    /// The session to continue in a copy of.
    Fork(String),
    /// A task to plan, and the file of the plan to replace.
    Plan { text: String, file: Option<String> },
    /// A plan that the user edited.
    SavePlan { file: String, text: String },
    /// The file of the plan to execute.
    Execute(String),
}

/// Everything that the UI is connected with.
pub(super) struct Connections {
    pub(super) base: Base,
    pub(super) agent: Arc<Agent>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) info: Arc<SessionInfo>,
    pub(super) events: EventReceiver,
    pub(super) asked: mpsc::Receiver<UiQuestion>,
    pub(super) said: Arc<UiInbox>,
    pub(super) notices: Arc<PluginNotices>,
    pub(super) drafts: Drafts,
    pub(super) pending: PendingMessages,
    pub(super) actions: ActionTable,
}

/// The UI on the terminal.
pub(super) struct Ui {
    pub(super) to: Connections,
    app: App,
    pub(super) canvas: Canvas,
    batches: mpsc::Receiver<Batch>,
    /// Cancelled when the terminal is lost.
    lost: CancellationToken,
    /// The question on the screen, and the way back for its answer.
    pub(super) open: Option<(u64, AnswerChannel)>,
    /// The external editor, which has the terminal.
    pub(super) editing: Option<Editing>,
    started: Instant,
    pub(super) work: VecDeque<UiWork>,
    light: Light,
    pub(super) is_quitting: bool,
    /// Ends the program if the work, or the terminal, does not let it end.
    pub(super) ending: Option<Ending>,
    is_changed: bool,
    /// Messages that went with one that steers the run in progress.
    pub(super) steered: Vec<Message>,
    /// Cancels side questions.
    pub(super) asides: CancellationToken,
    /// The completion of an argument that the user types.
    pub(super) completing: Option<AbortHandle>,
    pub(super) look: ThemeChoice,
    /// Until this time, only keys cause a frame.
    next_frame: Instant,
    /// Time when the user went to another window, until the return.
    left: Option<Instant>,
}

impl Ui {
    /// Connects the UI with its conversation.
    pub(super) fn open(to: Connections, opening: OpeningScreen, draft: MessageDraft) -> Self {
        let (light, look) = (Light::new(to.said.clone()), ThemeChoice::configured(&to.base));
        let OpeningScreen { app, canvas, batches, lost, started } = opening;
        let mut ui = Self {
            to,
            app,
            canvas,
            batches,
            lost,
            open: None,
            editing: None,
            started,
            work: VecDeque::new(),
            light,
            is_quitting: false,
            ending: None,
            is_changed: true,
            steered: Vec::new(),
            asides: CancellationToken::new(),
            completing: None,
            look,
            next_frame: started,
            left: None,
        };
        ui.input(Input::History(history::read(&ui.to.base)));
        ui.refresh();
        ui.ask();
        // The first frame shows the session, not an empty screen.
        ui.show_output();
        ui.input(Input::Insert(draft.text));
        ui.input(Input::Returned(draft.queue));
        ui
    }

    /// Returns the terminal, with the conversation on its main screen.
    pub(super) async fn close(mut self) {
        // The work has ended. From here on, only the terminal may take too long.
        let patience = self.ending.take().map(|_| QUIT);
        // An answer of the terminal that arrives later would be typed into the shell.
        while let Some(until) = self.look.answer_until() {
            let Ok(Some(batch)) = timeout_at(until, self.batches.recv()).await else { break };
            batch.background.and_then(|background| self.look.learn(background));
        }
        if self.editing.take().is_some_and(|editing| editing.is_running()) {
            // The editor was killed, and may leave the terminal in any mode.
            signals::restore_terminal();
        }
        let leaving = patience.map(signals::end_after);
        self.canvas.leave();
        drop(leaving);
        let rows = self.app.printed(self.canvas.columns(), PRINTED_ITEMS, self.started.elapsed());
        let text = terminal::printed(&rows, Style::of_stdout() == Style::Colour, has_marks(&self.to.base));
        self.canvas.print(&self.to.base.secrets.clean(&text), patience);
    }

    /// Asks the terminal for its background.
    pub(super) fn ask(&mut self) {
        self.canvas.write(self.look.question());
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Submits a message as if the user had typed it.
    pub(super) fn submit(&mut self, text: String) {
        self.work.push_back(UiWork::Line(text));
    }

    pub(super) fn insert(&mut self, text: String) {
        self.input(Input::Insert(text));
    }

    /// Reports that the submitted work has ended.
    pub(super) fn finished(&mut self) {
        self.refresh();
        self.take_back();
        self.input(Input::Finished);
    }

    /// Takes the messages back that no run has read.
    pub(super) fn take_back(&mut self) {
        let late = self.to.agent.config().inbox.steering.clear();
        let text = |message: &Message| match message {
            Message::User(message) => message.content.iter().filter_map(Content::as_text).collect::<String>(),
            _ => String::new(),
        };
        // Messages that went with another one wait for the next one, and are not text of the user.
        let steered = std::mem::take(&mut self.steered);
        let (with_it, own): (Vec<_>, Vec<_>) = late.into_iter().partition(|message| steered.contains(message));
        self.to.pending.add(with_it);
        self.input(Input::Returned(own.iter().map(text).collect()));
    }

    /// Waits for something to work on; `None` once the user quits.
    pub(super) async fn next(&mut self) -> Result<Option<UiWork>> {
        loop {
            if self.is_quitting {
                return Ok(None);
            }
            if let Some(work) = self.work.pop_front() {
                return Ok(Some(work));
            }
            self.step().await?;
        }
    }

    /// Shows events while something works. If the terminal is lost, the work is aborted.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = std::pin::pin!(work);
        // A key interrupts only work that has begun.
        let mut ended = begun(work.as_mut()).await;
        loop {
            let next = match ended.take() {
                Some(done) => AwaitedInput::End(done),
                None => keys_or_end(self.step(), &mut work).await,
            };
            let lost = match next {
                AwaitedInput::End(done) => {
                    self.drain();
                    return Ok(done);
                }
                AwaitedInput::Step(step) => step.err(),
            };
            if let Some(lost) = lost {
                self.to.agent.abort();
                self.open = None;
                self.to.asked.close();
                let _ = work.await;
                return Err(lost);
            }
        }
    }

    /// Draws if necessary, then waits for something to happen and applies it. Can be dropped while it waits.
    async fn step(&mut self) -> Result<()> {
        let is_shown = !self.editing.as_ref().is_some_and(Editing::is_running);
        if is_shown && has_left() {
            self.canvas.enter()?;
            self.is_changed = true;
        }
        if is_shown && self.is_changed && Instant::now() >= self.next_frame {
            self.draw()?;
        }
        let deadline = self.app.deadline(self.now()).map(|at| self.started + at);
        let frame = (is_shown && self.is_changed).then_some(self.next_frame);
        let wake = deadline.into_iter().chain(frame).min();
        let far = self.started + Duration::from_secs(1 << 30);
        // Keys come first, and events last: there may always be more.
        tokio::select! {
            biased;
            () = self.lost.cancelled() => self.batch(None),
            batch = self.batches.recv() => self.batch(batch),
            step = editor::next(&mut self.editing), if self.editing.is_some() => self.edit_on(step),
            // A question that arrives behind the editor waits, so that no key meant for the editor answers it.
            asked = self.to.asked.recv(), if self.editing.is_none() && self.open.is_none() => {
                match asked {
                    Some(UiQuestion::Call(question, answer)) => {
                        self.open = Some((question.id, AnswerChannel::Call(answer)));
                        self.input(Input::Question(*question));
                    }
                    Some(UiQuestion::Plugin(id, dialog, answer)) => {
                        self.open = Some((id, AnswerChannel::Plugin(answer)));
                        self.input(Input::Dialog(id, dialog));
                    }
                    None => {}
                }
                Ok(())
            }
            () = withdrawn(&mut self.open), if self.open.is_some() => {
                if let Some((id, _)) = self.open.take() {
                    self.input(Input::Withdrawn(id));
                }
                Ok(())
            }
            () = self.to.notices.arrived.notified() => {
                self.to.said.remove_segments(self.to.notices.take_ended());
                for notice in self.to.notices.take_lines() {
                    self.to.said.line(&notice);
                }
                self.refresh();
                Ok(())
            }
            () = sleep_until(wake.unwrap_or(far)), if wake.is_some() => {
                self.input(Input::Tick);
                Ok(())
            }
            () = self.to.said.arrived.notified() => {
                // A plugin can say more without an end, which must not keep events waiting.
                self.drain();
                Ok(())
            }
            event = self.to.events.recv() => {
                event.into_iter().for_each(|event| self.event(event));
                self.drain();
                Ok(())
            }
        }
    }

    /// Shows the pending output of the conversation.
    pub(super) fn show_output(&mut self) {
        let secrets = self.to.base.secrets.clone();
        let clean = |text: String| secrets.clean(&text).into_owned();
        for input in self.to.said.take_inputs() {
            self.input(match input {
                Input::Note(tone, text) => Input::Note(tone, clean(text)),
                Input::Page(text) => Input::Page(clean(text)),
                Input::SideAnswer(text) => Input::SideAnswer(clean(text)),
                // An earlier process may have stored a text that was not a secret to it.
                Input::Session(events) => {
                    Input::Session(events.into_iter().map(|event| secrets.clean_event(event)).collect())
                }
                other => other,
            });
        }
    }

    /// Applies the events that have arrived.
    fn drain(&mut self) {
        for _ in 0..BATCH {
            let Some(event) = self.to.events.try_recv() else { break };
            self.event(event);
        }
        self.show_output();
    }

    fn event(&mut self, event: pinion_agent::Event) {
        let is_turn = matches!(event.kind, EventKind::TurnEnd { .. } | EventKind::Compaction { .. });
        self.input(Input::Event(event));
        if is_turn {
            self.refresh();
        }
    }

    fn batch(&mut self, batch: Option<Batch>) -> Result<()> {
        let Some(mut batch) = batch else {
            // Work that has begun may take its time, and no user waits for it.
            self.ending.get_or_insert_with(|| signals::end_after(LOST));
            return Err(Failure::failed("the terminal is gone"));
        };
        // The answer belongs to a question before the rest of its batch.
        let has_answer = batch.background.is_some();
        if let Some(theme) = batch.background.take().and_then(|background| self.look.learn(background)) {
            self.input(Input::Theme(theme));
        }
        while let Some(event) = batch.events.pop_front() {
            match event {
                crossterm::event::Event::Resize(columns, rows) => self.canvas.resize(columns, rows),
                crossterm::event::Event::FocusLost => self.left = Some(Instant::now()),
                // The user may have changed the colours of the desktop meanwhile.
                crossterm::event::Event::FocusGained if self.was_away() && !has_answer => self.ask(),
                _ => {}
            }
            self.input(Input::Terminal(event));
            if let Some(editing) = &mut self.editing {
                editing.hold(batch);
                return Ok(());
            }
        }
        // Keys are shown at once.
        self.next_frame = Instant::now();
        Ok(())
    }

    /// Returns whether the user who comes back was away. Zellij reports both at each new size, and shows nothing while it waits
    /// for the answer of the terminal around it.
    fn was_away(&mut self) -> bool {
        self.left.take().is_none_or(|left| left.elapsed() >= AWAY)
    }

    fn draw(&mut self) -> Result<()> {
        let now = self.now();
        let drawn = self.canvas.draw(&mut self.app, now);
        self.app.unlit().into_iter().for_each(|job| self.light.run(job));
        self.is_changed = false;
        self.next_frame = Instant::now() + FRAME;
        drawn
    }

    /// Applies an input and carries out the UI's requests.
    pub(super) fn input(&mut self, input: Input) {
        self.is_changed = true;
        let now = self.now();
        for request in self.app.handle(input, now) {
            self.perform(request);
        }
    }

    /// Lends the terminal to the editor, or takes it back and handles the keys that were pressed before it started.
    fn edit_on(&mut self, step: editor::EditorStep) -> Result<()> {
        match step {
            editor::EditorStep::Starts => {
                self.canvas.leave();
                self.editing.iter_mut().for_each(Editing::start);
                Ok(())
            }
            editor::EditorStep::Ended(edited, rest) => {
                self.editing = None;
                self.reenter();
                self.input(Input::Edited(edited));
                rest.map_or(Ok(()), |rest| self.batch(Some(rest)))
            }
        }
    }

    /// Takes the terminal again. Reports a failure.
    pub(super) fn reenter(&mut self) {
        self.is_changed = true;
        if let Err(failure) = self.canvas.enter() {
            self.to.said.push_input(Input::Note(Tone::Error, failure.message()));
        }
    }

    /// Returns the ID of the session.
    pub(super) fn session(&self) -> String {
        self.to.agent.config().policy.options.session_id.unwrap_or_default()
    }

    /// Updates the status line and the commands.
    pub(super) fn refresh(&mut self) {
        let (estimate, totals) = (self.to.agent.context_estimate(), self.to.agent.totals());
        let config = self.to.agent.config();
        let (approval, compaction) = (config.ports.approval.mode().name(), &config.policy.compaction);
        self.input(Input::Facts(Facts {
            model: self.to.info.model(),
            approval: approval.to_owned(),
            thinking: modes::thinking_level(&self.to.agent).map(str::to_owned),
            context: estimate.tokens,
            window: estimate.window,
            assumed_window: compaction.assumed_window.filter(|_| compaction.automatic),
            compacts_at: compaction.threshold_of(estimate.window).filter(|_| compaction.automatic),
            tokens: totals.spend.usage.total(),
            cost: totals.spend.cost.map(|cost| cost.total()),
            network: self.to.base.network.summary(),
            branch: lists::branch(&self.to.base),
            directory: shown_directory(&self.to.base.workspace),
            input: totals.spend.usage.context(),
            cached: totals.spend.usage.cache_read,
            session: short_id(&self.session()).to_owned(),
        }));
        self.input(Input::Commands(lists::commands(&self.to.runtime, &self.to.info, self.to.actions)));
    }
}
