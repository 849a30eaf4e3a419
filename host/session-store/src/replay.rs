//! The past of a conversation, as the events of its runs.
//!
//! A conversation is displayed as events. Past events are made from the messages and records of a branch, and from the
//! sessions of its sub-agents, so that a continued conversation looks as it did. Pieces of replies, partial results,
//! approvals and drawings are not recorded, and a run that was killed has no recorded end: it ends as aborted.

use crate::error::{BadLines, SessionError};
use crate::files;
use crate::header::Spawn;
use crate::record::{CallLedger, Compacted, GroupEnd, Record, Rejected, RunEnded, RunStarted};
use crate::transcript::Transcript;
use pinion_protocol::compaction::COMPACTION_MESSAGE;
use pinion_protocol::{
    AssistantMessage, Event, EventKind, MAX_AGENT_DEPTH, Message, RunEnd, Spend, ToolResultMessage, Totals, Usage,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the sessions of sub-agents that are read; older ones are left out.
const MAX_BYTES: u64 = 16 << 20;

/// The messages and records of a branch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The messages, in their order.
    pub messages: Vec<Arc<Message>>,
    /// The records, each with the number of messages before it.
    pub records: Vec<(usize, Record)>,
}

impl History {
    /// Reads the current branch of the session in the file `path`. Entries that cannot be read are skipped. Takes no lock and
    /// changes nothing.
    ///
    /// # Errors
    /// The file is not a session, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, SessionError> {
        Transcript::open(path)?.branch().history(&mut BadLines::default())
    }

    /// Returns the events. With the file of the session, its calls come with the events of their sub-agents, whose sessions are
    /// read.
    pub fn into_events(self, session: Option<&Path>) -> Vec<Event> {
        let mut budget = MAX_BYTES;
        let children = session.map(|session| children(session, MAX_AGENT_DEPTH, &mut budget)).unwrap_or_default();
        Replay::new(children, None).run(self)
    }

    /// Returns the number of requests and the spend of the runs that ended, and of the replies to the last one if it did not.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let mut open = None;
        for (at, record) in &self.records {
            match record {
                Record::RunStarted(_) => open = Some(*at),
                Record::RunEnded(_) => open = None,
                _ => {}
            }
            add_record(&mut totals, record);
        }
        let unended = open.and_then(|at| self.messages.get(at..)).unwrap_or_default();
        for message in unended {
            if let Message::Assistant(reply) = &**message {
                totals.add(1, Spend { usage: reply.usage, cost: reply.cost });
            }
        }
        totals
    }
}

/// Adds the requests and the spend that a record accounts for.
pub(crate) fn add_record(totals: &mut Totals, record: &Record) {
    match record {
        Record::RunEnded(RunEnded { usage, cost, turns, .. }) => {
            totals.add(u64::from(*turns), Spend { usage: *usage, cost: *cost });
        }
        Record::GroupEnd(GroupEnd { usage, cost, turns, .. }) => {
            totals.add(u64::from(*turns), Spend { usage: *usage, cost: *cost });
        }
        Record::Compacted(Compacted { asked: Some(spend), .. }) => totals.add(1, *spend),
        _ => {}
    }
}

/// A call: its run, where it is known, and its id.
type RunCallKey = (Option<String>, String);

/// The events of sub-agents, by the call that they worked on.
type SubAgentEvents = HashMap<RunCallKey, Vec<Event>>;

/// Reads the sessions of sub-agents of the session in a file, as many of the last ones as the budget of bytes allows. A
/// session that cannot be read is left out.
fn children(session: &Path, depth: u32, budget: &mut u64) -> SubAgentEvents {
    let mut files: Vec<PathBuf> = std::fs::read_dir(files::children_of(session))
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|extension| extension == files::EXTENSION));
    // Names begin with the time.
    files.sort_unstable();
    let mut found = Vec::new();
    for path in files.iter().rev().take_while(|_| depth > 0) {
        let size = path.metadata().map_or(u64::MAX, |file| file.len());
        let Some(left) = budget.checked_sub(size) else { break };
        *budget = left;
        found.extend(child(path, depth - 1, budget));
    }
    let mut children = SubAgentEvents::new();
    for (call, events) in found.into_iter().rev() {
        children.entry(call).or_default().extend(events);
    }
    children
}

/// Reads the session of a sub-agent.
fn child(path: &Path, depth: u32, budget: &mut u64) -> Option<(RunCallKey, Vec<Event>)> {
    let mut transcript = Transcript::open(path).ok()?;
    let Spawn { call_id, run_id, .. } = transcript.header()?.spawned_by.clone()?;
    let history = transcript.branch().history(&mut BadLines::default()).ok()?;
    let replay = Replay::new(children(path, depth, budget), Some(call_id.as_str().into()));
    Some(((run_id, call_id), replay.run(history)))
}

struct Replay {
    children: SubAgentEvents,
    /// The call that the runs work for.
    call_id: Option<Arc<str>>,
    /// The run that the next event belongs to.
    run_id: Arc<str>,
    is_open: bool,
    /// The ledgers of calls whose results follow, and the results of calls whose ledgers may follow.
    ledgers: HashMap<String, CallLedger>,
    results: HashMap<String, Arc<Message>>,
    /// The summary whose record follows.
    summary: Option<String>,
    events: Vec<Event>,
}

impl Replay {
    fn new(children: SubAgentEvents, call_id: Option<Arc<str>>) -> Self {
        Self {
            children,
            call_id,
            run_id: "".into(),
            is_open: false,
            ledgers: HashMap::new(),
            results: HashMap::new(),
            summary: None,
            events: Vec::new(),
        }
    }

    fn run(mut self, history: History) -> Vec<Event> {
        let first = history.records.iter().find_map(|(_, record)| match record {
            Record::RunStarted(start) => Some(start.run_id.as_str()),
            _ => None,
        });
        self.run_id = first.unwrap_or_default().into();
        let mut records = history.records.into_iter().peekable();
        for (at, message) in history.messages.into_iter().enumerate() {
            while let Some((_, record)) = records.next_if(|(before, _)| *before <= at) {
                self.record(record);
            }
            self.message(message);
        }
        records.for_each(|(_, record)| self.record(record));
        self.close();
        self.events
    }

    fn emit(&mut self, kind: EventKind) {
        self.events.push(Event { run_id: self.run_id.clone(), kind });
    }

    /// Ends a run that was killed.
    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let (end, usage) = (RunEnd::Aborted, Usage::default());
            self.emit(EventKind::AgentEnd { end, messages: Vec::new(), usage, cost: None, turns: 0 });
        }
    }

    fn record(&mut self, record: Record) {
        match record {
            Record::CallLedger(ledger) => match self.results.remove(&ledger.call_id).as_deref() {
                Some(Message::ToolResult(result)) => self.executed(ledger, result),
                _ => drop(self.ledgers.insert(ledger.call_id.clone(), ledger)),
            },
            Record::RunStarted(start) => self.start(start),
            other => {
                let is_end = matches!(other, Record::RunEnded(_));
                // A run that a hook denied has no start.
                if let (false, Record::Rejected(Rejected { run_id, .. }) | Record::RunEnded(RunEnded { run_id, .. })) =
                    (self.is_open, &other)
                {
                    self.run_id = run_id.as_str().into();
                }
                let mut event = other.into_event();
                if let Some(EventKind::Compaction { summary, .. }) = &mut event {
                    *summary = self.summary.take().unwrap_or_default();
                }
                event.into_iter().for_each(|event| self.emit(event));
                self.is_open &= !is_end;
            }
        }
    }

    fn start(&mut self, start: RunStarted) {
        self.close();
        self.run_id = start.run_id.as_str().into();
        let mut event = Record::RunStarted(start).into_event();
        if let Some(EventKind::AgentStart { call_id, .. }) = &mut event {
            call_id.clone_from(&self.call_id);
        }
        event.into_iter().for_each(|event| self.emit(event));
        self.is_open = true;
    }

    fn message(&mut self, message: Arc<Message>) {
        match &*message {
            Message::Extension(extension) if extension.kind == COMPACTION_MESSAGE => {
                let summary = extension.data.get("summary").and_then(|summary| summary.as_str());
                self.summary = summary.map(str::to_owned);
            }
            Message::ToolResult(result) => self.result(result, &message),
            Message::Assistant(_) => self.results.clear(),
            _ => {}
        }
        self.emit(EventKind::MessageEnd { message });
    }

    /// Adds the events of a call that precede its result.
    fn result(&mut self, result: &ToolResultMessage, message: &Arc<Message>) {
        for run_id in [Some(self.run_id.to_string()), None] {
            let events = self.children.remove(&(run_id, result.call_id.clone()));
            self.events.extend(events.into_iter().flatten());
        }
        match self.ledgers.remove(&result.call_id) {
            Some(ledger) => self.executed(ledger, result),
            None => drop(self.results.insert(result.call_id.clone(), message.clone())),
        }
    }

    fn executed(&mut self, CallLedger { call_id, tool, ledger, display, .. }: CallLedger, result: &ToolResultMessage) {
        let arguments = self.arguments_of(&call_id);
        self.emit(EventKind::ToolExecutionStart { call_id: call_id.clone(), tool: tool.clone(), arguments });
        self.emit(EventKind::ToolExecutionEnd {
            call_id,
            tool,
            is_error: result.is_error,
            content: result.content.clone(),
            details: result.details.clone(),
            display,
            ledger: Some(ledger),
            child_run_id: result.child_run_id.as_deref().map(Into::into),
        });
    }

    /// Returns the arguments of a call of the last reply.
    fn arguments_of(&self, call_id: &str) -> serde_json::Value {
        let replies = self.events.iter().rev().filter_map(|event| match &event.kind {
            EventKind::MessageEnd { message } => match &**message {
                Message::Assistant(reply) => Some(reply),
                _ => None,
            },
            _ => None,
        });
        let call = |reply: &AssistantMessage| {
            reply.tool_calls().find(|call| call.id == call_id).map(|call| call.arguments.clone())
        };
        let mut replies = replies.filter_map(call);
        replies.next().unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
