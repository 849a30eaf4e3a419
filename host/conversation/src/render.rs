//! Events as lines for people: the model's text as it arrives, and a line for each call and result.
//!
//! Text of models, tools and plugins is untrusted. Its rows are indented by two blanks; only rows of the host begin in
//! the first column, with a mark such as `●`, `!` or `?`. Nothing untrusted can therefore be mistaken for a question or
//! a notice, even if it is longer than a row ([`Flow`]).

use crate::call_rows::{account, call, call_label, describe_content, excerpt, failed_line, failure, has_failed, room};
use crate::run_end::limit_text;
use crate::runs::Runs;
use pinion_agent::channel::EventReceiver;
use pinion_agent::content::ToolCall;
use pinion_agent::drawing::DrawingBlock;
use pinion_agent::event::ContentDelta;
use pinion_agent::message::StopReason;
use pinion_agent::step::StepStatus;
use pinion_agent::tool::{Display, Ledger};
use pinion_agent::{Content, Event, EventKind, Message, RunEnd};
use pinion_console::approve::notice;
use pinion_console::output::terminal::{Style, mark};
use pinion_console::output::{Flow, PartExt as _, Prose, Sink, Stdout, Text, count, fit, page, short, size, text};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// The amount of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Only notices that the user must know.
    Notices,
    /// One line for the model, for each call, and for each failure.
    Progress,
    /// The model's text, and one line for each call and result.
    Conversation,
    /// The conversation with the resource usage of each call.
    Ledgers,
}

/// Writes events to a terminal or a log.
pub struct Renderer<W> {
    out: W,
    style: Style,
    detail: Detail,
    /// Reasoning of the model.
    flow: Flow,
    /// Its answer.
    prose: Prose,
    step: ShownStep,
    runs: Runs,
    /// Calls that have neither started nor got a result, by run and id.
    waiting: HashMap<(Arc<str>, String), ToolCall>,
    has_turn_headings: bool,
    is_thinking: bool,
    calls: OpenCalls,
}

/// The calls of the foreground run that have not ended.
#[derive(Debug, Default)]
struct OpenCalls {
    calls: Vec<(String, Text)>,
    /// The call in the last row, below which its result needs no label.
    last: Option<String>,
}

impl OpenCalls {
    fn begin(&mut self, call_id: &str, label: Text) {
        self.calls.push((call_id.to_owned(), label));
        self.last = Some(call_id.to_owned());
    }

    /// Ends a call and returns its label if its result does not follow its own row.
    fn end(&mut self, call_id: &str) -> Option<Text> {
        let at = self.calls.iter().position(|(id, _)| id == call_id)?;
        let (_, label) = self.calls.remove(at);
        let follows = self.last.take().is_some_and(|id| id == call_id);
        (!follows).then_some(label)
    }
}

/// Renders the events of one run until it ends.
///
/// # Errors
/// The sink cannot be written.
pub async fn show(mut events: EventReceiver, mut renderer: Renderer<Stdout>) -> io::Result<()> {
    let mut runs = Runs::default();
    while let Some(event) = events.recv().await {
        renderer.event(&event)?;
        if runs.is_end(&event) {
            break;
        }
    }
    Ok(())
}

/// The row of the current plan step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownStep {
    None,
    /// The cursor is behind the title.
    InLine,
    /// Other rows follow it.
    Above,
}

impl<W: Sink> Renderer<W> {
    /// Renders events to a sink, with this amount of detail.
    pub fn new(out: W, style: Style, detail: Detail) -> Self {
        let flow = Flow::new("  ", size().map(|(columns, _)| columns));
        let (runs, calls, waiting) = (Runs::default(), OpenCalls::default(), HashMap::new());
        let step = ShownStep::None;
        let prose = Prose::new(style);
        Self {
            out,
            style,
            detail,
            flow,
            prose,
            step,
            runs,
            waiting,
            has_turn_headings: false,
            is_thinking: false,
            calls,
        }
    }

    /// Adds a heading to each turn.
    pub fn with_turn_headings(self) -> Self {
        Self { has_turn_headings: true, ..self }
    }

    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        if let Some([started, ended]) = self.not_run(event) {
            self.event(&started)?;
            return self.event(&ended);
        }
        if !self.runs.is_main(event) {
            return self.aside(event);
        }
        self.main(event)?;
        self.runs.is_end(event);
        Ok(())
    }

    /// Returns a start and an end to display for a call that did not run, because only its result is reported.
    fn not_run(&mut self, event: &Event) -> Option<[Event; 2]> {
        let key = |call_id: &String| (event.run_id.clone(), call_id.clone());
        match &event.kind {
            EventKind::ToolExecutionStart { call_id, .. } => drop(self.waiting.remove(&key(call_id))),
            EventKind::MessageEnd { message } => match &**message {
                Message::Assistant(reply) => {
                    self.waiting.extend(reply.tool_calls().map(|call| (key(&call.id), call.clone())));
                }
                Message::ToolResult(result) => {
                    let ToolCall { id, name, arguments, .. } = self.waiting.remove(&key(&result.call_id))?;
                    let event = |kind| Event { run_id: event.run_id.clone(), kind };
                    let started = EventKind::ToolExecutionStart { call_id: id.clone(), tool: name.clone(), arguments };
                    let ended = EventKind::ToolExecutionEnd {
                        call_id: id,
                        tool: name,
                        is_error: result.is_error,
                        content: result.content.clone(),
                        details: None,
                        display: Display::Plain,
                        ledger: None,
                        child_run_id: None,
                    };
                    return Some([event(started), event(ended)]);
                }
                Message::User(_) | Message::Extension(_) => {}
            },
            _ => {}
        }
        None
    }

    /// Takes note of the end of a run that is reported elsewhere.
    pub(crate) fn pass(&mut self, end: &Event) {
        self.runs.is_end(end);
    }

    /// Renders an event of the foreground run.
    fn main(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::TurnStart { turn, .. } if self.has_turn_headings => {
                self.line(&self.style.dim(text!("── turn {}", turn)))
            }
            EventKind::AgentStart { provider, model, .. } if self.detail == Detail::Progress => {
                self.line(&self.style.dim(text!("{}/{} is working", provider, model)))
            }
            EventKind::MessageUpdate { delta, .. } if self.detail >= Detail::Conversation => self.delta(delta),
            EventKind::MessageEnd { .. } => {
                self.is_thinking = false;
                self.end_line()?;
                self.out.text(&self.prose.end())
            }
            EventKind::ToolExecutionStart { call_id, tool, arguments } if self.detail >= Detail::Progress => {
                let line = call(tool, arguments, self.style, room(2));
                self.line(&line)?;
                self.calls.begin(call_id, call_label(tool, arguments, self.style, room(6)));
                Ok(())
            }
            EventKind::ToolExecutionEnd { call_id, is_error, content, details, ledger, .. }
                if self.detail >= Detail::Progress =>
            {
                let label = self.calls.end(call_id);
                self.result(*is_error || has_failed(details.as_ref()), content, ledger.as_ref(), label)
            }
            EventKind::PluginNotice { plugin, severity, text } if self.detail >= Detail::Progress => {
                self.line(&notice(self.style, plugin, *severity, text))
            }
            EventKind::Drawing { plugin, blocks, .. } if self.detail >= Detail::Conversation => {
                self.drawing(plugin, blocks)
            }
            EventKind::Retry { attempt, max_attempts, delay_ms, cause } => {
                self.notice(&retry_text(*attempt, *max_attempts, *delay_ms, &cause.text()))
            }
            EventKind::Compaction { dropped, before, after, failure, .. } => {
                if let Some(cause) = failure {
                    self.notice(&text!("the model wrote no summary: {}", Text::block(cause)))?;
                }
                let what = match (dropped, failure) {
                    (0, _) => text!("shortened long results of old tool calls"),
                    (n, None) => text!("replaced {} with a summary", count(*n as u64, "message")),
                    (n, Some(_)) => {
                        text!("replaced {} with a list of what was said and done", count(*n as u64, "message"))
                    }
                };
                self.notice(&text!(
                    "{}: about {} tokens before, {} now (only the model's view is shorter)",
                    what,
                    before,
                    after
                ))
            }
            EventKind::Hook { hook, .. } => match hook.notice() {
                Some(notice) => self.notice(&text!("{}", notice)),
                None => Ok(()),
            },
            EventKind::InputRejected { reason } => self.notice(&text!("refused: {}", Text::block(reason))),
            EventKind::PlanStep { step, steps, title, status } => self.step((*step, *steps), title, *status),
            EventKind::ParallelStart { run_ids, .. } if self.detail >= Detail::Progress => {
                self.line(&self.style.dim(text!("running {} branches", run_ids.len())))
            }
            EventKind::ParallelEnd { chosen, note, .. } => self.chosen(chosen.as_deref(), note.as_deref()),
            EventKind::AgentEnd { end, .. } => self.end(end),
            _ => Ok(()),
        }
    }

    /// Renders an event of a background run: its actions, but not its text, which it will report.
    fn aside(&mut self, event: &Event) -> io::Result<()> {
        let number = self.runs.number(event);
        let text = match &event.kind {
            // A run that waits for minutes says so, also for its sub-agents.
            EventKind::Retry { attempt, max_attempts, delay_ms, cause } => {
                let text = retry_text(*attempt, *max_attempts, *delay_ms, &fit(cause, room(30)));
                self.style.yellow(text!("! {}", text))
            }
            EventKind::Hook { hook, .. } => match hook.notice() {
                Some(notice) => self.style.yellow(text!("! {}", fit(&notice, room(8)))),
                None => return Ok(()),
            },
            EventKind::InputRejected { reason } => self.style.yellow(text!("! refused: {}", fit(reason, room(17)))),
            _ if self.detail == Detail::Notices => return Ok(()),
            EventKind::AgentStart { agent_id, provider, model, .. } => {
                fit(&format!("{agent_id} ({provider}/{model})"), room(8))
            }
            EventKind::ToolExecutionStart { tool, arguments, .. } => call(tool, arguments, self.style, room(8)),
            EventKind::ToolExecutionEnd { is_error: true, content, .. } => {
                let text: String = content.iter().map(describe_content).collect();
                let line = fit(failed_line(&text), room(8));
                text!("{} {}", self.style.red(mark("✗")), self.style.dim(line))
            }
            EventKind::AgentEnd { end, turns, usage, .. } => {
                let spent = format!("{}, {} tokens", count(u64::from(*turns), "turn"), short(usage.total()));
                match end {
                    RunEnd::Done { .. } => self.style.dim(text!("done: {}", spent)),
                    // The reason came before.
                    RunEnd::Rejected { .. } => self.style.dim(text!("stopped: {}", spent)),
                    other => {
                        let reason = fit(&other.to_string(), room(spent.len() + 12));
                        text!("{} {}", self.style.red(mark("✗")), self.style.dim(text!("{}: {}", reason, spent)))
                    }
                }
            }
            _ => return Ok(()),
        };
        let bar = self.style.dim(text!("  {}│", number));
        self.line(&text!("{} {}", bar, text))
    }

    /// Renders the answer of the chosen branch.
    fn chosen(&mut self, chosen: Option<&str>, note: Option<&str>) -> io::Result<()> {
        if let Some(note) = note {
            self.notice(&note.text())?;
        }
        let answer = chosen.and_then(|id| self.runs.last_words(id)).map(|answer| page(answer, self.style));
        match answer.filter(|_| self.detail >= Detail::Conversation) {
            Some(answer) => self.line(&answer),
            None => Ok(()),
        }
    }

    /// Writes a notice.
    pub(crate) fn notice(&mut self, text: &Text) -> io::Result<()> {
        let text = self.style.yellow(text!("! {}", text));
        self.line(&text)
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &Text) -> io::Result<()> {
        self.leave_step()?;
        self.end_line()?;
        self.calls.last = None;
        self.out.text(&text!("{}\n", text))
    }

    fn end_line(&mut self) -> io::Result<()> {
        if self.prose.is_open() {
            self.leave_step()?;
            self.out.text(&self.prose.flush())?;
        }
        match self.flow.is_in_line() {
            true => self.out.text(&self.flow.end()),
            false => Ok(()),
        }
    }

    /// Writes a plan step on one line, which its status completes unless other rows come in between.
    fn step(&mut self, (step, steps): (usize, usize), title: &str, status: StepStatus) -> io::Result<()> {
        let name = text!("step {} of {}: {} … ", step, steps, fit(title, room(34)));
        let word = match status {
            StepStatus::Done => self.style.green(status.to_string()),
            StepStatus::Failed => self.style.red(status.to_string()),
            StepStatus::Open | StepStatus::Running => self.style.yellow("interrupted"),
        };
        self.end_line()?;
        match std::mem::replace(&mut self.step, ShownStep::None) {
            ShownStep::None if status == StepStatus::Running => {
                self.step = ShownStep::InLine;
                self.out.text(&name)
            }
            ShownStep::InLine => self.out.text(&text!("{}\n", word)),
            ShownStep::None | ShownStep::Above => self.out.text(&text!("{}{}\n", name, word)),
        }
    }

    /// Ends the row of a step before other rows.
    fn leave_step(&mut self) -> io::Result<()> {
        if self.step == ShownStep::InLine {
            self.step = ShownStep::Above;
            self.out.text(&text!("\n"))?;
        }
        Ok(())
    }

    /// Writes a piece of the model's text. Thinking has a heading, and the answer after it begins on a new row.
    fn delta(&mut self, delta: &ContentDelta) -> io::Result<()> {
        let (is_thinking, delta) = match delta {
            ContentDelta::Text { delta } => (false, delta),
            ContentDelta::Thinking { delta } => (true, delta),
            ContentDelta::ToolCallStart { .. } | ContentDelta::ToolCallArguments { .. } => return Ok(()),
        };
        if delta.is_empty() {
            return Ok(());
        }
        if std::mem::replace(&mut self.is_thinking, is_thinking) != is_thinking {
            self.end_line()?;
            if is_thinking {
                self.line(&self.style.dim("thinking:"))?;
            } else {
                self.line(&text!(""))?;
            }
        }
        if is_thinking {
            let text = self.flow.push(delta);
            self.leave_step()?;
            return self.out.text(&self.style.dim(text));
        }
        let text = self.prose.push(delta);
        if !text.as_str().is_empty() {
            self.leave_step()?;
        }
        self.out.text(&text)
    }

    fn result(
        &mut self,
        is_error: bool,
        content: &[Content],
        ledger: Option<&Ledger>,
        label: Option<Text>,
    ) -> io::Result<()> {
        if self.detail == Detail::Progress && !is_error {
            return Ok(());
        }
        let mark = if is_error { self.style.red(mark("✗")) } else { self.style.green(mark("✓")) };
        let text: String = content.iter().map(describe_content).collect::<Vec<_>>().join("\n");
        let (rows, left) = match is_error {
            true if self.detail == Detail::Progress => (vec![self.style.dim(fit(failed_line(&text), room(6)))], 0),
            true => (failure(&text, self.style), 0),
            false => excerpt(&text, self.style),
        };
        for (at, row) in label.into_iter().chain(rows).enumerate() {
            let mark = if at == 0 { text!("  {} ", mark) } else { text!("    ") };
            self.line(&text!("{}{}", mark, row))?;
        }
        if left > 0 {
            self.line(&self.style.dim(text!("    … {}", count(left as u64, "more line"))))?;
        }
        match ledger.filter(|_| self.detail == Detail::Ledgers) {
            Some(ledger) => self.line(&self.style.dim(text!("    {}", fit(account(ledger).as_str(), room(4))))),
            None => Ok(()),
        }
    }

    /// Writes a drawing as plain text, behind a bar.
    fn drawing(&mut self, plugin: &str, blocks: &[DrawingBlock]) -> io::Result<()> {
        self.line(&self.style.dim(text!("    drawn by {}", fit(plugin, room(14)))))?;
        for spans in blocks.iter().flat_map(DrawingBlock::lines) {
            let line: String = spans.iter().map(|span| span.text.as_str()).collect();
            let line = text!("    {} {}", self.style.dim(mark("│")), fit(&line, room(8)));
            self.line(&line)?;
        }
        Ok(())
    }

    /// Says how a conversation continues after a limit, which applies to each message.
    pub(crate) fn after_limit(&mut self, end: &Event) -> io::Result<()> {
        match &end.kind {
            EventKind::AgentEnd { end: RunEnd::Limit { .. }, .. } => {
                self.line(&self.style.dim("  send a message to continue; the limit applies to each message"))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, end: &RunEnd) -> io::Result<()> {
        match end {
            RunEnd::Done { stop_reason: StopReason::Length } => {
                self.notice(&text!("the last message was cut off: the model reached its output limit"))
            }
            RunEnd::Done { .. } => self.end_line(),
            RunEnd::Limit { limit } => self.notice(&limit_text(limit).text()),
            RunEnd::Failed(error) => {
                let text = self.style.red(text!("error: {}", Text::block(&error.message)));
                self.line(&text)
            }
            RunEnd::Aborted => self.notice(&text!("interrupted")),
            // The reason came before.
            RunEnd::Rejected { .. } => self.end_line(),
            other => self.notice(&text!("{}", other.to_string())),
        }
    }
}

fn retry_text(attempt: u32, max_attempts: u32, delay_ms: u64, cause: &Text) -> Text {
    let seconds = format!("{:.1}", delay_ms as f64 / 1000.0);
    text!("{} (attempt {} of {} in {} s)", cause, attempt, max_attempts, seconds)
}
