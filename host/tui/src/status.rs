//! The state of the work in progress, and the status line.

use crate::input::Facts;
use crate::rows::{Row, StyledPiece, width};
use crate::shorten::short;
use crate::theme::Theme;
use pinion_protocol::arguments::{of_beginning, telling};
use pinion_protocol::step::StepStatus;
use pinion_protocol::text::{count, one_line};
use pinion_protocol::tool::ANSWER_TOOL;
use pinion_protocol::{AssistantMessage, ContentDelta, EventKind, Message};
use ratatui_core::style::Style;
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes of text for one token, as a rule of thumb.
const BYTES_PER_TOKEN: u64 = 4;
/// Shares of the context window that turn the gauge yellow and red, in percent.
const YELLOW: u64 = 60;
const RED: u64 = 85;
/// Time before vendors may forget a prompt that they keep by default.
const CACHE_TIME: Duration = Duration::from_secs(5 * 60);
/// Least time of a message whose speed is shown.
const LONG_MESSAGE: Duration = Duration::from_millis(500);
/// Bytes of the arguments that are searched for the purpose of a call while they arrive.
const MAX_BEGINNING: usize = 1024;
/// Characters of it that are shown.
const MAX_SUBJECT: usize = 40;
/// Segments of plugins in the status line, and the columns of each.
const MAX_SEGMENTS: usize = 8;
const SEGMENT_COLUMNS: usize = 40;
/// Between two parts of the status line, and columns of a part.
const BETWEEN: &str = " · ";
const MAX_PART: usize = 60;
/// Cells of the bar of the context.
const BAR_CELLS: u64 = 10;

/// The current activity of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum AgentActivity {
    #[default]
    Waiting,
    Thinking,
    Writing,
    /// Writes a call of a tool.
    Calling {
        tool: String,
        beginning: String,
    },
    Running(Vec<(String, String)>),
    /// Retries at this time.
    Retrying(Duration),
}

/// The state of the work in progress.
#[derive(Debug, Default)]
pub(crate) struct WorkStatus {
    pub(crate) facts: Facts,
    /// Time when the work began; `None` without any work.
    since: Option<Duration>,
    activity: AgentActivity,
    /// The step of a plan that is executed, counted from 1, and the number of steps.
    step: Option<(usize, usize)>,
    /// Number of the turn of the run; 0 before the first one.
    turn: u32,
    /// Output tokens that the vendor reported in this run, and bytes of output since.
    reported: u64,
    bytes: u64,
    /// Time when the model began to write its message.
    writing_since: Option<Duration>,
    /// Output tokens a second of the model's last message.
    speed: Option<u64>,
    /// Time of the last request that used the vendor's cache of prompts.
    pub(crate) cached_at: Option<Duration>,
    /// Turns and tokens of the runs of this work that ended.
    pub(crate) account: Option<(u32, u64)>,
    /// Segments of plugins, by name.
    of_plugins: BTreeMap<String, String>,
}

impl WorkStatus {
    pub(crate) fn begin(&mut self, now: Duration) {
        let Self { facts, speed, cached_at, of_plugins, .. } = std::mem::take(self);
        *self = Self { facts, speed, cached_at, of_plugins, since: Some(now), ..Self::default() };
    }

    /// Names the slash command that has begun, until a turn of the agent or a tool does.
    pub(crate) fn command(&mut self, name: &str) {
        self.activity = AgentActivity::Running(vec![(String::new(), format!("/{name}"))]);
    }

    /// Sets or removes the segment of a plugin.
    pub(crate) fn set_segment(&mut self, plugin: String, text: Option<String>) {
        match text {
            Some(text) if self.of_plugins.len() < MAX_SEGMENTS || self.of_plugins.contains_key(&plugin) => {
                self.of_plugins.insert(plugin, text);
            }
            Some(_) => {}
            None => drop(self.of_plugins.remove(&plugin)),
        }
    }

    pub(crate) fn end(&mut self) -> Option<Duration> {
        self.step = None;
        self.since.take()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.since.is_some()
    }

    /// Returns whether a plan is executed.
    pub(crate) fn is_executing(&self) -> bool {
        self.step.is_some()
    }

    /// Returns whether calls are running.
    pub(crate) fn has_calls(&self) -> bool {
        matches!(&self.activity, AgentActivity::Running(tools) if tools.iter().any(|(id, _)| !id.is_empty()))
    }

    /// Names the work that an interruption ends.
    pub(crate) fn in_progress(&self) -> String {
        match &self.activity {
            AgentActivity::Running(tools) => match &tools[..] {
                [] => "the request".to_owned(),
                [(_, tool)] => one_line(tool, MAX_SUBJECT),
                tools => format!("{} calls", tools.len()),
            },
            AgentActivity::Waiting | AgentActivity::Retrying(_) => "the request".to_owned(),
            AgentActivity::Thinking | AgentActivity::Writing | AgentActivity::Calling { .. } => "the reply".to_owned(),
        }
    }

    /// Applies an event of the foreground run.
    pub(crate) fn event(&mut self, event: &EventKind, now: Duration) {
        match event {
            EventKind::TurnStart { turn, .. } => {
                (self.activity, self.writing_since, self.turn) = (AgentActivity::Waiting, None, *turn);
            }
            EventKind::MessageUpdate { delta, .. } => {
                self.writing_since.get_or_insert(now);
                match delta {
                    ContentDelta::Text { .. } => self.activity = AgentActivity::Writing,
                    ContentDelta::Thinking { .. } => self.activity = AgentActivity::Thinking,
                    ContentDelta::ToolCallStart { tool, .. } => {
                        self.activity = AgentActivity::Calling { tool: tool.clone(), beginning: String::new() };
                    }
                    ContentDelta::ToolCallArguments { delta } => {
                        if let AgentActivity::Calling { beginning, .. } = &mut self.activity {
                            let room = MAX_BEGINNING.saturating_sub(beginning.len());
                            beginning.push_str(&delta[..delta.floor_char_boundary(room)]);
                        }
                    }
                }
                self.bytes += match delta {
                    ContentDelta::Text { delta }
                    | ContentDelta::Thinking { delta }
                    | ContentDelta::ToolCallArguments { delta } => delta.len() as u64,
                    ContentDelta::ToolCallStart { .. } => 0,
                };
            }
            EventKind::MessageEnd { message } => {
                if let Message::Assistant(reply) = &**message {
                    self.speed = self.speed_of(reply, now).or(self.speed);
                    if reply.usage.cache_read + reply.usage.cache_write > 0 {
                        self.cached_at = Some(now);
                    }
                }
            }
            EventKind::ToolExecutionStart { call_id, tool, .. } => match &mut self.activity {
                AgentActivity::Running(tools) => tools.push((call_id.clone(), tool.clone())),
                _ => self.activity = AgentActivity::Running(vec![(call_id.clone(), tool.clone())]),
            },
            EventKind::ToolExecutionEnd { call_id, .. } => {
                if let AgentActivity::Running(tools) = &mut self.activity {
                    tools.retain(|(id, _)| id != call_id);
                }
            }
            EventKind::Retry { delay_ms, .. } => {
                self.activity = AgentActivity::Retrying(now + Duration::from_millis(*delay_ms));
            }
            EventKind::PlanStep { step, steps, status: StepStatus::Running, .. } => {
                self.step = Some((*step, *steps));
            }
            EventKind::AgentEnd { usage, turns, .. } => {
                let (before, tokens) = self.account.unwrap_or_default();
                self.account = Some((before.saturating_add(*turns), tokens + usage.total()));
            }
            EventKind::TurnEnd { usage, .. } => (self.reported, self.bytes) = (usage.output, 0),
            _ => {}
        }
    }

    /// Returns the output tokens a second of a message that took long enough to tell.
    fn speed_of(&mut self, reply: &AssistantMessage, now: Duration) -> Option<u64> {
        let took = now.checked_sub(self.writing_since.take()?).filter(|took| *took >= LONG_MESSAGE)?;
        let tokens = if reply.usage.output > 0 { reply.usage.output } else { self.bytes / BYTES_PER_TOKEN };
        Some((tokens as f64 / took.as_secs_f64()).round() as u64)
    }

    /// Returns the row with the current activity, and the key that interrupts it.
    pub(crate) fn working(
        &self,
        columns: usize,
        is_asking: bool,
        interrupts: &str,
        theme: &Theme,
        now: Duration,
    ) -> Option<Row> {
        let since = self.since?;
        let what = match &self.activity {
            _ if is_asking => "waiting for your answer".to_owned(),
            AgentActivity::Waiting => "waiting for the model".to_owned(),
            AgentActivity::Thinking => "thinking".to_owned(),
            AgentActivity::Writing => "writing".to_owned(),
            AgentActivity::Calling { tool, .. } if tool == ANSWER_TOOL => "writing the answer".to_owned(),
            AgentActivity::Calling { tool, beginning } => match of_beginning(beginning).as_ref().and_then(telling) {
                Some(what) => format!("preparing {tool} {}", one_line(what, MAX_SUBJECT)),
                None => format!("preparing {tool}"),
            },
            AgentActivity::Running(tools) if tools.is_empty() => "waiting for the model".to_owned(),
            AgentActivity::Running(tools) => {
                format!("running {}", tools.iter().map(|(_, tool)| tool.as_str()).collect::<Vec<_>>().join(", "))
            }
            AgentActivity::Retrying(at) => match at.saturating_sub(now).as_millis().div_ceil(1000) {
                0 => "retrying".to_owned(),
                seconds => format!("retrying in {seconds} s"),
            },
        };
        let tokens = self.reported + self.bytes / BYTES_PER_TOKEN;
        let parts = [
            (3, self.step.map(|(step, steps)| format!("step {step} of {steps}"))),
            (0, Some(what)),
            (2, Some(time(now.saturating_sub(since)))),
            (5, (self.turn > 0).then(|| format!("turn {}", self.turn))),
            (4, (tokens > 0).then(|| format!("↓ {} tokens", short(tokens)))),
            (1, Some(interrupts.to_owned()).filter(|keys| !is_asking && !keys.is_empty())),
        ];
        let parts = parts.into_iter().filter_map(|(rank, text)| Some((rank, text?, theme.dim))).collect();
        let text = fitting(parts, columns.saturating_sub(2), theme);
        let mark = [StyledPiece::new(crate::transcript::spinner(now), theme.accent), StyledPiece::new(" ", theme.dim)];
        Some(Row::from_pieces(mark.into_iter().chain(text.pieces().iter().cloned())))
    }

    /// Returns the status line.
    pub(crate) fn line(&self, segments: &[StatusSegment], now: Now<'_>, columns: usize, theme: &Theme) -> Row {
        let own = segments.iter().filter_map(|segment| {
            let (text, style) = self.segment(*segment, now, theme)?;
            Some((segment.rank(), text, style))
        });
        let of_plugins = self.of_plugins.iter().map(|(plugin, text)| {
            let text = StyledPiece::line(text, SEGMENT_COLUMNS, theme.dim);
            (StatusSegment::ALL.len(), format!("{plugin}: {}", text.text()), theme.dim)
        });
        let vi = now.vi.map(|vi| (0, vi.to_owned(), theme.user));
        let executing = self.step.map(|(step, steps)| (0, format!("executing {step}/{steps}"), theme.good));
        fitting(
            vi.into_iter()
                .chain(executing)
                .chain(own)
                .chain(of_plugins)
                .filter(|(_, text, _)| !text.is_empty())
                .collect(),
            columns,
            theme,
        )
    }

    /// Returns how long ago the vendor's cache of prompts was used, and whether it has probably forgotten them.
    fn cache_age(&self, now: Duration) -> Option<(String, bool)> {
        let age = now.saturating_sub(self.cached_at?);
        let text = match age.as_secs() / 60 {
            0 => "cached just now".to_owned(),
            minutes @ 1..60 => format!("cached {minutes} min ago"),
            _ => "cached over 1 h ago".to_owned(),
        };
        Some((text, age >= CACHE_TIME))
    }

    /// Returns the time of the next change in the displayed age of the vendor's cache.
    pub(crate) fn cache_deadline(&self, now: Duration) -> Option<Duration> {
        let since = self.cached_at?;
        let minutes = now.saturating_sub(since).as_secs() / 60;
        (minutes < 60).then(|| since + Duration::from_secs((minutes + 1) * 60))
    }

    fn segment(&self, segment: StatusSegment, now: Now<'_>, theme: &Theme) -> Option<(String, Style)> {
        let Now { agents, planning, time, .. } = now;
        let facts = &self.facts;
        let text = match segment {
            StatusSegment::Model => return Some((facts.model.clone(), theme.text)),
            StatusSegment::Approval => match planning {
                Some(label) => return Some((label.to_owned(), theme.accent)),
                None => facts.approval.clone(),
            },
            StatusSegment::Thinking => format!("thinking {}", facts.thinking.as_ref()?),
            StatusSegment::Context => return self.gauge(theme),
            StatusSegment::ContextBar => return self.context_bar(theme),
            StatusSegment::Tokens if facts.tokens > 0 => format!("{} tokens", short(facts.tokens)),
            StatusSegment::Tokens => return None,
            StatusSegment::Cache => {
                let share = facts.cached.saturating_mul(100).checked_div(facts.input).filter(|_| facts.cached > 0)?;
                format!("{share} % cached")
            }
            StatusSegment::CacheAge => {
                let (text, is_old) = self.cache_age(time)?;
                return Some((text, if is_old { theme.warning } else { theme.dim }));
            }
            StatusSegment::Cost => format!("${:.2}", facts.cost.filter(|cost| *cost > 0.0)?),
            StatusSegment::Speed => format!("{} tokens/s", short(self.speed?)),
            StatusSegment::Agents if agents > 0 => count(agents as u64, "sub-agent"),
            StatusSegment::Agents => return None,
            StatusSegment::Network => return Some((facts.network.clone()?, theme.warning)),
            StatusSegment::Branch => facts.branch.clone()?,
            StatusSegment::Directory => facts.directory.clone(),
            StatusSegment::Session => facts.session.clone(),
        };
        Some((text, theme.dim))
    }

    /// Returns how full the context is, in the numbers that decide on compaction.
    fn gauge(&self, theme: &Theme) -> Option<(String, Style)> {
        let facts = &self.facts;
        let (Some(window), is_assumed) = (facts.window.or(facts.assumed_window), facts.window.is_none()) else {
            return (facts.context > 0).then(|| (format!("{} in context", short(facts.context)), theme.dim));
        };
        let share = facts.context.saturating_mul(100) / window.max(1);
        let mark = if is_assumed { "?" } else { "" };
        Some((format!("{share} % of {}{mark}", short(window)), gauge_style(share, theme)))
    }

    /// Draws how full the context is, with a mark where the conversation is summarized by itself.
    fn context_bar(&self, theme: &Theme) -> Option<(String, Style)> {
        let facts = &self.facts;
        let window = facts.window.or(facts.assumed_window)?.max(1);
        let cells = |tokens: u64| tokens.saturating_mul(BAR_CELLS).div_ceil(window).min(BAR_CELLS);
        let (filled, mark) = (cells(facts.context), facts.compacts_at.map(cells));
        let cell = |at: u64| match at {
            _ if at < filled => '█',
            _ if mark == Some(at + 1) => '┆',
            _ => '░',
        };
        let share = facts.context.saturating_mul(100) / window;
        Some(((0..BAR_CELLS).map(cell).collect(), gauge_style(share, theme)))
    }
}

/// Returns the style of a context that is filled to this percentage.
fn gauge_style(share: u64, theme: &Theme) -> Style {
    match share {
        ..YELLOW => theme.good,
        YELLOW..=RED => theme.warning,
        _ => theme.error,
    }
}

/// State of the conversation that only the UI knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now<'a> {
    /// Number of sub-agents at work.
    pub(crate) agents: usize,
    /// The label of plan mode, or of a plan that is written.
    pub(crate) planning: Option<&'static str>,
    /// The mode of vi keys, unless they type text.
    pub(crate) vi: Option<&'a str>,
    pub(crate) time: Duration,
}

/// A part of the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusSegment {
    /// The model.
    Model,
    /// The approval mode.
    Approval,
    /// The thinking level, unless it is off.
    Thinking,
    /// The share of the context window that is filled.
    Context,
    /// The same share as a bar, with a mark where the conversation is summarized by itself.
    ContextBar,
    /// The tokens of the session so far.
    Tokens,
    /// The share of input that the vendor's cache supplied.
    Cache,
    /// The time since the vendor's cache was used.
    CacheAge,
    /// The cost of the session so far.
    Cost,
    /// The output tokens a second of the last message.
    Speed,
    /// The number of sub-agents at work.
    Agents,
    /// The reach of programs, if they have a network.
    Network,
    /// The branch of the git repository.
    Branch,
    /// The directory of the conversation.
    Directory,
    /// The session's ID.
    Session,
}

impl StatusSegment {
    /// The parts of a status line that is not configured.
    pub const DEFAULT: &[Self] = &[
        Self::Model,
        Self::Approval,
        Self::Thinking,
        Self::Context,
        Self::ContextBar,
        Self::Tokens,
        Self::Cache,
        Self::Cost,
        Self::Agents,
        Self::Network,
        Self::Branch,
        Self::Directory,
        Self::Speed,
    ];

    /// Returns the place of the part among those that remain on a narrow screen.
    fn rank(self) -> usize {
        use StatusSegment::*;
        let important = [
            Model, Approval, Context, Network, Agents, Thinking, Cost, Tokens, Branch, Cache, CacheAge, Directory,
            Speed, ContextBar, Session,
        ];
        important.iter().position(|segment| *segment == self).unwrap_or(important.len())
    }

    /// All parts with their names in the config.
    pub const ALL: &[(&str, Self)] = &[
        ("model", Self::Model),
        ("approval", Self::Approval),
        ("thinking", Self::Thinking),
        ("context", Self::Context),
        ("context-bar", Self::ContextBar),
        ("tokens", Self::Tokens),
        ("cache", Self::Cache),
        ("cache-age", Self::CacheAge),
        ("cost", Self::Cost),
        ("speed", Self::Speed),
        ("agents", Self::Agents),
        ("network", Self::Network),
        ("branch", Self::Branch),
        ("directory", Self::Directory),
        ("session", Self::Session),
    ];
}

/// Joins the parts that fit, in their order. Parts of a low rank remain.
fn fitting(parts: Vec<(usize, String, Style)>, columns: usize, theme: &Theme) -> Row {
    let mut by_rank: Vec<usize> = (0..parts.len()).collect();
    by_rank.sort_by_key(|at| parts[*at].0);
    let mut left = columns;
    let mut shown = vec![None; parts.len()];
    for (place, at) in by_rank.into_iter().enumerate() {
        let (_, text, style) = &parts[at];
        let between = if place == 0 { 0 } else { BETWEEN.chars().count() };
        let piece = StyledPiece::line(text, if place == 0 { left } else { MAX_PART }, *style);
        if let Some(rest) = left.checked_sub(between + width(piece.text())) {
            (left, shown[at]) = (rest, Some(piece));
        }
    }
    let mut row = Row::default();
    for piece in shown.into_iter().flatten() {
        if !row.pieces().is_empty() {
            row.push(StyledPiece::new(BETWEEN, theme.dim));
        }
        row.push(piece);
    }
    row
}

/// Formats a duration: `12 s`, `3 min 20 s`.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
