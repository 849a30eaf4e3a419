//! The state of the UI: inputs in, requests out.
//!
//! Nothing here reads a clock, a file or a terminal: the time comes with each input, and every action is a [`UiRequest`].
//! Tests therefore feed inputs and compare screens.

mod agents;
mod commands;
mod completion;
mod keys;
mod lists;
mod mouse;
mod plan;
mod questions;
mod queue;
mod settings_list;
mod vi_keys;
mod views;

pub(crate) use self::completion::Popup;

use self::agents::AgentsView;
use self::plan::Planning;
use self::queue::InputQueue;

use crate::commands::SlashCommand;
use crate::composer::Composer;
use crate::dialog::approval::Approval;
use crate::dialog::plugin::PluginDialog;
use crate::dialog::screen_view::{OpenViews, ViewLayer};
use crate::highlight::HighlightJob;
use crate::input::{Facts, Input, UiRequest};
use crate::keys::KeyMap;
use crate::links::Links;
use crate::shorten::short;
use crate::status::{StatusSegment, WorkStatus, time};
use crate::theme::Theme;
use crate::transcript::{FRAME, Tone, Transcript, TranscriptItem};
use crate::vi::Vi;
use crossterm::event::{Event as TerminalEvent, KeyEventKind};
use pinion_protocol::text::count;
use pinion_protocol::{Event, EventKind};
use std::sync::Arc;
use std::time::Duration;

/// Time that a hint stays.
const HINT: Duration = Duration::from_secs(4);
/// Maximum time before a draft is kept.
const DRAFT: Duration = Duration::from_secs(1);
/// Work that took at least this long is worth a line, and by default a notification.
const LONG_WORK: Duration = Duration::from_secs(10);

/// The remark about a side question, until its answer.
const ASKING: &str = "asking beside the conversation; the answer follows";

/// Settings of the UI.
#[derive(Debug, Clone)]
pub struct UiSettings {
    /// Styles by role.
    pub theme: Theme,
    /// Actions of keys.
    pub keys: KeyMap,
    /// Shows resources that calls used.
    pub has_ledgers: bool,
    /// Shows the grants of plugins next to the resources that their calls used.
    pub has_grants: bool,
    /// Shows the model's reasoning completely.
    pub has_thinking: bool,
    /// Shows results and sub-agents completely.
    pub is_unfolded: bool,
    /// Notifies the user when a question waits, and when work ends that took at least this long; `None` for never.
    pub notify_after: Option<Duration>,
    /// Parts of the status line.
    pub status: Vec<StatusSegment>,
    /// The editor has the keys of vi.
    pub has_vi_keys: bool,
    /// Draws no moving marks.
    pub has_reduced_motion: bool,
    /// The terminal reports the mouse.
    pub has_mouse: bool,
    /// The conversation is in the terminal's scrollback (see [`App::draw_inline`]).
    pub is_inline: bool,
}

impl Default for UiSettings {
    fn default() -> Self {
        let (theme, keys) = (Theme::plain(), KeyMap::default());
        Self {
            theme,
            keys,
            has_ledgers: false,
            has_grants: true,
            has_thinking: false,
            is_unfolded: false,
            notify_after: Some(LONG_WORK),
            status: StatusSegment::DEFAULT.to_vec(),
            has_vi_keys: false,
            has_reduced_motion: false,
            has_mouse: false,
            is_inline: false,
        }
    }
}

/// The full-screen UI.
#[derive(Debug)]
pub struct App {
    pub(crate) settings: UiSettings,
    pub(crate) transcript: Transcript,
    pub(crate) composer: Composer,
    pub(crate) status: WorkStatus,
    /// Questions, lists and pages on the screen.
    pub(crate) views: OpenViews<App>,
    pub(crate) popup: Option<Popup>,
    /// Messages and commands that wait for the end of the work in progress, and messages that the agent has not read yet.
    pub(crate) queue: InputQueue,
    /// A remark below the editor, and the time when it disappears.
    pub(crate) hint: Option<(String, Duration)>,
    /// Rows of the transcript on the screen.
    pub(crate) height: usize,
    /// Targets of the links on the screen.
    pub(crate) links: Links,
    pub(crate) planning: Planning,
    /// The approval modes besides the usual ones that were in effect, so that a key may come back to them.
    chosen_modes: Vec<String>,
    mode_cycle: plan::ModeCycle,
    pub(crate) agents: AgentsView,
    pub(crate) vi: Vi,
    pub(crate) vi_view: ViView,
    /// In the inline form, true while the screen shows the whole conversation.
    pub(crate) is_viewing: bool,
    commands: Vec<SlashCommand>,
    files: Arc<Vec<String>>,
    /// There are more files than these.
    is_cut: bool,
    completion: completion::CompletionSearch,
    /// The versions of the message and the queue that were kept last, and the time to keep the present ones.
    draft: ((u64, u64), Option<Duration>),
    /// The mode that plan mode replaced in the middle of a run, until that has ended.
    mode_before: Option<String>,
    /// Side questions without an answer.
    asides: usize,
    /// The first of two keys that quit was pressed at this time.
    quitting: Option<Duration>,
    /// The user knows how the terminal's own selection works.
    knows_selection: bool,
    /// True while the terminal says that the user looks at it.
    is_focused: bool,
    /// The session whose preview was requested last.
    previewed: Option<String>,
    requests: Vec<UiRequest>,
}

/// State of vi keys outside of the message.
#[derive(Debug, Default)]
pub(crate) struct ViView {
    /// The last search, and its direction.
    last_search: Option<(String, bool)>,
    /// The message, while the editor has the command line.
    message: Option<Box<Composer>>,
}

impl App {
    /// Creates the UI of an empty conversation.
    pub fn new(settings: UiSettings) -> Self {
        let mut transcript = Transcript::new(settings.theme.clone());
        transcript.set_look(|look| {
            (look.has_ledgers, look.has_grants) = (settings.has_ledgers, settings.has_grants);
            (look.has_thinking, look.is_unfolded) = (settings.has_thinking, settings.is_unfolded);
        });
        Self {
            transcript,
            settings,
            composer: Composer::default(),
            status: WorkStatus::default(),
            views: OpenViews::default(),
            popup: None,
            queue: InputQueue::default(),
            hint: None,
            height: 1,
            links: Links::default(),
            planning: Planning::default(),
            chosen_modes: Vec::new(),
            mode_cycle: plan::ModeCycle::default(),
            agents: AgentsView::default(),
            vi: Vi::default(),
            vi_view: ViView::default(),
            is_viewing: false,
            commands: Vec::new(),
            files: Arc::default(),
            is_cut: false,
            completion: completion::CompletionSearch::default(),
            draft: ((0, 0), None),
            mode_before: None,
            asides: 0,
            quitting: None,
            knows_selection: false,
            is_focused: false,
            previewed: None,
            requests: Vec::new(),
        }
    }

    /// Applies an input and returns the actions to take. `now` is the time since any fixed moment and never decreases.
    pub fn handle(&mut self, input: Input, now: Duration) -> Vec<UiRequest> {
        if matches!(
            input,
            Input::Insert(_) | Input::Offer(_) | Input::Returned(_) | Input::Edited(_) | Input::History(_)
        ) {
            self.close_command_line();
        }
        let shown = self.put_agent_back(&input);
        match input {
            Input::Terminal(event) => self.terminal(&event, now),
            Input::Event(event) => self.event(&event, now),
            Input::OwnCall(call) => self.transcript.own_call(&call),
            Input::OwnEvent(kind) => {
                self.transcript.own_event(&kind, now);
                self.status.event(&kind, now);
            }
            Input::Session(events) => {
                self.transcript.clear();
                self.status.cached_at = None;
                self.transcript.history(&events);
                self.agents = AgentsView::default();
                self.views.close(ViewLayer::Page);
                self.agents.tree.replace(&events);
                if self.settings.is_inline {
                    self.transcript.settle_history();
                }
            }
            Input::Note(tone, text) => self.transcript.note(tone, text),
            Input::Page(text) => self.show_page(text, now),
            Input::SideAnswer(text) => {
                self.asides = self.asides.saturating_sub(1);
                self.hint.take_if(|(hint, _)| hint == ASKING);
                self.show_page(text, now);
            }
            Input::Facts(facts) => self.take_facts(facts),
            Input::Question(question) => self.show_question(Approval::new(question)),
            Input::Dialog(id, dialog) => self.show_question(PluginDialog::new(id, dialog)),
            Input::Segment { plugin, text } => self.status.set_segment(plugin, text),
            Input::Withdrawn(id) => self.views.withdraw(id),
            Input::Paste(text) => self.paste(&text, now),
            Input::Insert(text) => self.composer.set(&text),
            Input::Offer(text) => self.offer_message(&text, now),
            Input::Returned(messages) => self.returned(messages),
            Input::Finished => self.finished(now),
            Input::Commands(commands) => self.commands = commands,
            Input::Completions(id, choices) => self.completions(id, choices),
            Input::Files { paths, is_cut } => {
                (self.files, self.is_cut) = (paths, is_cut);
                self.files_arrived();
            }
            Input::Preview { id, text } => self.preview(id, text),
            Input::Choices(pick, choices) => self.offer(pick, choices, now),
            Input::Relisted(pick, choices) => self.relist(pick, choices, now),
            Input::Remark(text) => self.notice(text, now),
            Input::Plan { file, text } => self.plan(file, text, now),
            Input::OpenedPlan { file, text } => self.opened_plan(file, text),
            Input::PlanUnsaved(reason) => self.plan_unsaved(reason, now),
            Input::Edited(edited) if self.plan_edited(&edited, now) => {}
            Input::Edited(Ok(text)) => self.composer.set(text.trim_end_matches('\n')),
            Input::Edited(Err(problem)) => {
                self.transcript.note(Tone::Error, problem);
                self.transcript.follow();
            }
            Input::History(messages) => self.composer.set_history(messages),
            Input::Highlighted(block) => self.transcript.highlighted(block),
            Input::Theme(theme) => {
                self.transcript.set_look(|look| look.theme = theme.clone());
                self.settings.theme = theme;
            }
            Input::Tick => self.tick(now),
        }
        self.show_agent_again(shown);
        self.search_completions();
        self.watch_draft(now);
        self.watch_preview();
        std::mem::take(&mut self.requests)
    }

    /// Returns the time when [`Input::Tick`] is due; `None` while nothing changes by itself.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        let frame = match (self.status.is_busy(), self.settings.has_reduced_motion) {
            (true, false) => Some(now + FRAME),
            (true, true) => Some(now + Duration::from_secs(1)),
            (false, _) => None,
        };
        let hint = self.hint.as_ref().map(|(_, until)| *until);
        let has_age = self.settings.status.contains(&StatusSegment::CacheAge);
        let cache = self.status.cache_deadline(now).filter(|_| has_age);
        [frame, hint, self.views.deadline(), cache, self.draft.1].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Duration) {
        self.hint.take_if(|(_, until)| now >= *until);
        self.tick_views(now);
        if self.draft.1.take_if(|at| now >= *at).is_some() {
            self.save_draft();
        }
    }

    /// Arranges that a changed message or queue is kept soon.
    fn watch_draft(&mut self, now: Duration) {
        let version = (self.composer.version(), self.queue.version());
        if self.draft.0 != version {
            self.draft = (version, self.draft.1.or(Some(now + DRAFT)));
        }
    }

    fn save_draft(&mut self) {
        let sent = self.queue.sent().iter().map(String::as_str);
        let queue = sent.chain(self.queue.texts()).map(str::to_owned).collect();
        self.requests.push(UiRequest::SaveDraft { text: self.message_composer().message(), queue });
    }

    fn event(&mut self, event: &Event, now: Duration) {
        if matches!(event.kind, EventKind::AgentStart { .. }) && !self.status.is_busy() {
            self.status.begin(now);
        }
        self.agents.tree.event(event, Some(now));
        if self.transcript.event(event, now) {
            self.status.event(&event.kind, now);
            self.queue.event(&event.kind);
        }
    }

    fn finished(&mut self, now: Duration) {
        self.take_over_sent();
        let began = self.status.end();
        self.account(began.map(|began| now.saturating_sub(began)));
        self.views.close_questions();
        self.quitting = None;
        self.planning.is_writing = false;
        self.release_mode();
        if !self.submit_next(now) {
            self.notify_end(began.map(|began| now.saturating_sub(began)));
        }
    }

    fn notify_end(&mut self, took: Option<Duration>) {
        if let Some(took) = took.filter(|took| self.settings.notify_after.is_some_and(|after| *took >= after)) {
            self.notify(&format!("finished after {}", time(took)));
        }
    }

    fn notify(&mut self, text: &str) {
        if self.settings.notify_after.is_some() && !self.is_focused {
            self.requests.push(UiRequest::Notify(text.to_owned()));
        }
    }

    pub(crate) fn hint(&mut self, text: impl Into<String>, now: Duration) {
        self.hint = Some((text.into(), now + HINT));
    }

    fn terminal(&mut self, event: &TerminalEvent, now: Duration) {
        match event {
            TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => self.key(*key, now),
            TerminalEvent::Paste(text) => self.paste(text, now),
            TerminalEvent::Mouse(mouse) => self.mouse(*mouse, now),
            TerminalEvent::FocusGained => self.is_focused = true,
            TerminalEvent::FocusLost => self.is_focused = false,
            _ => {}
        }
    }

    fn paste(&mut self, text: &str, now: Duration) {
        if self.give_views(now, |view| view.take_paste(text, now)) {
            return;
        }
        match picture(text) {
            _ if self.vi_view.has_command_line() => self.composer.line_paste(text),
            Some(path) => {
                let before = self.composer.text()[..self.composer.cursor()].chars().next_back();
                // Only a name at the beginning of a word attaches its picture.
                let blank = if before.is_none_or(char::is_whitespace) { "" } else { " " };
                self.composer.insert(&format!("{blank}{path}"));
            }
            None if self.composer.paste(text) => self.hint_at_block(text.len(), now),
            None => {}
        }
    }

    /// Adds a page. One that is higher than the screen is shown from its beginning, if the end of the conversation was.
    fn show_page(&mut self, text: String, now: Duration) {
        self.transcript.push(TranscriptItem::Page(text));
        if !self.settings.is_inline {
            self.transcript.begin_last(self.height, now);
        }
    }

    /// Reports the turns, tokens and time of work that has ended, if it was long.
    fn account(&mut self, took: Option<Duration>) {
        let account = self.status.account.take();
        if let (Some(took), Some((turns, tokens))) = (took.filter(|took| *took >= LONG_WORK), account) {
            let turns = count(u64::from(turns), "turn");
            self.transcript.note(Tone::Plain, format!("{turns} · {} tokens · {}", short(tokens), time(took)));
        }
    }

    /// Returns code that frames lack the parts of, for a [`Highlighter`](crate::Highlighter). To be asked after each
    /// frame and each [`Input::Highlighted`]; there is one job at a time.
    pub fn unlit(&self) -> Option<HighlightJob> {
        self.transcript.unlit()
    }

    /// Returns whether [`App::draw`] has to show the whole conversation on a separate screen, although the form is
    /// inline.
    pub fn is_viewing(&self) -> bool {
        self.is_viewing || (self.settings.is_inline && self.shows_agents())
    }

    /// Returns the state that the status line shows.
    pub fn facts(&self) -> &Facts {
        &self.status.facts
    }

    /// Returns the number of items of the transcript.
    pub fn items(&self) -> usize {
        self.transcript.len()
    }

    /// Adds a warning to the transcript.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.transcript.note(Tone::Warning, text);
    }
}

/// Returns the word that names a file in a message.
fn attached(path: &str) -> String {
    match path.contains(char::is_whitespace) && !path.contains('"') {
        true => format!("@\"{path}\" "),
        false => format!("@{path} "),
    }
}

/// Returns the name that a message uses to attach a picture, if a pasted text is the path of one, as terminals paste
/// files that are dropped on them.
fn picture(text: &str) -> Option<String> {
    let path = text.trim();
    let path = path.strip_prefix("file://").unwrap_or(path);
    let quoted = ['\'', '"'].iter().find_map(|quote| path.strip_prefix(*quote)?.strip_suffix(*quote));
    let path = quoted.map_or_else(|| path.replace("\\ ", " "), str::to_owned);
    let is_path = path.starts_with(['/', '~', '.']) && !path.contains(['\n', '"']);
    let is_picture =
        [".png", ".jpg", ".jpeg", ".gif", ".webp"].iter().any(|end| path.to_ascii_lowercase().ends_with(end));
    (is_path && is_picture).then(|| attached(&path))
}
