//! The agent loop of Pinion.
//!
//! No I/O of its own: it names no wasmtime, no HTTP, no terminal, no environment variable and no home directory. What it
//! needs of the world it declares as traits ([`Provider`], [`ToolExecutor`], [`SessionStore`], [`Approver`]) that others
//! implement.
//!
//! [`run()`] is the loop, a plain function of a [`Context`], a [`LoopConfig`], watchers and a token; [`Agent`] is the same
//! with a conversation of its own, for applications.

#[cfg(test)]
mod adversary_tests;
mod agent;
mod approval;
mod asking;
mod assemble;
mod authority;
mod bound;
mod channel;
mod compaction;
mod config;
mod content;
mod context;
mod definition;
mod delegation;
mod dispatch;
mod event;
mod filter;
mod hooks;
mod identity;
mod image;
mod limits;
mod message;
mod model;
mod order;
mod outcome;
mod parallel;
mod plan;
mod prompt;
mod provider;
mod queue;
mod repetition;
mod retry;
mod run;
#[cfg(test)]
mod run_tests;
mod schema;
mod secrets;
mod selection;
mod store;
mod structured;
mod sub_agents;
#[cfg(test)]
mod sub_agents_tests;
#[cfg(test)]
mod testing;
pub mod text;
mod tokens;
mod tool;
mod turn;
mod usage;

pub use agent::{Agent, AgentError, Snapshot, Totals};
pub use approval::{Approval, ApprovalMode, Approver, Decision, DeniedCall, DenyAll, Question};
pub use authority::Authority;
pub use bound::OutputBounds;
pub use channel::{EventReceiver, EventSender, Events, event_channel};
pub use compaction::{COMPACTION_MESSAGE, Compaction, CompactionError, CompactionPolicy, compact, view};
pub use config::{LoopConfig, Strategy};
pub use content::{Content, Image, Thinking, ToolCall};
pub use context::Context;
pub use definition::{Execution, ToolDefinition, ToolSource};
pub use delegation::{
    AgentKind, Assignment, Attempts, FoundModel, MAX_AGENT_DEPTH, MAX_ATTEMPTS, ModelSource, Report, SubAgentError,
    SubAgentPolicy, SubAgents,
};
pub use event::{CompactionReason, Delta, Event, EventKind, Role};
pub use filter::{FilterVerdict, InputFilter};
pub use hooks::{Flow, Hooks, Verdict};
pub use identity::{Continuation, TurnTrigger};
pub use image::ImageProblem;
pub use limits::{Budget, RunLimits};
pub use message::{AssistantMessage, ExtensionMessage, Message, StopReason, ToolResultMessage, UserMessage};
pub use model::Model;
pub use order::{CallOrder, sort_results};
pub use outcome::{Limit, Outcome, RunEnd};
pub use parallel::{
    BranchStrategy, Candidate, Candidates, Choice, ChoiceName, FewestTokens, First, Judge, MostTokens, ParallelOutcome,
    branches_of, run_parallel,
};
pub use plan::{Plan, PlanError, Step, StepReport, StepStatus};
pub use provider::{
    CachePolicy, EventStream, PartKind, Provider, ProviderError, Request, RequestOptions, StreamEvent, ThinkingLevel,
    ToolChoice,
};
pub use queue::{MessageQueue, QueueMode};
pub use retry::{Backoff, RetryPolicy};
pub use run::{LIMIT_MESSAGE, run};
pub use schema::{SchemaError, Schemas, check_schema};
pub use secrets::{RedactedProvider, RedactedTools, Secrets};
pub use selection::Selection;
pub use store::{ChildCall, ChildSession, NoStore, SessionGroup, SessionStore, StoreError};
pub use structured::{Answer, AnswerError};
pub use tokens::{ByteCounter, ContextTracker, TokenCounter, message_tokens, messages_tokens};
pub use tool::{
    ANSWER_TOOL, Display, Ledger, ToolError, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress, ToolReply,
};
pub use usage::{Cost, PriceList, Prices, Usage};
