//! What the agent tells those who watch it. Serializable: one event is one line of `--output-format stream-json`.

use crate::authority::Authority;
use crate::content::Content;
use crate::identity::{Continuation, TurnTrigger};
use crate::message::{Message, StopReason};
use crate::outcome::RunEnd;
use crate::step::StepStatus;
use crate::tool::{Display, Ledger};
use crate::usage::{Cost, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Something happened in a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// In which loop.
    pub loop_id: Arc<str>,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A run begins. The first event of a loop, but for [`EventKind::PlanStep`].
    AgentStart {
        /// The agent that runs it.
        agent_id: Arc<str>,
        /// The session that it belongs to.
        session_id: Arc<str>,
        /// The loop from which it came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_loop_id: Option<Arc<str>>,
        /// How it goes on from there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continuation: Option<Continuation>,
        /// What begins its first turn.
        trigger: TurnTrigger,
        /// The provider that is asked.
        provider: String,
        /// The model that is asked.
        model: String,
    },
    /// The run is over. The last event of a loop, but for [`EventKind::PlanStep`]; emitted exactly once.
    AgentEnd {
        /// How it ended.
        end: RunEnd,
        /// The messages that it added, without those that a compaction has replaced.
        messages: Vec<Arc<Message>>,
        /// Tokens of all its requests.
        usage: Usage,
        /// What they cost; none when the model's prices are not known.
        cost: Option<Cost>,
        /// Its turns.
        turns: u32,
    },
    /// A turn begins.
    TurnStart {
        /// Counted from 1 in each run.
        turn: u32,
        /// What began it.
        trigger: TurnTrigger,
    },
    /// A turn is over: the reply and all its tool results are in the history.
    TurnEnd {
        /// Counted from 1 in each run.
        turn: u32,
        /// Why the model stopped.
        stop_reason: StopReason,
    },
    /// A message begins. What the user and tools say comes at once; what the model says comes in updates.
    MessageStart {
        /// `user`, `assistant`, `tool_result` or `extension`.
        role: Role,
    },
    /// The model goes on with its message.
    MessageUpdate {
        /// The part of the message that grows.
        index: usize,
        /// How it grows.
        delta: Delta,
    },
    /// A message is complete, and kept by the session store.
    MessageEnd {
        /// All of it.
        message: Arc<Message>,
    },
    /// A tool call begins to run.
    ToolExecutionStart {
        /// The call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// A running call shows what it has so far; replaces what it showed before.
    ToolExecutionUpdate {
        /// The call.
        call_id: String,
        /// Its result so far.
        partial: Vec<Content>,
    },
    /// A running call says something.
    Progress {
        /// The call.
        call_id: String,
        /// One line.
        text: String,
    },
    /// A tool call is over. Its result follows as a message.
    ToolExecutionEnd {
        /// The call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// Did it fail?
        is_error: bool,
        /// The result, bounded, as the model gets it.
        content: Vec<Content>,
        /// JSON for the log and the UI.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// How a person should see the text.
        #[serde(default)]
        display: Display,
        /// What it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ledger: Option<Ledger>,
        /// The loop of the sub-agent that worked on it, where one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_loop_id: Option<Arc<str>>,
    },
    /// The user is asked whether a call may run.
    ApprovalRequested {
        /// The call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// What the call could do.
        authority: Authority,
    },
    /// The question was answered.
    ApprovalResolved {
        /// The call.
        call_id: String,
        /// May it run?
        allowed: bool,
        /// The reason no one could be asked, when the call is denied for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<String>,
    },
    /// A request to the model failed and is made again. What came of the message so far is void.
    Retry {
        /// Counted from 1.
        attempt: u32,
        /// The most there will be.
        max_attempts: u32,
        /// Milliseconds until then.
        delay_ms: u64,
        /// Why.
        cause: String,
    },
    /// The conversation was compacted. What the model no longer sees stays in the session.
    Compaction {
        /// Why.
        reason: CompactionReason,
        /// Messages that the model no longer sees.
        dropped: usize,
        /// What it sees instead; empty when only results of tools were cut.
        summary: String,
        /// Estimated tokens of the conversation before.
        before: u64,
        /// Estimated tokens of the conversation now.
        after: u64,
    },
    /// A step of a plan begins, or has ended. Comes before the first loop that works on it, with the id of that, or after
    /// the last one.
    PlanStep {
        /// Which, counted from 1.
        step: usize,
        /// How many the plan has.
        steps: usize,
        /// What it does.
        title: String,
        /// `running` when it begins. When it has ended, `done` or `failed`; `running` still when it was interrupted.
        status: StepStatus,
    },
    /// Loops begin to work side by side from the same context; of a session that could not be written, none. The event
    /// is the group's: its `loop_id` is the group's id.
    ParallelStart {
        /// The group.
        group_id: Arc<str>,
        /// Its loops, in the order of the branches. Each begins and ends before the group does.
        loop_ids: Vec<Arc<str>>,
    },
    /// The loops are over, and one of them was chosen. The event is the group's.
    ParallelEnd {
        /// The group.
        group_id: Arc<str>,
        /// The loop from which the conversation goes on; without one, it stands where the group began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chosen: Option<Arc<str>>,
        /// Why the choice is not what it should have been, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// Tokens that choosing took.
        usage: Usage,
    },
    /// The prompt was refused before anything was sent.
    InputRejected {
        /// Why.
        reason: String,
    },
}

/// Why a conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionReason {
    /// The user asked for it.
    Asked,
    /// The context is as good as full.
    Threshold,
    /// The vendor refused a request as too long.
    Overflow,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    ToolResult,
    /// An application.
    Extension,
}

impl Role {
    /// Returns the role of a message.
    pub fn of(message: &Message) -> Self {
        match message {
            Message::User(_) => Self::User,
            Message::Assistant(_) => Self::Assistant,
            Message::ToolResult(_) => Self::ToolResult,
            Message::Extension(_) => Self::Extension,
        }
    }
}

/// How a part of a message grows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Delta {
    /// Text goes on.
    Text {
        /// What is added.
        delta: String,
    },
    /// Thinking goes on.
    Thinking {
        /// What is added.
        delta: String,
    },
    /// A tool call begins.
    ToolCallStart {
        /// The call.
        call_id: String,
        /// The tool's name.
        tool: String,
    },
    /// The arguments of a tool call go on.
    ToolCallArguments {
        /// The JSON that is added.
        delta: String,
    },
}

impl EventKind {
    /// Returns whether this shows a part of what a later event holds as a whole.
    pub fn is_preview(&self) -> bool {
        matches!(self, Self::MessageUpdate { .. } | Self::ToolExecutionUpdate { .. } | Self::Progress { .. })
    }

    /// Takes a later event into this one, when the two say no more together than one can. Gives the event back
    /// otherwise.
    pub fn merge(&mut self, later: EventKind) -> Option<EventKind> {
        match (&mut *self, later) {
            (Self::MessageUpdate { index, delta }, Self::MessageUpdate { index: later_index, delta: later })
                if *index == later_index =>
            {
                let later = delta.merge(later)?;
                Some(Self::MessageUpdate { index: later_index, delta: later })
            }
            (
                Self::ToolExecutionUpdate { call_id, partial },
                Self::ToolExecutionUpdate { call_id: later_id, partial: later },
            ) if *call_id == later_id => {
                *partial = later;
                None
            }
            (_, later) => Some(later),
        }
    }
}

impl Delta {
    fn merge(&mut self, later: Self) -> Option<Self> {
        match (&mut *self, later) {
            (Self::Text { delta }, Self::Text { delta: later })
            | (Self::Thinking { delta }, Self::Thinking { delta: later })
            | (Self::ToolCallArguments { delta }, Self::ToolCallArguments { delta: later }) => {
                delta.push_str(&later);
                None
            }
            (_, later) => Some(later),
        }
    }
}
