//! Events of runs. Each event serializes to one line of `--output-format stream-json`.

use crate::authority::Authority;
use crate::content::Content;
use crate::delegation::WorkDirectory;
use crate::dialog::Severity;
use crate::drawing::{DrawingBlock, DrawnPart};
use crate::hook::call::HookCall;
use crate::identity::{Continuation, TurnTrigger};
use crate::message::{Message, StopReason};
use crate::outcome::RunEnd;
use crate::output::{Display, Ledger};
use crate::step::StepStatus;
use crate::usage::{Cost, Spend, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Id of the run.
    pub run_id: Arc<str>,
    /// The event itself.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The kinds of events, with their data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A run starts. First event of a run, except for events of plans. A run that a hook denies does not emit it.
    AgentStart {
        /// Id of the agent.
        agent_id: Arc<str>,
        /// Id of the session.
        session_id: Arc<str>,
        /// Id of the parent run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<Arc<str>>,
        /// Id of the parent run's tool call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<Arc<str>>,
        /// The relation to the parent run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continuation: Option<Continuation>,
        /// The cause of the first turn.
        trigger: TurnTrigger,
        /// Name of the provider.
        provider: String,
        /// Name of the model.
        model: String,
        /// Directory that it works in.
        #[serde(default, skip_serializing_if = "WorkDirectory::is_parent")]
        directory: WorkDirectory,
    },
    /// A run ended. Last event of a run, except for events of plans; emitted exactly once.
    AgentEnd {
        /// The reason the run ended.
        end: RunEnd,
        /// Messages that the run added, without those that a compaction replaced.
        messages: Vec<Arc<Message>>,
        /// Tokens of all requests.
        usage: Usage,
        /// Cost of the tokens; `None` when the model's prices are unknown.
        cost: Option<Cost>,
        /// Number of turns.
        turns: u32,
    },
    /// A turn starts. Its new messages follow: prompts, and messages that steer the run or follow up.
    TurnStart {
        /// Number of the turn, counted from 1 in each run.
        turn: u32,
        /// The cause of the turn.
        trigger: TurnTrigger,
    },
    /// A turn ended: the reply and all its tool results are in the history. Every turn that started ends.
    TurnEnd {
        /// Number of the turn, counted from 1 in each run.
        turn: u32,
        /// The reason the model stopped.
        stop_reason: StopReason,
        /// The model's message; `None` if it could not be stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Arc<Message>>,
        /// Results of its calls, in the order of the calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        results: Vec<Arc<Message>>,
        /// Tokens of all requests of the run so far.
        #[serde(default)]
        usage: Usage,
        /// Cost of the run so far; `None` when the model's prices are unknown.
        #[serde(default)]
        cost: Option<Cost>,
    },
    /// A message starts. Messages of the user and of tools arrive complete; the model's messages grow by updates.
    MessageStart {
        /// Author of the message.
        role: Role,
    },
    /// The message of the model grows.
    MessageUpdate {
        /// Index of the part that grows.
        index: usize,
        /// The addition.
        delta: ContentDelta,
    },
    /// A message is complete and stored in the session.
    MessageEnd {
        /// The complete message.
        message: Arc<Message>,
    },
    /// A tool call starts, after it was approved. Calls that do not run (unknown, invalid, denied or skipped) have a
    /// result, but neither this event nor [`EventKind::ToolExecutionEnd`].
    ToolExecutionStart {
        /// Id of the call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// Arguments of the call.
        arguments: Value,
    },
    /// A running call reports a partial result, which replaces earlier ones.
    ToolExecutionUpdate {
        /// Id of the call.
        call_id: String,
        /// The result so far.
        partial: Vec<Content>,
    },
    /// A running call reports progress.
    Progress {
        /// Id of the call.
        call_id: String,
        /// One line.
        text: String,
    },
    /// The plugin of a running call shows a line to the user.
    PluginNotice {
        /// Name of the plugin.
        plugin: String,
        /// The weight of the notice.
        severity: Severity,
        /// One line.
        text: String,
    },
    /// The plugin of a running call draws a part of the call for people, in place of an earlier drawing of that part.
    Drawing {
        /// Id of the call.
        call_id: String,
        /// Name of the plugin.
        plugin: String,
        /// The part of the call.
        part: DrawnPart,
        /// The drawing, top down.
        blocks: Vec<DrawingBlock>,
    },
    /// A tool call that started ended. Its result follows as a message.
    ToolExecutionEnd {
        /// Id of the call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// True if the call failed.
        is_error: bool,
        /// The bounded result that the model gets.
        content: Vec<Content>,
        /// JSON for the log and the UI.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// Display format of the text.
        #[serde(default)]
        display: Display,
        /// Resources that the call used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ledger: Option<Ledger>,
        /// Id of the sub-agent's run, if the call started one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_run_id: Option<Arc<str>>,
    },
    /// A call waits for approval.
    ApprovalRequested {
        /// Id of the call.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// Upper bound on the effects of the call.
        authority: Authority,
    },
    /// The approval of a call was decided.
    ApprovalResolved {
        /// Id of the call.
        call_id: String,
        /// True if the call may run.
        allowed: bool,
        /// The reason the user could not be asked, if the call was denied because of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<String>,
    },
    /// A hook of a plugin was called.
    Hook {
        /// Id of the tool call, for hooks before and after one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
        /// The call of the hook.
        hook: HookCall,
    },
    /// A request to the model failed and will be retried. The partial message is discarded.
    Retry {
        /// Number of the retry, counted from 1.
        attempt: u32,
        /// Maximum number of retries.
        max_attempts: u32,
        /// Delay before the retry in milliseconds.
        delay_ms: u64,
        /// Error text of the failed request.
        cause: String,
    },
    /// The conversation was compacted. The session still contains the messages that the model no longer sees.
    Compaction {
        /// The reason for the compaction.
        reason: CompactionReason,
        /// Number of messages that the model no longer sees.
        dropped: usize,
        /// Summary that replaces them; empty when only tool results were shortened.
        summary: String,
        /// The reason the model wrote no summary and a list of messages and calls takes its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
        /// Estimated tokens of the conversation before the compaction.
        before: u64,
        /// Estimated tokens of the conversation after the compaction.
        after: u64,
        /// Tokens and cost of the request for the summary.
        #[serde(default)]
        spend: Spend,
    },
    /// A planner made a plan. Emitted after its last run, with the id of that run.
    PlanMade {
        /// Title of the plan.
        title: String,
        /// Number of steps in the plan.
        steps: usize,
    },
    /// A plan step started or ended. Emitted before the first run of the step, with the id of that run, or after the
    /// last one.
    PlanStep {
        /// Number of the step, counted from 1.
        step: usize,
        /// Number of steps in the plan.
        steps: usize,
        /// Title of the step.
        title: String,
        /// `running` at the start; at the end `done` or `failed`, or still `running` if the step was interrupted.
        status: StepStatus,
    },
    /// A group of concurrent runs starts from the same context; the group is empty if the session could not be written.
    /// The event belongs to the group: its `run_id` is the group's id.
    ParallelStart {
        /// Id of the group.
        group_id: Arc<str>,
        /// Ids of its runs, in the order of the branches. Each run ends before the group does.
        run_ids: Vec<Arc<str>>,
    },
    /// All runs of a group ended and one was chosen. The event belongs to the group.
    ParallelEnd {
        /// Id of the group.
        group_id: Arc<str>,
        /// Id of the run that the conversation continues from; without one, it returns to the start of the group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chosen: Option<Arc<str>>,
        /// The reason the choice deviates from the configured strategy, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// Tokens spent on the choice.
        usage: Usage,
    },
    /// The prompt, or the run as a whole, was rejected before anything was sent. First event of a run that a hook denies.
    InputRejected {
        /// Reason for people.
        reason: String,
    },
}

/// The reason for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionReason {
    /// The user requested it.
    Asked,
    /// The context is almost full.
    Threshold,
    /// The vendor rejected a request as too long.
    Overflow,
}

/// Author of a message.
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
    pub fn from_message(message: &Message) -> Self {
        match message {
            Message::User(_) => Self::User,
            Message::Assistant(_) => Self::Assistant,
            Message::ToolResult(_) => Self::ToolResult,
            Message::Extension(_) => Self::Extension,
        }
    }
}

/// An addition to a part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ContentDelta {
    /// More text.
    Text {
        /// The added text.
        delta: String,
    },
    /// More thinking.
    Thinking {
        /// The added text.
        delta: String,
    },
    /// The start of a tool call.
    ToolCallStart {
        /// Id of the call.
        call_id: String,
        /// The tool's name.
        tool: String,
    },
    /// More arguments of a tool call.
    ToolCallArguments {
        /// The added JSON fragment.
        delta: String,
    },
}

impl EventKind {
    /// Returns whether a later event contains the complete form of the partial data in this one.
    pub fn is_preview(&self) -> bool {
        matches!(self, Self::MessageUpdate { .. } | Self::ToolExecutionUpdate { .. } | Self::Progress { .. })
    }

    /// Merges a later event into this one if a single event can express both; otherwise returns it.
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

impl ContentDelta {
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
