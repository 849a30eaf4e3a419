//! The agent loop of Pinion.
//!
//! No I/O of its own: it names no wasmtime, no HTTP, no terminal, no environment variable and no home directory. What it
//! needs of the world it declares as traits ([`Provider`], [`ToolExecutor`], [`SessionStore`]) that others implement.

mod content;
mod message;
mod provider;
mod store;
mod tool;
mod usage;

pub use content::{Content, Image, Thinking, ToolCall};
pub use message::{AssistantMessage, ExtensionMessage, Message, StopReason, ToolResultMessage, UserMessage};
pub use provider::{
    CachePolicy, EventStream, PartKind, Provider, ProviderError, Request, RequestOptions, StreamEvent, ThinkingLevel,
    ToolChoice,
};
pub use store::{SessionStore, StoreError};
pub use tool::{
    Authority, Display, Execution, Ledger, ToolDefinition, ToolError, ToolExecutor, ToolInvocation, ToolOutput,
    ToolProgress, ToolReply,
};
pub use usage::{Cost, Prices, Usage};
