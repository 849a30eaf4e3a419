//! The vocabulary that all crates of Pinion share.
//!
//! Values: the parts of a conversation ([`content`], [`message`], [`event`]), the result of a run ([`outcome`],
//! [`usage`]) and the description of a tool ([`definition`], [`authority`]). Ports: the traits that the agent loop
//! calls and other crates implement ([`Provider`], [`ToolExecutor`], [`SessionStore`], [`Approver`],
//! [`Delegate`](delegation::Delegate)).
//!
//! This crate contains no loop, no runtime and no I/O. It depends on `tokio-util` only for
//! [`CancellationToken`](tokio_util::sync::CancellationToken), which every port takes.

pub mod approval;
pub mod arguments;
pub mod authority;
pub mod compaction;
pub mod content;
pub mod definition;
pub mod delegation;
pub mod dialog;
pub mod diff;
pub mod drawing;
pub mod event;
pub mod filter;
pub mod form;
mod form_order;
pub mod function;
pub mod guard;
pub mod history;
pub mod hook;
pub mod identity;
pub mod image;
mod ledger;
pub mod limits;
pub mod live_state;
pub mod mcp;
pub mod message;
pub mod outcome;
pub mod output;
pub mod output_bounds;
pub mod pattern;
pub mod provider;
pub mod repetition;
pub mod result_order;
pub mod retry;
pub mod selection;
pub mod served_tools;
pub mod services;
pub mod spend_meter;
pub mod step;
pub mod store;
pub mod text;
pub mod tokens;
pub mod tool;
pub mod usage;

/// Bounds on tool schemas, and on the work of validating arguments against them; repairs of both.
///
/// `pinion-agent` compiles the schemas and validates arguments, within these bounds.
pub mod schema {
    mod admission;
    mod arguments;
    mod lenient;
    mod work;

    pub use admission::{Measure, SchemaError, check_schema, compilable, measure};
    pub use arguments::{followed_by_nothing_new, repaired, without_nulls};
    pub use lenient::build_leniently;
    pub use work::{MAX_NESTING, Size, is_bearable, is_plain, is_small};
}

pub use approval::{ApprovalMode, Approver, Decision, DeniedCall, DenyAll, Question};
pub use authority::Authority;
pub use compaction::policy::CompactionPolicy;
pub use compaction::{COMPACTION_MESSAGE, SUMMARY_FRAME, is_summary, view};
pub use compaction::{CompactionStrategy, LongHistory, Replacement};
pub use content::{Content, Image, Thinking, ToolCall};
pub use definition::{Execution, Instructions, ToolDefinition, ToolSource};
pub use delegation::{
    AgentKind, AgentStart, Assignment, ChoiceName, FoundModel, MAX_AGENT_DEPTH, MAX_ATTEMPTS, ModelSource,
    ParallelAttempts, SubAgentError, SubAgentPolicy, SubAgentReport, SubAgents, WorkDirectory,
};
pub use dialog::{Dialog, DialogAnswer, DialogError, DialogForm, DialogKind, NoUser, Severity, UserInterface};
pub use drawing::{DrawingBlock, DrawnPart, Span, SpanStyle};
pub use event::{CompactionReason, ContentDelta, Event, EventKind, Role};
pub use filter::{FilterVerdict, InputFilter};
pub use form::FormSchema;
pub use function::{FunctionCall, FunctionTool, FunctionTools, JoinedTools, NoTools};
pub use hook::{HookAnswer, HookCall, HookNote, HookPoint, PluginHooks};
pub use identity::{Continuation, RunNumbers, TurnTrigger};
pub use image::ImageProblem;
pub use limits::{Budget, RunLimits};
pub use live_state::ContextEstimate;
pub use message::{AssistantMessage, ExtensionMessage, Message, StopReason, ToolResultMessage, UserMessage};
pub use outcome::{LIMIT_MESSAGE, Limit, Outcome, RunEnd, RunError, RunErrorKind};
pub use output_bounds::OutputBounds;
pub use provider::{
    CachePolicy, EventStream, Model, PartKind, Provider, ProviderError, Request, RequestOptions, StreamEvent,
    ThinkingLevel, ToolChoice,
};
pub use result_order::{CallOrder, sort_results};
pub use retry::{Backoff, RetryPolicy};
pub use schema::{SchemaError, check_schema};
pub use selection::Selection;
pub use served_tools::{Resource, ResourceAddress, ServedTool, TaskSupport, UriTemplate};
pub use services::{
    BatchAnswer, BatchQuestion, CallServices, CompletionAnswer, CompletionError, CompletionTask, Directory,
    MAX_CALL_DEPTH, NestedCall, Services,
};
pub use step::StepStatus;
pub use store::{
    ChildCall, ChildSession, ChoiceAccount, NoStore, SessionAccessError, SessionGroup, SessionStore, StoreError,
    StoredEntry,
};
pub use tokens::{ByteCounter, ContextTracker, TokenCounter, message_tokens, messages_tokens};
pub use tool::{
    ANSWER_TOOL, Display, Ledger, LogLevel, ToolError, ToolExecutor, ToolInvocation, ToolOutput, ToolProgress,
    ToolReply,
};
pub use usage::{Cost, PriceList, Prices, Spend, Totals, Usage};
