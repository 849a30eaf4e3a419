//! The agent loop of Pinion.
//!
//! No I/O of its own: it names no wasmtime, no HTTP, no terminal, no environment variable and no home directory. What it
//! needs of the world it declares as traits ([`Provider`], [`ToolExecutor`], [`SessionStore`], [`Approver`]) that others
//! implement.
//!
//! [`run()`] is the loop, a plain function of a [`Context`], a [`LoopConfig`], watchers and a token; [`Agent`] is the same
//! with a conversation of its own, for applications.

mod agent;
mod channel;
mod compaction;
mod config;
mod context;
mod extension;
mod run;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests of pinion-orchestration, which use the rest")]
mod testing;
mod tokens;
mod tools;
mod turn;

pub use pinion_protocol::{
    ANSWER_TOOL, AgentKind, ApprovalMode, Approver, Assignment, AssistantMessage, Attempts, Authority,
    COMPACTION_MESSAGE, CachePolicy, CallOrder, ChildCall, ChildSession, ChoiceName, CompactionReason, Content,
    Continuation, Cost, Decision, Delta, DeniedCall, DenyAll, Display, Event, EventKind, EventStream, Execution,
    ExtensionMessage, FoundModel, Image, ImageProblem, Ledger, Limit, MAX_AGENT_DEPTH, MAX_ATTEMPTS, Message, Model,
    ModelSource, NoStore, Outcome, OutputBounds, PartKind, PriceList, Prices, Provider, ProviderError, Question,
    RedactedProvider, RedactedTools, Report, Request, RequestOptions, Role, RunEnd, SchemaError, Secrets, SessionGroup,
    SessionStore, Spend, StepStatus, StopReason, StoreError, StreamEvent, SubAgentError, SubAgentPolicy, SubAgents,
    Thinking, ThinkingLevel, ToolCall, ToolChoice, ToolDefinition, ToolError, ToolExecutor, ToolInvocation, ToolOutput,
    ToolProgress, ToolReply, ToolResultMessage, ToolSource, TurnTrigger, Usage, UserMessage, check_schema,
    sort_results, text, view,
};

pub use agent::{Agent, AgentError, Lease, Snapshot, Totals};
pub use channel::{EventReceiver, EventSender, Events, event_channel};
pub use compaction::{Compaction, CompactionError, compact};
pub use config::compaction::CompactionPolicy;
pub use config::limits::{Budget, RunLimits};
pub use config::queue::{MessageQueue, QueueMode};
pub use config::retry::{Backoff, RetryPolicy};
pub use config::{ChildKind, Inbox, LoopConfig, Policy, Ports, Strategy};
pub use context::Context;
pub use extension::filter::{FilterVerdict, InputFilter};
pub use extension::hooks::{Flow, Hooks, Verdict};
pub use extension::spawn::{Children, Parent, Spawner};
pub use run::{LIMIT_MESSAGE, run};
pub use tokens::{ByteCounter, ContextTracker, TokenCounter, message_tokens, messages_tokens};
pub use tools::approval::Approval;
pub use tools::schema::Schemas;
pub use tools::selection::Selection;

/// Returns the spawner that the tests of this crate use: none.
#[cfg(test)]
fn test_spawner(_: SubAgentPolicy) -> Option<std::sync::Arc<dyn Spawner>> {
    None
}
