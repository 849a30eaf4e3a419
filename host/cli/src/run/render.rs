//! Events as lines for people: the model's text as it arrives, and a line for each call and result.
//!
//! Text of models, tools and plugins is untrusted. Its rows are indented by two blanks; only rows of the host begin in
//! the first column, with a mark such as `●`, `!` or `?`. Nothing untrusted can therefore be mistaken for a question or
//! a notice, even if it is longer than a row ([`Flow`]).

use crate::output::terminal::Style;
use crate::output::{Flow, PartExt as _, Sink, Stdout, Text, count, fit, indented, short, size, text};
use crate::run::end::limit_text;
use crate::run::loops::Loops;
use crate::run::rows::{account, call, call_label, excerpt, has_failed, part, room};
use pinion_agent::{
    Content, Delta, Display, Event, EventKind, EventReceiver, Ledger, Message, RunEnd, StepStatus, StopReason, ToolCall,
};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// The amount of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Only what the user must know.
    Notices,
    /// One line for the model and for each call, and the first line of each failure.
    Progress,
    /// The model's text, and one line for each call and result.
    Conversation,
    /// The conversation with the resource usage of each call.
    Ledgers,
}

/// Writes events to a terminal or a log.
pub(crate) struct Renderer<W> {
    out: W,
    style: Style,
    detail: Detail,
    flow: Flow,
    step: ShownStep,
    loops: Loops,
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
pub(crate) async fn show(mut events: EventReceiver, mut renderer: Renderer<Stdout>) -> io::Result<()> {
    let mut loops = Loops::default();
    while let Some(event) = events.recv().await {
        renderer.event(&event)?;
        if loops.is_end(&event) {
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
    pub(crate) fn new(out: W, style: Style, detail: Detail) -> Self {
        let flow = Flow::new("  ", size().map(|(columns, _)| columns));
        let (loops, calls, waiting) = (Loops::default(), OpenCalls::default(), HashMap::new());
        let step = ShownStep::None;
        Self { out, style, detail, flow, step, loops, waiting, has_turn_headings: false, is_thinking: false, calls }
    }

    /// Adds a heading to each turn.
    pub(crate) fn with_turn_headings(self) -> Self {
        Self { has_turn_headings: true, ..self }
    }

    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        if let Some([started, ended]) = self.not_run(event) {
            self.event(&started)?;
            return self.event(&ended);
        }
        if !self.loops.is_main(event) {
            return self.aside(event);
        }
        self.main(event)?;
        self.loops.is_end(event);
        Ok(())
    }

    /// Returns a start and an end to display for a call that did not run, of which only the result is reported.
    fn not_run(&mut self, event: &Event) -> Option<[Event; 2]> {
        let key = |call_id: &String| (event.loop_id.clone(), call_id.clone());
        match &event.kind {
            EventKind::ToolExecutionStart { call_id, .. } => drop(self.waiting.remove(&key(call_id))),
            EventKind::MessageEnd { message } => match &**message {
                Message::Assistant(reply) => {
                    self.waiting.extend(reply.tool_calls().map(|call| (key(&call.id), call.clone())));
                }
                Message::ToolResult(result) => {
                    let ToolCall { id, name, arguments, .. } = self.waiting.remove(&key(&result.call_id))?;
                    let event = |kind| Event { loop_id: event.loop_id.clone(), kind };
                    let started = EventKind::ToolExecutionStart { call_id: id.clone(), tool: name.clone(), arguments };
                    let ended = EventKind::ToolExecutionEnd {
                        call_id: id,
                        tool: name,
                        is_error: result.is_error,
                        content: result.content.clone(),
                        details: None,
                        display: Display::Plain,
                        ledger: None,
                        child_loop_id: None,
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
        self.loops.is_end(end);
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
                self.end_line()
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
            EventKind::Retry { attempt, max_attempts, delay_ms, cause } => {
                self.notice(&retry_text(*attempt, *max_attempts, *delay_ms, &cause.text()))
            }
            EventKind::Compaction { dropped, before, after, .. } => {
                let what = match dropped {
                    0 => text!("shortened long results of old tool calls"),
                    n => text!("replaced {} messages with a summary", n),
                };
                self.notice(&text!(
                    "{}: about {} tokens before, {} now (the session keeps everything)",
                    what,
                    before,
                    after
                ))
            }
            EventKind::PlanStep { step, steps, title, status } => self.step((*step, *steps), title, *status),
            EventKind::ParallelStart { loop_ids, .. } if self.detail >= Detail::Progress => {
                self.line(&self.style.dim(text!("running {} branches", loop_ids.len())))
            }
            EventKind::ParallelEnd { chosen, note, .. } => self.chosen(chosen.as_deref(), note.as_deref()),
            EventKind::AgentEnd { end, .. } => self.end(end),
            _ => Ok(()),
        }
    }

    /// Renders an event of a background run: its actions, but not its text, which it will report.
    fn aside(&mut self, event: &Event) -> io::Result<()> {
        let number = self.loops.number(event);
        let text = match &event.kind {
            // A run that waits for minutes says so, whoever waits.
            EventKind::Retry { attempt, max_attempts, delay_ms, cause } => {
                let text = retry_text(*attempt, *max_attempts, *delay_ms, &fit(cause, room(30)));
                self.style.yellow(text!("! {}", text))
            }
            _ if self.detail == Detail::Notices => return Ok(()),
            EventKind::AgentStart { agent_id, provider, model, .. } => {
                fit(&format!("{agent_id} ({provider}/{model})"), room(8))
            }
            EventKind::ToolExecutionStart { tool, arguments, .. } => call(tool, arguments, self.style, room(8)),
            EventKind::ToolExecutionEnd { is_error: true, content, .. } => {
                let text: String = content.iter().map(part).collect();
                let line = fit(text.lines().next().unwrap_or_default(), room(8));
                text!("{} {}", self.style.red("✗"), self.style.dim(line))
            }
            EventKind::AgentEnd { end, turns, usage, .. } => {
                let how = if matches!(end, RunEnd::Done { .. }) { "done" } else { "stopped" };
                let turns = count(u64::from(*turns), "turn");
                self.style.dim(text!("{}: {}, {} tokens", how, turns, short(usage.total())))
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
        let answer = chosen.and_then(|id| self.loops.last_words(id)).map(indented);
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
    fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        let (is_thinking, delta) = match delta {
            Delta::Text { delta } => (false, delta),
            Delta::Thinking { delta } => (true, delta),
            Delta::ToolCallStart { .. } | Delta::ToolCallArguments { .. } => return Ok(()),
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
        let text = self.flow.push(delta);
        self.leave_step()?;
        self.out.text(&if is_thinking { self.style.dim(text) } else { text })
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
        let mark = if is_error { self.style.red("✗") } else { self.style.green("✓") };
        let text: String = content.iter().map(part).collect::<Vec<_>>().join("\n");
        let (mut rows, mut left) = excerpt(&text, self.style);
        if self.detail == Detail::Progress {
            (rows, left) = (rows.into_iter().take(1).collect(), 0);
        }
        for (at, row) in label.into_iter().chain(rows).enumerate() {
            let mark = if at == 0 { text!("  {} ", mark) } else { text!("    ") };
            self.line(&text!("{}{}", mark, row))?;
        }
        if left > 0 {
            self.line(&self.style.dim(text!("    … {}", count(left as u64, "more line"))))?;
        }
        match ledger.filter(|_| self.detail == Detail::Ledgers) {
            Some(ledger) => self.line(&self.style.dim(text!("    {}", account(ledger)))),
            None => Ok(()),
        }
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
            RunEnd::Error { message } => {
                let text = self.style.red(text!("error: {}", Text::block(message)));
                self.line(&text)
            }
            RunEnd::Aborted => self.notice(&text!("interrupted")),
            RunEnd::Rejected { reason } => self.notice(&text!("refused: {}", reason)),
        }
    }
}

fn retry_text(attempt: u32, max_attempts: u32, delay_ms: u64, cause: &Text) -> Text {
    let seconds = format!("{:.1}", delay_ms as f64 / 1000.0);
    text!("{} (attempt {} of {} in {} s)", cause, attempt, max_attempts, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn rendered(detail: Detail, events: Vec<EventKind>) -> String {
        let mut out = Vec::new();
        let mut renderer = Renderer::new(&mut out, Style::Plain, detail);
        for kind in events {
            renderer.event(&Event { loop_id: "l".into(), kind }).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    fn said_now(delta: &str) -> EventKind {
        EventKind::MessageUpdate { index: 0, delta: Delta::Text { delta: delta.into() } }
    }

    fn called(arguments: Value) -> EventKind {
        EventKind::ToolExecutionStart { call_id: "c".into(), tool: "read".into(), arguments }
    }

    #[test]
    fn text_streams_and_each_call_has_its_own_line() {
        let shown =
            rendered(Detail::Conversation, vec![said_now("I "), said_now("look."), called(json!({ "path": "a.rs" }))]);
        assert_eq!(shown, "  I look.\n● read a.rs\n");
    }

    #[test]
    fn control_sequences_of_a_model_do_not_reach_the_terminal() {
        let shown =
            rendered(Detail::Conversation, vec![said_now("\x1b[2J\x07hi"), called(json!({ "path": "\x1b]0;x\x07" }))]);
        assert!(!shown.contains('\x1b') && !shown.contains('\x07'), "{shown:?}");
    }

    fn step(status: StepStatus) -> EventKind {
        EventKind::PlanStep { step: 2, steps: 5, title: "Fix\x07 it".into(), status }
    }

    #[test]
    fn plan_step_is_one_line_unless_other_rows_come_in_between() {
        use StepStatus::{Done, Failed, Running};
        let shown = |events| rendered(Detail::Conversation, events);
        assert_eq!(shown(vec![step(Running), step(Done)]), "step 2 of 5: Fix␇ it … done\n");
        assert_eq!(shown(vec![step(Running), step(Running)]), "step 2 of 5: Fix␇ it … interrupted\n");
        assert_eq!(
            shown(vec![step(Running), said_now("Hm."), step(Failed), step(Running), step(Done)]),
            "step 2 of 5: Fix␇ it … \n  Hm.\nstep 2 of 5: Fix␇ it … failed\nstep 2 of 5: Fix␇ it … done\n"
        );
        assert_eq!(
            shown(vec![step(Running), called(json!({})), step(Running)]),
            "step 2 of 5: Fix␇ it … \n● read \nstep 2 of 5: Fix␇ it … interrupted\n"
        );
    }

    #[test]
    fn background_calls_are_numbered_and_only_the_chosen_text_is_shown() {
        let mut out = Vec::new();
        let mut renderer = Renderer::new(&mut out, Style::Plain, Detail::Conversation);
        let mut say = |loop_id: &str, kind| renderer.event(&Event { loop_id: loop_id.into(), kind }).unwrap();
        let said = |text: &str| {
            let message = serde_json::json!({
                "role": "assistant", "content": [{ "type": "text", "text": text }], "stop_reason": "stop",
                "provider": "p", "model": "m", "usage": { "input": 0, "output": 0 }, "timestamp": "2026-01-02T03:04:05Z"
            });
            EventKind::MessageEnd { message: serde_json::from_value(message).unwrap() }
        };
        say("g", EventKind::ParallelStart { group_id: "g".into(), loop_ids: vec!["a".into(), "b".into()] });
        say("a", called(json!({ "path": "one" })));
        say("b", called(json!({ "path": "two" })));
        say("b", said_now("not shown as it comes"));
        say("a", said("answer of a"));
        say("b", said("answer of b"));
        let (chosen, note) = (Some("b".into()), Some("the judge was silent".to_owned()));
        say("g", EventKind::ParallelEnd { group_id: "g".into(), chosen, note, usage: Default::default() });
        say("next", said_now("main again\n"));
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(
            shown,
            "running 2 branches\n  1│ ● read one\n  2│ ● read two\n! the judge was silent\n  answer of b\n  main again\n"
        );
    }

    #[test]
    fn notices_alone_hide_text_and_calls() {
        let retry = EventKind::Retry { attempt: 1, max_attempts: 3, delay_ms: 1500, cause: "busy".into() };
        let shown = rendered(Detail::Notices, vec![said_now("hi"), called(json!({})), retry]);
        assert_eq!(shown, "! busy (attempt 1 of 3 in 1.5 s)\n");
    }

    fn ended(call_id: &str, text: &str, details: Option<Value>) -> EventKind {
        EventKind::ToolExecutionEnd {
            call_id: call_id.into(),
            tool: "read".into(),
            is_error: false,
            content: vec![Content::text(text)],
            details,
            display: Default::default(),
            ledger: None,
            child_loop_id: None,
        }
    }

    fn began(call_id: &str, path: &str) -> EventKind {
        let arguments = json!({ "path": path });
        EventKind::ToolExecutionStart { call_id: call_id.into(), tool: "read".into(), arguments }
    }

    #[test]
    fn results_of_parallel_calls_are_labelled() {
        let events = vec![began("1", "a"), began("2", "b"), ended("1", "A", None), ended("2", "B", None)];
        let shown = rendered(Detail::Conversation, events);
        assert_eq!(shown, "● read a\n● read b\n  ✓ read a\n    A\n  ✓ read b\n    B\n");
        let alone = rendered(Detail::Conversation, vec![began("1", "a"), ended("1", "A", None)]);
        assert_eq!(alone, "● read a\n  ✓ A\n");
    }

    #[test]
    fn failed_program_is_not_shown_as_a_success() {
        let failed = ended("1", "[exit code 3]", Some(json!({ "success": false })));
        let shown = rendered(Detail::Conversation, vec![began("1", "a"), failed]);
        assert_eq!(shown, "● read a\n  ✗ [exit code 3]\n");
    }

    #[test]
    fn progress_shows_calls_and_failures_only() {
        let failed = ended("2", "why\nmore", Some(json!({ "success": false })));
        let events = vec![said_now("hi"), began("1", "a"), ended("1", "A", None), began("2", "b"), failed];
        assert_eq!(rendered(Detail::Progress, events), "● read a\n● read b\n  ✗ why\n");
    }

    #[test]
    fn thinking_is_separated_from_the_answer() {
        let thought =
            |delta: &str| EventKind::MessageUpdate { index: 0, delta: Delta::Thinking { delta: delta.into() } };
        let shown = rendered(Detail::Conversation, vec![thought("Hm"), thought("m."), said_now("42\n")]);
        assert_eq!(shown, "thinking:\n  Hmm.\n\n  42\n");
    }

    #[test]
    fn long_results_and_arguments_are_clipped() {
        let ended = ended("c", &(0..100).map(|n| format!("{n}\n")).collect::<String>(), None);
        let shown = rendered(Detail::Conversation, vec![called(json!({ "text": "y".repeat(10_000) })), ended]);
        assert!(shown.len() < 600 && shown.contains("… 94 more lines"), "{shown}");
    }
}
