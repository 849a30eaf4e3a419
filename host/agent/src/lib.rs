//! The agent loop of Pinion.
//!
//! No I/O of its own: it names no wasmtime, no HTTP, no terminal, no environment variable and no home directory. What it
//! needs of the world it declares as traits ([`Provider`], [`ToolExecutor`], [`SessionStore`], [`Approver`]) that others
//! implement.
//!
//! [`run()`] is the loop, a plain function of a [`Context`], a [`LoopConfig`], watchers and a token; [`Agent`] adds a
//! conversation of its own, for applications. A complete agent with a tool, here with a scripted model:
//!
//! ```
//! use pinion_agent::{Agent, Authority, Context, FunctionTool, FunctionTools, LoopConfig, Message, Model};
//! use pinion_providers::{Replay, Reply, Script};
//! use serde_json::json;
//! use std::sync::Arc;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let script = [Reply::call("add", json!([2, 3])), Reply::text("The sum is 5.")];
//!     let provider = Arc::new(Replay::new(Script::new(script)));
//!     let schema = json!({ "type": "array", "items": { "type": "integer" } });
//!     let add = FunctionTool::new("add", "Adds numbers.", schema, |numbers: Vec<i64>| async move {
//!         Ok::<_, String>(numbers.iter().sum::<i64>().to_string())
//!     });
//!     let tools = Arc::new(FunctionTools::new([add.authority(Authority::default())]));
//!     let config = LoopConfig::new(provider, Model::default(), tools);
//!     let agent = Agent::new(config, Context::new("You are terse.", "session-1"));
//!     let outcome = agent.run(vec![Message::user("What is 2 + 3?")]).await?;
//!     assert_eq!(outcome.text(), "The sum is 5.");
//!     Ok(())
//! }
//! ```
//!
//! The crates whose types appear in signatures are re-exported: [`futures_util`], [`jiff`], [`secrecy`], [`serde_json`]
//! and [`tokio_util`].

mod agent;
mod channel;
mod compaction;
mod config;
mod context;
mod extension;
mod history;
mod run;
#[cfg(test)]
mod run_tests;
mod snapshot;
#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests of pinion-orchestration, which use the rest")]
mod testing;
mod tools;
mod turn;

pub use pinion_protocol::{
    ANSWER_TOOL, AgentKind, ApprovalMode, Approver, Assignment, AssistantMessage, Attempts, Authority, Backoff, Budget,
    ByteCounter, COMPACTION_MESSAGE, CachePolicy, CallOrder, ChildCall, ChildSession, ChoiceName, CompactionPolicy,
    CompactionReason, CompactionStrategy, Content, ContextEstimate, ContextTracker, Continuation, Cost, Decision,
    Delta, DeniedCall, DenyAll, Display, Event, EventKind, EventStream, Execution, ExtensionMessage, FilterVerdict,
    FoundModel, FunctionTool, FunctionTools, Image, ImageProblem, InputFilter, LIMIT_MESSAGE, Ledger, Limit,
    LongHistory, MAX_AGENT_DEPTH, MAX_ATTEMPTS, Message, Model, ModelSource, NoStore, NoTools, Outcome, OutputBounds,
    PartKind, PriceList, Prices, Provider, ProviderError, Question, RedactedProvider, RedactedTools, Replacement,
    Report, Request, RequestOptions, RetryPolicy, Role, RunEnd, RunError, RunErrorKind, RunLimits, SUMMARY_FRAME,
    SchemaError, Secrets, Selection, SessionGroup, SessionStore, Spend, StepStatus, StopReason, StoreError,
    StreamEvent, SubAgentError, SubAgentPolicy, SubAgents, Thinking, ThinkingLevel, TokenCounter, ToolCall, ToolChoice,
    ToolDefinition, ToolError, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress, ToolReply, ToolResultMessage,
    ToolSource, TurnTrigger, Usage, UserMessage, check_schema, content, is_summary, message_tokens, messages_tokens,
    sort_results, text, view,
};

pub use {futures_util, jiff, secrecy, serde_json, tokio_util};

pub use agent::{Agent, AgentError, Lease};
pub use channel::{EventReceiver, EventSender, Events, event_channel};
pub use compaction::{Compaction, CompactionError, compact};
pub use config::queue::{MessageQueue, QueueMode};
pub use config::{ChildKind, Inbox, LoopConfig, Policy, Ports, Strategy};
pub use context::Context;
pub use extension::hooks::{Flow, Hooks, Verdict};
pub use extension::spawn::{Children, Parent, Spawner};
pub use run::run;
pub use snapshot::{Snapshot, Totals};
pub use tools::approval::Approval;
pub use tools::schema::Schemas;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Returns the spawner that the tests of this crate use: none.
#[cfg(test)]
fn test_spawner(_: SubAgentPolicy) -> Option<std::sync::Arc<dyn Spawner>> {
    None
}
