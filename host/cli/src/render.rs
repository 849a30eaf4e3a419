//! Events as lines for a person: what is said as it comes, a line for each tool call, a line for what came of it.
//!
//! Everything that a model, a tool or a plugin says passes [`printable`]: it may hold control sequences.

use crate::loops::Loops;
use crate::terminal::Style;
use pinion_agent::{Authority, Content, Delta, Event, EventKind, Ledger, Limit, RunEnd, StepStatus, StopReason};
use pinion_session_store::printable;
use serde_json::Value;
use std::io::{self, Write};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What the user must know.
    Notices,
    /// What the model says, and one line for each call and result.
    Conversation,
    /// The same, with what each call used.
    Ledgers,
}

/// Lines of a result that are shown.
const RESULT_LINES: usize = 6;
/// Characters of a line of a call or result.
const LINE_CHARACTERS: usize = 160;

/// Writes events to a terminal or a log.
pub(crate) struct Renderer<W> {
    out: W,
    style: Style,
    detail: Detail,
    /// The cursor is behind text that the model wrote.
    is_in_line: bool,
    step: ShownStep,
    loops: Loops,
}

/// A step of a plan that is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownStep {
    None,
    /// The cursor is behind its name.
    InLine,
    /// Something else was told since.
    Above,
}

impl<W: Write> Renderer<W> {
    pub(crate) fn new(out: W, style: Style, detail: Detail) -> Self {
        Self { out, style, detail, is_in_line: false, step: ShownStep::None, loops: Loops::default() }
    }

    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        if !self.loops.is_main(event) {
            return self.aside(event);
        }
        self.main(event)?;
        self.loops.is_end(event);
        Ok(())
    }

    /// The end of a run, which is told in another way.
    pub(crate) fn pass(&mut self, end: &Event) {
        self.loops.is_end(end);
    }

    /// Of the loop that is waited for.
    fn main(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::MessageUpdate { delta, .. } if self.detail > Detail::Notices => self.delta(delta),
            EventKind::MessageEnd { .. } => self.end_line(),
            EventKind::ToolExecutionStart { tool, arguments, .. } if self.detail > Detail::Notices => {
                let line = format!("{} {}", self.style.bold(printable(tool)), summary(arguments));
                self.line(&format!("{} {line}", self.style.cyan("●")))
            }
            EventKind::ToolExecutionEnd { is_error, content, ledger, .. } if self.detail > Detail::Notices => {
                self.result(*is_error, content, ledger.as_ref())
            }
            EventKind::Retry { attempt, max_attempts, delay_ms, cause } => {
                let seconds = *delay_ms as f64 / 1000.0;
                let cause = printable(cause);
                self.notice(&format!("{cause}; attempt {attempt} of {max_attempts} in {seconds:.1} s"))
            }
            EventKind::Compaction { dropped, before, after, .. } => {
                let what = match dropped {
                    0 => "long results of old tool calls were cut".to_owned(),
                    n => format!("{n} messages were replaced by a summary"),
                };
                self.notice(&format!("{what}: about {before} tokens before, {after} now; the session keeps all"))
            }
            EventKind::PlanStep { step, steps, title, status } => self.step((*step, *steps), title, *status),
            EventKind::ParallelStart { loop_ids, .. } if self.detail > Detail::Notices => {
                self.line(&self.style.dim(format!("{} branches work on it", loop_ids.len())))
            }
            EventKind::ParallelEnd { chosen, note, .. } => self.chosen(chosen.as_deref(), note.as_deref()),
            EventKind::AgentEnd { end, .. } => self.end(end),
            _ => Ok(()),
        }
    }

    /// Of a loop that works for it: what it does, and not what it says, which it will report.
    fn aside(&mut self, event: &Event) -> io::Result<()> {
        let number = self.loops.number(event);
        let text = match &event.kind {
            _ if self.detail == Detail::Notices => return Ok(()),
            EventKind::AgentStart { agent_id, provider, model, .. } => {
                format!("{} ({}/{})", printable(agent_id), printable(provider), printable(model))
            }
            EventKind::ToolExecutionStart { tool, arguments, .. } => {
                format!("{} {} {}", self.style.cyan("●"), self.style.bold(printable(tool)), summary(arguments))
            }
            EventKind::ToolExecutionEnd { is_error: true, content, .. } => {
                let text: String = content.iter().map(part).collect();
                let line = clip(&printable(text.lines().next().unwrap_or_default()), LINE_CHARACTERS);
                format!("{} {}", self.style.red("✗"), self.style.dim(line))
            }
            EventKind::Retry { cause, .. } => self.style.yellow(format!("! {}", printable(cause))),
            EventKind::AgentEnd { end, turns, usage, .. } => {
                let how = if matches!(end, RunEnd::Done { .. }) { "done" } else { "stopped" };
                self.style.dim(format!("{how}: {turns} turns, {} tokens", short(usage.total())))
            }
            _ => return Ok(()),
        };
        let bar = self.style.dim(format!("  {number}│"));
        self.line(&format!("{bar} {text}"))
    }

    /// The answer of the branch that is gone on with.
    fn chosen(&mut self, chosen: Option<&str>, note: Option<&str>) -> io::Result<()> {
        if let Some(note) = note {
            self.notice(&printable(note))?;
        }
        let answer = chosen.and_then(|id| self.loops.last_words(id)).map(|text| printable(text).into_owned());
        match answer.filter(|_| self.detail > Detail::Notices) {
            Some(answer) => self.line(&answer),
            None => Ok(()),
        }
    }

    /// A line that the user must know.
    pub(crate) fn notice(&mut self, text: &str) -> io::Result<()> {
        let text = self.style.yellow(format!("! {text}"));
        self.line(&text)
    }

    /// Any line.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.leave_step()?;
        self.end_line()?;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_in_line) {
            writeln!(self.out)?;
        }
        Ok(())
    }

    /// A step on one line, that ends when the step does, unless something else is told in between.
    fn step(&mut self, (step, steps): (usize, usize), title: &str, status: StepStatus) -> io::Result<()> {
        let name = format!("step {step} of {steps}: {} … ", clip(&printable(title), LINE_CHARACTERS));
        let word = match status {
            StepStatus::Done => self.style.green(status),
            StepStatus::Failed => self.style.red(status),
            StepStatus::Open | StepStatus::Running => self.style.yellow("interrupted"),
        };
        self.end_line()?;
        match std::mem::replace(&mut self.step, ShownStep::None) {
            ShownStep::None if status == StepStatus::Running => {
                self.step = ShownStep::InLine;
                write!(self.out, "{name}")?;
            }
            ShownStep::InLine => writeln!(self.out, "{word}")?,
            ShownStep::None | ShownStep::Above => writeln!(self.out, "{name}{word}")?,
        }
        self.out.flush()
    }

    /// Leaves the line of a step for something else.
    fn leave_step(&mut self) -> io::Result<()> {
        if self.step == ShownStep::InLine {
            self.step = ShownStep::Above;
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        let text = match delta {
            Delta::Text { delta } => printable(delta).into_owned(),
            Delta::Thinking { delta } => self.style.dim(printable(delta)),
            Delta::ToolCallStart { .. } | Delta::ToolCallArguments { .. } => return Ok(()),
        };
        self.leave_step()?;
        self.is_in_line = !text.ends_with('\n');
        write!(self.out, "{text}")?;
        self.out.flush()
    }

    fn result(&mut self, is_error: bool, content: &[Content], ledger: Option<&Ledger>) -> io::Result<()> {
        let mark = if is_error { self.style.red("✗") } else { self.style.green("✓") };
        let text: String = content.iter().map(part).collect::<Vec<_>>().join("\n");
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().take(RESULT_LINES).enumerate() {
            let mark = if at == 0 { format!("  {mark} ") } else { "    ".to_owned() };
            let line = self.style.dim(clip(&printable(line), LINE_CHARACTERS));
            self.line(&format!("{mark}{line}"))?;
        }
        if lines.is_empty() {
            self.line(&format!("  {mark}"))?;
        }
        if lines.len() > RESULT_LINES {
            let more = self.style.dim(format!("    … {} more lines", lines.len() - RESULT_LINES));
            self.line(&more)?;
        }
        match ledger.filter(|_| self.detail == Detail::Ledgers) {
            Some(ledger) => self.line(&self.style.dim(format!("    {}", account(ledger)))),
            None => Ok(()),
        }
    }

    fn end(&mut self, end: &RunEnd) -> io::Result<()> {
        match end {
            RunEnd::Done { stop_reason: StopReason::Length } => {
                self.notice("the last message was cut off: the model reached its output limit")
            }
            RunEnd::Done { .. } => self.end_line(),
            RunEnd::Limit { limit } => self.notice(&limit_text(limit)),
            RunEnd::Error { message } => {
                let text = self.style.red(format!("error: {}", printable(message)));
                self.line(&text)
            }
            RunEnd::Aborted => self.notice("interrupted"),
            RunEnd::Rejected { reason } => self.notice(&format!("refused: {}", printable(reason))),
        }
    }
}

impl PartialOrd for Detail {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (*self as u8).partial_cmp(&(*other as u8))
    }
}

/// What a limit is called, and how to raise it.
pub(crate) fn limit_text(limit: &Limit) -> String {
    limit.to_string()
}

fn part(content: &Content) -> String {
    match content {
        Content::Text { text } => text.clone(),
        Content::Image(image) => format!("[{}, {} bytes]", image.media_type, image.data.len()),
        Content::Thinking(_) | Content::ToolCall(_) => String::new(),
    }
}

/// The arguments of a call on one line: the values alone, where there are few.
pub(crate) fn summary(arguments: &Value) -> String {
    let text = match arguments {
        Value::Object(fields) if fields.len() <= 3 => {
            let values = fields.values().map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            values.collect::<Vec<_>>().join("  ")
        }
        other => other.to_string(),
    };
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ⏎ ");
    clip(&printable(&line), LINE_CHARACTERS)
}

fn clip(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A ledger on one line.
pub(crate) fn account(ledger: &Ledger) -> String {
    let mut parts = vec![
        format!("{} #{}", ledger.plugin, ledger.generation),
        format!("{:.2} ms", ledger.time_us as f64 / 1000.0),
        format!("{} fuel", short(ledger.fuel)),
        format!("{} memory", bytes(ledger.memory)),
        count(ledger.host_calls, "host call"),
    ];
    let counts = [
        (ledger.files, count(ledger.files, "file")),
        (ledger.bytes_read, format!("{} read", bytes(ledger.bytes_read))),
        (ledger.bytes_written, format!("{} written", bytes(ledger.bytes_written))),
        (ledger.processes, count(ledger.processes, "program")),
        (ledger.agents, count(ledger.agents, "sub-agent")),
        (ledger.output, format!("{} out", bytes(ledger.output))),
    ];
    parts.extend(counts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text));
    parts.join(" · ")
}

fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1} k", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.1} G", n as f64 / 1e9),
    }
}

pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// What a call can do, in words.
pub(crate) fn authority(authority: Authority) -> String {
    authority.words().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered(detail: Detail, events: Vec<EventKind>) -> String {
        let mut out = Vec::new();
        let mut renderer = Renderer::new(&mut out, Style::Plain, detail);
        for kind in events {
            renderer.event(&Event { loop_id: "l".into(), kind }).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    fn text(delta: &str) -> EventKind {
        EventKind::MessageUpdate { index: 0, delta: Delta::Text { delta: delta.into() } }
    }

    fn call(arguments: Value) -> EventKind {
        EventKind::ToolExecutionStart { call_id: "c".into(), tool: "read".into(), arguments }
    }

    #[test]
    fn text_comes_as_it_is_said_and_calls_on_lines_of_their_own() {
        let shown = rendered(Detail::Conversation, vec![text("I "), text("look."), call(json!({ "path": "a.rs" }))]);
        assert_eq!(shown, "I look.\n● read a.rs\n");
    }

    #[test]
    fn control_sequences_of_a_model_do_not_reach_the_terminal() {
        let shown =
            rendered(Detail::Conversation, vec![text("\x1b[2J\x07hi"), call(json!({ "path": "\x1b]0;x\x07" }))]);
        assert!(!shown.contains('\x1b') && !shown.contains('\x07'), "{shown:?}");
    }

    fn step(status: StepStatus) -> EventKind {
        EventKind::PlanStep { step: 2, steps: 5, title: "Mend\x07 it".into(), status }
    }

    #[test]
    fn a_step_of_a_plan_is_one_line_unless_something_else_is_told_in_between() {
        use StepStatus::{Done, Failed, Running};
        let shown = |events| rendered(Detail::Conversation, events);
        assert_eq!(shown(vec![step(Running), step(Done)]), "step 2 of 5: Mend␇ it … done\n");
        assert_eq!(shown(vec![step(Running), step(Running)]), "step 2 of 5: Mend␇ it … interrupted\n");
        assert_eq!(
            shown(vec![step(Running), text("Hm."), step(Failed), step(Running), step(Done)]),
            "step 2 of 5: Mend␇ it … \nHm.\nstep 2 of 5: Mend␇ it … failed\nstep 2 of 5: Mend␇ it … done\n"
        );
        assert_eq!(
            shown(vec![step(Running), call(json!({})), step(Running)]),
            "step 2 of 5: Mend␇ it … \n● read \nstep 2 of 5: Mend␇ it … interrupted\n"
        );
    }

    #[test]
    fn what_others_do_for_the_loop_is_numbered_and_what_they_say_is_left_to_the_chosen_one() {
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
        say("a", call(json!({ "path": "one" })));
        say("b", call(json!({ "path": "two" })));
        say("b", text("not shown as it comes"));
        say("a", said("answer of a"));
        say("b", said("answer of b"));
        let (chosen, note) = (Some("b".into()), Some("the judge was silent".to_owned()));
        say("g", EventKind::ParallelEnd { group_id: "g".into(), chosen, note, usage: Default::default() });
        say("next", text("main again"));
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(
            shown,
            "2 branches work on it\n  1│ ● read one\n  2│ ● read two\n! the judge was silent\nanswer of b\nmain again"
        );
    }

    #[test]
    fn only_what_the_user_must_know_is_shown_when_that_is_wanted() {
        let retry = EventKind::Retry { attempt: 1, max_attempts: 3, delay_ms: 1500, cause: "busy".into() };
        let shown = rendered(Detail::Notices, vec![text("hi"), call(json!({})), retry]);
        assert_eq!(shown, "! busy; attempt 1 of 3 in 1.5 s\n");
    }

    #[test]
    fn long_results_and_arguments_are_clipped() {
        let content = vec![Content::text((0..100).map(|n| format!("{n}\n")).collect::<String>())];
        let ended = EventKind::ToolExecutionEnd {
            call_id: "c".into(),
            tool: "read".into(),
            is_error: false,
            content,
            details: None,
            display: Default::default(),
            ledger: None,
            child_loop_id: None,
        };
        let shown = rendered(Detail::Conversation, vec![call(json!({ "text": "y".repeat(10_000) })), ended]);
        assert!(shown.len() < 600 && shown.contains("… 94 more lines"), "{shown}");
    }
}
