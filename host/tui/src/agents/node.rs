//! One row of the tree: a conversation, a sub-agent, a branch or a step.

use crate::transcript::Transcript;
use pinion_protocol::arguments::telling;
use pinion_protocol::text::one_line;
use pinion_protocol::{Content, ContentDelta, EventKind, Message, RunEnd, Spend, ToolCall};
use std::sync::Arc;
use std::time::Duration;

/// Characters of a task, an activity or a reason that a node keeps.
const MAX_TEXT: usize = 400;

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Conversation,
    SubAgent,
    Branch,
    /// Several attempts at one task, or the branches of a prompt.
    Group,
    Step,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// The conversation waits for a message of the user.
    Ready,
    Works,
    /// A call waits for the user's answer.
    Waits,
    Done,
    Failed,
    /// It was interrupted, or has reached a limit.
    Stopped,
}

impl NodeState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Works => "works",
            Self::Waits => "waits",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "ended",
        }
    }

    pub(crate) fn is_active(self) -> bool {
        matches!(self, Self::Works | Self::Waits)
    }
}

/// A conversation, a sub-agent, a branch or a step of a plan.
#[derive(Debug)]
pub(crate) struct AgentNode {
    pub(crate) kind: NodeKind,
    /// The run; of the conversation, the one in progress or the last one.
    pub(crate) run_id: Arc<str>,
    pub(crate) parent: Option<usize>,
    pub(crate) depth: usize,
    pub(crate) name: String,
    /// The first line of the task.
    pub(crate) task: String,
    /// Whether it works in a copy of the directory, as the beginning of the task says.
    is_in_copy: bool,
    pub(crate) model: String,
    pub(crate) state: NodeState,
    /// The reason for the end, unless the model had finished.
    pub(crate) reason: String,
    /// The calls of the last reply, and the running ones, each with its id.
    written: Vec<(String, String)>,
    calls: Vec<(String, String)>,
    /// The call that waits for an answer.
    asking: Option<String>,
    /// The activity besides calls.
    activity: &'static str,
    account: NodeAccount,
    clock: NodeClock,
    /// The conversation of the node; `None` for the conversation on the screen, and for an old node.
    pub(crate) transcript: Option<Box<Transcript>>,
}

/// Turns and spend: of ended runs, of ended turns, and of replies of the turn in progress.
#[derive(Debug, Default, Clone, Copy)]
struct NodeAccount {
    turns_before: u32,
    before: Spend,
    turns: u32,
    settled: Spend,
    open: Spend,
}

/// The working time of a node.
#[derive(Debug, Default, Clone, Copy)]
struct NodeClock {
    before: Duration,
    /// Time when the run in progress started.
    since: Option<Duration>,
    /// Milliseconds of the first and the last message of a past run.
    stamps: Option<(i64, i64)>,
}

impl AgentNode {
    pub(crate) fn new(kind: NodeKind, run_id: Arc<str>, name: impl Into<String>) -> Self {
        Self {
            kind,
            run_id,
            parent: None,
            depth: 0,
            name: name.into(),
            task: String::new(),
            is_in_copy: false,
            model: String::new(),
            state: if kind == NodeKind::Conversation { NodeState::Ready } else { NodeState::Works },
            reason: String::new(),
            written: Vec::new(),
            calls: Vec::new(),
            asking: None,
            activity: "",
            account: NodeAccount::default(),
            clock: NodeClock::default(),
            transcript: None,
        }
    }

    pub(crate) fn turns(&self) -> u32 {
        self.account.turns_before.saturating_add(self.account.turns)
    }

    /// Returns its spend, with the spend of its sub-agents whose calls have ended.
    pub(crate) fn spend(&self) -> Spend {
        let mut spend = self.account.before;
        spend.add(self.account.settled);
        spend.add(self.account.open);
        spend
    }

    /// Returns the time that it has worked.
    pub(crate) fn time(&self, now: Duration) -> Duration {
        let past = self.clock.stamps.map_or(0, |(first, last)| last.saturating_sub(first).unsigned_abs());
        let open = match self.clock.since {
            Some(since) => now.saturating_sub(since),
            None => Duration::from_millis(past),
        };
        self.clock.before + open
    }

    /// Returns its activity: the question that it asks, the calls that run, or the reason for its end.
    pub(crate) fn activity(&self) -> String {
        match (self.state, &self.asking) {
            (NodeState::Waits, Some(call)) => format!("asks: {call}"),
            (NodeState::Works, _) if self.calls.is_empty() => self.activity.to_owned(),
            (NodeState::Works, _) => self.calls.iter().map(|(_, call)| call.as_str()).collect::<Vec<_>>().join(", "),
            _ => self.reason.clone(),
        }
    }

    /// Starts a run of the node.
    pub(super) fn begin(&mut self, run_id: &Arc<str>, now: Option<Duration>) {
        self.run_id = run_id.clone();
        (self.state, self.activity) = (NodeState::Works, "waiting for the model");
        self.reason.clear();
        self.clock.since = now;
    }

    /// Ends the run in progress and adds it to the account.
    pub(super) fn close(&mut self, state: NodeState, reason: String, now: Option<Duration>) {
        (self.state, self.reason) = (state, one_line(&reason, MAX_TEXT));
        (self.calls, self.asking) = (Vec::new(), None);
        self.clock.before = self.time(now.unwrap_or_default());
        (self.clock.since, self.clock.stamps) = (None, None);
        let account = &mut self.account;
        account.turns_before = account.turns_before.saturating_add(std::mem::take(&mut account.turns));
        account.before.add(std::mem::take(&mut account.settled));
        account.before.add(std::mem::take(&mut account.open));
    }

    /// Applies an event of the node's run. `now` is missing for events of the past.
    pub(super) fn event(&mut self, run_id: &Arc<str>, kind: &EventKind, now: Option<Duration>) {
        match kind {
            EventKind::AgentStart { provider, model, directory, .. } => {
                self.begin(run_id, now);
                self.is_in_copy = !directory.is_parent();
                self.model = format!("{provider}/{model}");
            }
            EventKind::TurnStart { turn, .. } => {
                self.account.turns = (*turn).max(self.account.turns);
                self.activity = "waiting for the model";
            }
            EventKind::TurnEnd { usage, cost, .. } => {
                (self.account.settled, self.account.open) = (Spend { usage: *usage, cost: *cost }, Spend::default());
            }
            EventKind::MessageUpdate { delta, .. } => {
                self.activity = match delta {
                    ContentDelta::Text { .. } => "writing",
                    ContentDelta::Thinking { .. } => "thinking",
                    ContentDelta::ToolCallStart { .. } | ContentDelta::ToolCallArguments { .. } => "preparing a call",
                };
            }
            EventKind::MessageEnd { message } => self.message(message, now),
            EventKind::ToolExecutionStart { call_id, tool, arguments } => {
                self.calls.push((call_id.clone(), call_text(tool, telling(arguments))));
            }
            EventKind::ToolExecutionEnd { call_id, .. } => self.calls.retain(|(id, _)| id != call_id),
            EventKind::ApprovalRequested { call_id, tool, .. } => {
                let written = self.written.iter().find(|(id, _)| id == call_id);
                self.asking = Some(written.map_or_else(|| call_text(tool, None), |(_, call)| call.clone()));
                self.state = NodeState::Waits;
            }
            EventKind::ApprovalResolved { .. } => {
                (self.asking, self.state) = (None, NodeState::Works);
            }
            EventKind::Retry { .. } => self.activity = "retrying",
            EventKind::Compaction { .. } => self.activity = "compacting",
            EventKind::InputRejected { reason } => self.close(NodeState::Failed, format!("refused: {reason}"), now),
            EventKind::AgentEnd { end, usage, cost, turns, .. } => {
                self.ended(end, Spend { usage: *usage, cost: *cost }, *turns, now)
            }
            _ => {}
        }
    }

    /// Ends a group, whose branches have spent this.
    pub(super) fn end_group(&mut self, turns: u32, spend: Spend, now: Option<Duration>) {
        self.account.turns = self.account.turns.saturating_add(turns);
        self.account.settled.add(spend);
        let is_root = self.kind == NodeKind::Conversation;
        self.close(if is_root { NodeState::Ready } else { NodeState::Done }, String::new(), now);
    }

    fn ended(&mut self, end: &RunEnd, spend: Spend, turns: u32, now: Option<Duration>) {
        // A run that was killed has an end without an account.
        if spend.usage.total() > 0 {
            (self.account.settled, self.account.open) = (spend, Spend::default());
        }
        self.account.turns = self.account.turns.max(turns);
        let (state, reason) = match end {
            RunEnd::Done { .. } => (NodeState::Done, String::new()),
            RunEnd::Aborted | RunEnd::Limit { .. } => (NodeState::Stopped, end.to_string()),
            _ => (NodeState::Failed, end.to_string()),
        };
        let is_root = self.kind == NodeKind::Conversation;
        self.close(if is_root && state == NodeState::Done { NodeState::Ready } else { state }, reason, now);
    }

    fn message(&mut self, message: &Message, now: Option<Duration>) {
        if now.is_none() {
            let at = message.timestamp().as_millisecond();
            self.clock.stamps = Some(self.clock.stamps.map_or((at, at), |(first, _)| (first, at)));
        }
        match message {
            Message::User(message) => {
                let text = message.content.iter().find_map(Content::as_text).unwrap_or_default();
                let is_asked = self.kind == NodeKind::Conversation && message.label.is_none();
                if (self.task.is_empty() || is_asked) && !text.trim().is_empty() {
                    let place = if self.is_in_copy { "in a copy: " } else { "" };
                    self.task = format!("{place}{}", first_line(text));
                }
            }
            Message::Assistant(reply) => {
                self.account.open.add(Spend { usage: reply.usage, cost: reply.cost });
                if now.is_none() {
                    self.account.turns = self.account.turns.saturating_add(1);
                }
                // A question about one of the calls shows its arguments.
                let text = |call: &ToolCall| (call.id.clone(), call_text(&call.name, telling(&call.arguments)));
                self.written = reply.tool_calls().map(text).collect();
            }
            _ => {}
        }
    }
}

/// Returns the first line of a task that says something.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    one_line(line.trim(), MAX_TEXT)
}

fn call_text(tool: &str, telling: Option<&str>) -> String {
    let text = telling.map_or_else(|| tool.to_owned(), |telling| format!("{tool} {telling}"));
    one_line(&text, MAX_TEXT)
}
