//! The agent loop of Pinion.
//!
//! It does no I/O: it names no wasmtime, no HTTP, no terminal, no environment variable and no home directory. It
//! declares its needs as traits ([`Provider`], [`ToolExecutor`], [`SessionStore`], [`Approver`]) that others implement.
//!
//! [`run()`] is the loop, a plain function of a [`Context`], a [`LoopConfig`], watchers and a token; [`Agent`] adds a
//! conversation, for applications. A complete agent with a tool, here with a scripted model:
//!
//! ```
//! use pinion_agent::{Agent, Authority, Context, FunctionTool, FunctionTools, LoopConfig, Message, Model};
//! use pinion_providers::{Replay, ScriptedReply, Script};
//! use serde::Deserialize;
//! use serde_json::json;
//! use std::sync::Arc;
//!
//! #[derive(Deserialize)]
//! struct Numbers {
//!     numbers: Vec<i64>,
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let script = [ScriptedReply::call("add", json!({ "numbers": [2, 3] })), ScriptedReply::text("The sum is 5.")];
//!     let provider = Arc::new(Replay::new(Script::new(script)));
//!     let schema = json!({
//!         "type": "object",
//!         "properties": { "numbers": { "type": "array", "items": { "type": "integer" } } },
//!         "required": ["numbers"],
//!     });
//!     let add = FunctionTool::new("add", "Adds numbers.", schema, |given: Numbers| async move {
//!         Ok::<_, String>(given.numbers.iter().sum::<i64>().to_string())
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
//! The names that most applications need are here; the others are in modules by topic, mostly defined by
//! `pinion-protocol`: [`provider`] and [`tool`] for implementations of these ports, [`config`] for settings, [`hooks`]
//! for code that the loop calls, [`channel`] for watchers.
//!
//! The crates whose types appear in signatures are re-exported: [`futures_util`], [`jiff`], [`secrecy`], [`serde_json`]
//! and [`tokio_util`].
#![doc = include_str!("use_cases.md")]

mod agent;
pub mod compaction;
pub mod config;
mod context;
mod history;
mod run;
mod running;
#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests of pinion-orchestration, which use the rest")]
mod testing;
mod turn;

/// Code that the loop calls: hooks of the application and of plugins, and the spawner of other runs.
mod extension {
    pub mod hooks;
    pub(crate) mod plugin_hooks;
    pub mod spawn;
}

/// Tool calls: which tools there are, whether a call fits its schema and may run, and how the calls of a message run.
mod tools {
    pub(crate) mod dispatch;
    mod result;
    pub(crate) mod services;
}

pub use agent::{Agent, AgentError, Lease, block_on};
pub use config::LoopConfig;
pub use context::Context;
pub use extension::hooks::Hooks;
pub use extension::{hooks, spawn};
#[doc(inline)]
pub use pinion_interaction::channel;
pub use pinion_protocol::{
    Approver, Authority, Content, Event, EventKind, FunctionTool, FunctionTools, JoinedTools, Message, Model, NoTools,
    Outcome, Provider, RunEnd, RunError, RunErrorKind, SessionStore, ToolDefinition, ToolExecutor, Usage,
};
#[doc(inline)]
pub use pinion_protocol::{
    arguments, authority, content, definition, delegation, dialog, drawing, event, filter, form, function, hook,
    identity, image, limits, live_state, message, outcome, output, output_bounds, provider, result_order, retry,
    selection, served_tools, services, spend_meter, step, store, text, tokens, tool, usage,
};
#[doc(inline)]
pub use pinion_redact as secrets;
pub use run::run;
pub use {futures_util, jiff, secrecy, serde_json, tokio_util};

/// The approval of tool calls.
pub mod approval {
    pub use pinion_interaction::approval::Approval;
    pub use pinion_protocol::approval::*;
}

/// The state of an idle agent, for later or elsewhere.
pub mod snapshot {
    pub use crate::context::AgentSnapshot;
    pub use pinion_protocol::usage::Totals;
}

/// JSON Schemas: their limits, and the check of tool calls.
pub mod schema {
    pub use pinion_protocol::schema::*;
    pub use pinion_schema::Schemas;
}

#[cfg(test)]
use flat::*;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Returns `None`: the tests of this crate use no spawner.
#[cfg(test)]
fn test_spawner(_: SubAgentPolicy) -> Option<std::sync::Arc<dyn Spawner>> {
    None
}

/// All names, for tests.
#[cfg(test)]
mod flat {
    pub(crate) use crate::approval::Approval;
    pub(crate) use crate::channel::*;
    pub(crate) use crate::compaction::*;
    pub(crate) use crate::config::*;
    pub(crate) use crate::hooks::*;
    pub(crate) use crate::schema::Schemas;
    pub(crate) use crate::snapshot::*;
    pub(crate) use crate::spawn::*;
    pub(crate) use pinion_protocol::*;
}

/// The loop against a scripted model and scripted tools, a file for each group of rows. The rows come from the
/// requirements.
#[cfg(test)]
mod run_tests {
    mod abort;
    mod api;
    mod approval;
    mod compaction;
    mod dispatch;
    mod events;
    mod hook_answers;
    mod hooks_and_filters;
    mod notes;
    mod plugin_hooks;
    mod retries_and_limits;
    mod steering;
    mod streams;

    use crate::*;

    fn done(outcome: &Outcome) -> bool {
        outcome.end == RunEnd::Done { stop_reason: StopReason::Stop }
    }
}
