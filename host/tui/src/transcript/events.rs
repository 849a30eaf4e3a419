//! Events of runs as changes of the transcript.

use crate::shorten::short;
use crate::transcript::items::{AgentCall, CallItem, CallState, Drawing, Folded, SubAgent, Thinking, Tone, text_of};
use crate::transcript::segments::{TextSegment, segments};
use crate::transcript::{Transcript, TranscriptEntry, TranscriptItem};
use pinion_protocol::text::count;
use pinion_protocol::{
    Content, ContentDelta, DrawnPart, Event, EventKind, Message, RunEnd, Severity, StopReason, ToolCall, UserMessage,
};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of all results. Beyond that, the oldest ones keep their beginning.
pub(super) const MAX_RESULTS: usize = 64 << 20;

/// The runs behind the stream of events. The first one is the foreground run; the others work for it.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    main: Option<Arc<str>>,
    /// Items of the other runs.
    others: HashMap<Arc<str>, usize>,
    /// The branches, if the foreground run is a group.
    group: TranscriptGroup,
}

/// The branches of a group.
#[derive(Debug, Default)]
struct TranscriptGroup {
    run_ids: Vec<Arc<str>>,
    /// The item that the prompt goes before, while the branches have not begun to answer it.
    prompt_before: Option<usize>,
}

impl TranscriptGroup {
    /// Returns the message of a prompt, which all branches report and the group does not. Ends the prompt with the first reply.
    fn prompt(&mut self, event: &Event) -> Option<(usize, Arc<Message>)> {
        let at = self.prompt_before.filter(|_| self.run_ids.first() == Some(&event.run_id))?;
        match &event.kind {
            EventKind::MessageEnd { message } if matches!(**message, Message::User(_)) => Some((at, message.clone())),
            EventKind::MessageEnd { .. } | EventKind::MessageUpdate { .. } | EventKind::AgentEnd { .. } => {
                self.prompt_before = None;
                None
            }
            _ => None,
        }
    }
}

impl Runs {
    /// Returns the items of runs other than the foreground run.
    pub(crate) fn items(&self) -> impl Iterator<Item = usize> {
        self.others.values().copied()
    }

    /// Returns whether an item is behind the place of a prompt that may follow.
    pub(crate) fn waits_for_prompt(&self, item: usize) -> bool {
        self.group.prompt_before.is_some_and(|at| item >= at)
    }

    /// Returns all places of items.
    fn places(&mut self) -> impl Iterator<Item = &mut usize> {
        self.others.values_mut().chain(&mut self.group.prompt_before)
    }

    fn is_main(&mut self, event: &Event) -> bool {
        let is_start = matches!(event.kind, EventKind::AgentStart { .. } | EventKind::ParallelStart { .. });
        if is_start && self.main.is_none() {
            self.main = Some(event.run_id.clone());
        }
        let is_of_no_run = matches!(
            event.kind,
            EventKind::PlanMade { .. } | EventKind::PlanStep { .. } | EventKind::Compaction { .. }
        );
        is_of_no_run || self.main.as_ref().is_none_or(|main| *main == event.run_id)
    }
}

impl Transcript {
    /// Applies an event. Returns whether it belongs to the foreground run.
    pub(crate) fn event(&mut self, event: &Event, now: Duration) -> bool {
        let is_main = self.runs.is_main(event);
        match is_main {
            true => self.main_event(&event.kind, now),
            false => self.other_event(event),
        }
        if is_main && matches!(event.kind, EventKind::AgentEnd { .. } | EventKind::ParallelEnd { .. }) {
            self.runs = Runs::default();
            self.calls.clear();
        }
        is_main
    }

    /// Adds a command of the user, whose output is shown.
    pub(crate) fn own_call(&mut self, call: &ToolCall) {
        self.calls.insert(call.id.clone(), self.len());
        self.push(TranscriptItem::Call(Box::new(CallItem { is_own: true, ..CallItem::new(call) })));
        self.follow();
    }

    /// Applies an event of a command of the user.
    pub(crate) fn own_event(&mut self, kind: &EventKind, now: Duration) {
        self.main_event(kind, now);
    }

    /// Adds the events of earlier runs.
    pub(crate) fn history(&mut self, events: &[Event]) {
        for event in events {
            self.event(event, Duration::ZERO);
        }
        self.runs = Runs::default();
        self.calls.clear();
        self.writing = None;
    }

    fn main_event(&mut self, kind: &EventKind, now: Duration) {
        match kind {
            EventKind::MessageUpdate { delta, .. } => self.delta(delta),
            EventKind::MessageEnd { message } => self.message(message),
            EventKind::ToolExecutionStart { call_id, tool, .. } => {
                self.call(call_id, |call| (call.state, call.started) = (CallState::Running, Some(now)));
                // A call that another call makes is a step of that one.
                if let Some((parent, _)) = call_id.split_once('/').filter(|_| !self.calls.contains_key(call_id)) {
                    self.call(parent, |call| call.progress = Some(format!("calls {tool}")));
                }
            }
            EventKind::ToolExecutionUpdate { call_id, partial } => {
                self.call(call_id, |call| call.output = text_of(partial));
            }
            EventKind::Progress { call_id, text } => self.call(call_id, |call| call.progress = Some(text.clone())),
            EventKind::ToolExecutionEnd { call_id, is_error, content, details, display, ledger, .. } => {
                let is_error = *is_error || has_failed(details.as_ref());
                self.call(call_id, |call| {
                    call.end(is_error, content, details.as_ref(), Some(now));
                    (call.display, call.ledger) = (display.clone(), ledger.clone());
                });
            }
            EventKind::ApprovalRequested { call_id, .. } => self.call(call_id, |call| call.state = CallState::Asking),
            EventKind::ApprovalResolved { call_id, .. } => self.call(call_id, |call| call.state = CallState::Waiting),
            EventKind::PluginNotice { plugin, severity, text } => {
                let tone = match severity {
                    Severity::Info => Tone::Plain,
                    Severity::Warning => Tone::Warning,
                    Severity::Error => Tone::Error,
                };
                self.note(tone, format!("{plugin}: {text}"));
            }
            EventKind::Drawing { call_id, plugin, part, blocks } => self.call(call_id, |call| {
                let drawing = Some(Drawing { plugin: plugin.clone(), blocks: blocks.clone() });
                match part {
                    DrawnPart::Call => call.drawn_call = drawing,
                    DrawnPart::Result => call.drawn_result = drawing,
                }
            }),
            EventKind::Retry { attempt, max_attempts, delay_ms, cause } => {
                self.discard_partial();
                let seconds = *delay_ms as f64 / 1000.0;
                let text = format!("{cause}; retry {attempt} of {max_attempts} in {seconds:.1} s");
                self.note(Tone::Warning, text);
            }
            EventKind::Compaction { dropped, before, after, summary, failure, .. } => {
                if let Some(cause) = failure {
                    self.note(Tone::Warning, format!("the model wrote no summary: {cause}"));
                }
                let what = match (dropped, failure) {
                    (0, _) => "shortened long results of old tool calls".to_owned(),
                    (n, None) => format!("replaced {} with a summary", count(*n as u64, "message")),
                    (n, Some(_)) => {
                        format!("replaced {} with a list of what was said and done", count(*n as u64, "message"))
                    }
                };
                let size = match before {
                    0 => String::new(),
                    _ => format!(": about {} tokens before, {} now", short(*before), short(*after)),
                };
                let label = format!("{what}{size} (only the model's view is shorter)");
                match summary.is_empty() {
                    true => self.note(Tone::Plain, label),
                    false => self.push(TranscriptItem::Folded(Folded { label, text: summary.clone() })),
                }
            }
            EventKind::Hook { hook, .. } => {
                hook.notice().into_iter().for_each(|notice| self.note(Tone::Warning, notice));
            }
            EventKind::InputRejected { reason } => self.note(Tone::Error, format!("refused: {reason}")),
            EventKind::PlanStep { step, steps, title, status } => {
                self.note(Tone::Plain, format!("step {step} of {steps}: {title}: {status}"));
            }
            EventKind::ParallelStart { run_ids, .. } => {
                self.runs.group = TranscriptGroup { run_ids: run_ids.clone(), prompt_before: Some(self.len()) };
                self.note(Tone::Plain, format!("running {} branches", run_ids.len()));
            }
            EventKind::ParallelEnd { chosen, note, .. } => self.chosen(chosen.as_deref(), note.as_deref()),
            EventKind::AgentEnd { end, .. } => self.end(end),
            _ => {}
        }
    }

    /// Appends to the message that the model is writing.
    fn delta(&mut self, delta: &ContentDelta) {
        let (is_thinking, piece) = match delta {
            ContentDelta::Text { delta } => (false, delta),
            ContentDelta::Thinking { delta } => (true, delta),
            ContentDelta::ToolCallStart { .. } | ContentDelta::ToolCallArguments { .. } => return,
        };
        let end = self.len();
        let from = *self.writing.get_or_insert_with(|| {
            self.message += 1;
            end
        });
        let last = (from..end)
            .rev()
            .find(|at| matches!(self.entries[*at].item, TranscriptItem::Text(_) | TranscriptItem::Thinking(_)));
        let more = match (last.and_then(|at| self.change(at)), is_thinking) {
            (Some(TranscriptItem::Text(segment)), false) => {
                segment.push(piece).into_iter().map(TranscriptItem::Text).collect()
            }
            (Some(TranscriptItem::Thinking(thinking)), true) => {
                thinking.text.push_str(piece);
                Vec::new()
            }
            (_, true) => vec![TranscriptItem::Thinking(Thinking { text: piece.clone(), is_done: false })],
            (before, false) => {
                if let Some(TranscriptItem::Thinking(thinking)) = before {
                    thinking.is_done = true;
                }
                let mut first = TextSegment::new("");
                let more = first.push(piece);
                std::iter::once(first).chain(more).map(TranscriptItem::Text).collect::<Vec<_>>()
            }
        };
        more.into_iter().for_each(|item| self.push(item));
    }

    /// Removes the written part of a message that will be requested again.
    fn discard_partial(&mut self) {
        let Some(from) = self.writing.take() else { return };
        for at in (from..self.len()).rev() {
            if matches!(self.entries[at].item, TranscriptItem::Text(_) | TranscriptItem::Thinking(_)) {
                self.remove(at);
            }
        }
    }

    /// Removes one of the last items.
    fn remove(&mut self, at: usize) {
        self.entries.remove(at);
        self.settled.remove(at);
        self.cached.retain(|cached| *cached != at);
        self.cached.iter_mut().filter(|cached| **cached > at).for_each(|cached| *cached -= 1);
        self.calls.values_mut().filter(|call| **call > at).for_each(|call| *call -= 1);
        self.runs.places().filter(|place| **place > at).for_each(|place| *place -= 1);
        self.selected = self.selected.filter(|selected| *selected < at);
        self.region = None;
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::User(message) => {
                self.writing = None;
                self.push(of_user(message));
            }
            Message::Assistant(message) => {
                self.complete(&message.content);
                if message.stop_reason == StopReason::Length {
                    self.note(Tone::Warning, "the reply reached the model's output limit and is cut off");
                }
            }
            Message::ToolResult(result) => self.call(&result.call_id, |call| {
                // Calls that did not run have only their result.
                if !call.is_over() {
                    let details = result.details.as_ref();
                    call.end(result.is_error || has_failed(details), &result.content, details, None);
                }
            }),
            Message::Extension(_) => {}
        }
    }

    /// Replaces the written part of a message by the complete message.
    fn complete(&mut self, content: &[Content]) {
        let mut items = Vec::new();
        for part in content {
            match part {
                Content::Text { text } if !text.trim().is_empty() => {
                    items.extend(segments(text).into_iter().map(TranscriptItem::Text));
                }
                Content::Thinking(thinking) if !thinking.text.trim().is_empty() => {
                    items.push(TranscriptItem::Thinking(Thinking { text: thinking.text.clone(), is_done: true }));
                }
                _ => {}
            }
        }
        if !self.matches_written(&items) {
            self.discard_partial();
            self.message += 1;
            items.into_iter().for_each(|item| self.push(item));
        }
        self.writing = None;
        for call in content.iter().filter_map(Content::as_tool_call) {
            self.calls.insert(call.id.clone(), self.len());
            self.push(TranscriptItem::Call(Box::new(CallItem::new(call))));
        }
    }

    /// Returns whether the items that were written are these, and marks them as complete.
    fn matches_written(&mut self, items: &[TranscriptItem]) -> bool {
        let Some(from) = self.writing else { return false };
        let written: Vec<usize> = (from..self.len())
            .filter(|at| matches!(self.entries[*at].item, TranscriptItem::Text(_) | TranscriptItem::Thinking(_)))
            .collect();
        let is_same = |(at, item): (&usize, &TranscriptItem)| match (&self.entries[*at].item, item) {
            (TranscriptItem::Text(a), TranscriptItem::Text(b)) => a.text() == b.text(),
            (TranscriptItem::Thinking(a), TranscriptItem::Thinking(b)) => a.text == b.text,
            _ => false,
        };
        if written.len() != items.len() || !written.iter().zip(items).all(is_same) {
            return false;
        }
        for at in written {
            if let Some(TranscriptItem::Thinking(thinking)) = self.change(at) {
                thinking.is_done = true;
            }
        }
        true
    }

    fn call(&mut self, id: &str, change: impl FnOnce(&mut CallItem)) {
        let at = self.calls.get(id).copied();
        let Some(TranscriptItem::Call(call)) = at.and_then(|at| self.change(at)) else { return };
        let before = call.output.len();
        change(call);
        let after = call.output.len();
        self.results = self.results.saturating_sub(before) + after;
        self.shorten_results();
    }

    /// Shortens the oldest results until all together are small enough.
    fn shorten_results(&mut self) {
        while self.results > self.max_results
            && let Some(entry) = self.entries.get_mut(self.shortened)
        {
            self.shortened += 1;
            let TranscriptItem::Call(call) = &mut entry.item else { continue };
            // A call that still grows is the newest.
            if call.is_over() {
                self.results -= call.shorten();
                entry.rows = None;
            }
        }
    }

    fn end(&mut self, end: &RunEnd) {
        self.writing = None;
        match end {
            // The reason of a rejection came before.
            RunEnd::Done { .. } | RunEnd::Rejected { .. } => {}
            RunEnd::Aborted => self.note(Tone::Warning, "interrupted"),
            RunEnd::Limit { limit } => {
                self.note(Tone::Warning, format!("{limit}; send a message to continue"));
            }
            other => self.note(Tone::Error, other.to_string()),
        }
    }

    fn chosen(&mut self, chosen: Option<&str>, note: Option<&str>) {
        note.into_iter().for_each(|note| self.note(Tone::Warning, note));
        let at = chosen.and_then(|id| self.runs.others.get(id).copied());
        if let Some(TranscriptItem::Agent(agent)) = at.and_then(|at| self.change(at)) {
            agent.is_kept = true;
            let answer = agent.words.clone();
            self.message += 1;
            segments(&answer).into_iter().for_each(|segment| self.push(TranscriptItem::Text(segment)));
        }
    }

    /// Applies an event of a run that works for the foreground run.
    fn other_event(&mut self, event: &Event) {
        if let Some((at, message)) = self.runs.group.prompt(event)
            && let Message::User(message) = &*message
        {
            self.insert(at, of_user(message));
        }
        let at = self.runs.others.get(&event.run_id).copied();
        let at = at.unwrap_or_else(|| self.other_run(event));
        if let Some(TranscriptItem::Agent(agent)) = self.change(at) {
            agent.event(&event.kind);
        }
    }

    /// Adds an item for a run: below the run that started it and that one's others, or below the call of the foreground run
    /// that did, or else at the end.
    fn other_run(&mut self, event: &Event) -> usize {
        let (parent, call) = match &event.kind {
            EventKind::AgentStart { parent_run_id, call_id, .. } => (
                parent_run_id.as_ref().and_then(|id| self.runs.others.get(id).copied()),
                call_id.as_deref().and_then(|id| self.calls.get(id).copied()),
            ),
            _ => (None, None),
        };
        let depth_of = |entry: &TranscriptEntry| {
            if let TranscriptItem::Agent(agent) = &entry.item { Some(agent.depth) } else { None }
        };
        let of_parent = parent.and_then(|at| depth_of(self.entries.get(at)?));
        let depth = of_parent.map_or(0, |depth| depth + 1);
        let is_below = |entry: &&TranscriptEntry| depth_of(entry).is_some_and(|found| found >= depth);
        let at = parent
            .filter(|_| of_parent.is_some())
            .or(call)
            .map_or(self.len(), |above| above + 1 + self.entries[above + 1..].iter().take_while(is_below).count());
        let is_branch = self.runs.group.run_ids.contains(&event.run_id);
        self.insert(at, TranscriptItem::Agent(Box::new(SubAgent { depth, is_branch, ..SubAgent::default() })));
        self.runs.others.insert(event.run_id.clone(), at);
        at
    }

    /// Adds an item before others, which the inline form still keeps.
    fn insert(&mut self, at: usize, item: TranscriptItem) {
        let places = self.cached.iter_mut().chain(self.calls.values_mut()).chain(self.runs.places());
        let places = places.chain(&mut self.selected).chain(&mut self.writing);
        let places = places.chain(self.found.as_mut().map(|(item, _)| item)).chain(self.position.item());
        places.filter(|place| **place >= at).for_each(|place| *place += 1);
        self.entries.insert(at, TranscriptEntry::new(item));
    }
}

impl SubAgent {
    fn event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::AgentStart { agent_id, provider, model, .. } => {
                self.name = agent_id.to_string();
                self.model = format!("{provider}/{model}");
            }
            EventKind::ToolExecutionStart { call_id, tool, arguments } => {
                self.calls.push(AgentCall::new(call_id, tool, arguments));
            }
            EventKind::ToolExecutionEnd { call_id, is_error, content, details, ledger, .. } => {
                let is_error = *is_error || has_failed(details.as_ref());
                let call = self.calls.iter_mut().rev().find(|call| call.id == *call_id);
                call.into_iter().for_each(|call| call.end(is_error, content, ledger.as_ref()));
            }
            EventKind::MessageEnd { message } => match &**message {
                Message::Assistant(message) => self.words = message.text(),
                Message::User(message) if self.title.is_empty() => {
                    let task = text_of(&message.content);
                    self.title = task.trim().lines().next().unwrap_or_default().to_owned();
                }
                _ => {}
            },
            // A run that a hook denied has no name besides this.
            EventKind::InputRejected { .. } if self.name.is_empty() => self.name = "refused".to_owned(),
            EventKind::AgentEnd { end, turns, usage, .. } => {
                let turns = count(u64::from(*turns), "turn");
                self.is_done = matches!(end, RunEnd::Done { .. });
                self.end = Some(format!("{end}, {turns}, {} tokens", short(usage.total())));
            }
            _ => {}
        }
    }
}

/// Returns the item of a message of the user, or of a program that wrote one.
fn of_user(message: &UserMessage) -> TranscriptItem {
    let text = text_of(&message.content);
    match message.label.clone() {
        Some(label) => TranscriptItem::Folded(Folded { label, text }),
        None => TranscriptItem::User(text),
    }
}

/// Returns whether a tool says in its details that it did not succeed, as `bash` does for a failed program.
fn has_failed(details: Option<&Value>) -> bool {
    details.and_then(|details| details.get("success")).and_then(Value::as_bool) == Some(false)
}
