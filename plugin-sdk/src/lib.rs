//! SDK for Pinion plugins in Rust: implement a trait, call one macro, build a component.
//!
//! ```no_run
//! use pinion_plugin_sdk::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Arguments {
//!     /// The file to count, relative to the workspace.
//!     path: String,
//! }
//!
//! struct WordCount;
//!
//! impl Plugin for WordCount {
//!     fn tools() -> Vec<Tool> {
//!         vec![
//!             Tool::new("word_count", "Counts the words of a file.", |arguments: Arguments, call| {
//!                 let text = std::fs::read_to_string(call.path(&arguments.path)?)?;
//!                 Ok(format!("{} words", text.split_whitespace().count()))
//!             })
//!             .reads(),
//!         ]
//!     }
//! }
//!
//! export!(WordCount, exports = [tools], asks = { "files": "read" });
//! # fn main() {}
//! ```
//!
//! Granted directories appear at their usual paths: `std::fs` opens them by absolute path. Where all of the workspace is
//! granted, it is the working directory of commands and of tools that declare [`Tool::reads`] or [`Tool::writes`]. [`Call::path`] resolves a path that the model
//! wrote. The host's functions beyond WASI are in modules: [`workspace`] for bulk work on files, [`process`] and
//! [`child_process`] for programs, [`http`], [`storage`], [`secrets`], [`settings`], [`ui`] for the user, [`questions`] for several questions at once, [`model`],
//! [`agents`] and [`invoke`] for other tools, [`mcp`] for MCP servers, [`session`] for the conversation, [`catalog`] and [`log`]. Most need a
//! capability; their calls fail with `denied` until the user grants it.
//!
//! A plugin's tests call its tools through [`testing`], natively and without a host.
//!
//! The bindings in `src/bindings` are generated from `wit/` in advance, so that an author's build needs no WIT parser.
//! An integration test keeps them current.

mod adapter;
#[allow(missing_docs, unsafe_code, unreachable_pub, unused_qualifications, rust_2018_idioms)]
#[allow(clippy::all, clippy::unwrap_used, clippy::panic)]
#[doc(hidden)]
#[rustfmt::skip]
pub mod bindings {
    pub mod imports;
    pub mod tools;
    pub mod commands;
    pub mod offers;
    pub mod lifecycle;
    pub mod state;
    pub mod before_tool_call;
    pub mod after_tool_call;
    pub mod before_prompt;
    pub mod before_compaction;
    pub mod session_events;
}
mod call;
mod command;
mod config;
mod error;
#[doc(hidden)]
pub mod export;
pub mod hooks;
pub mod http;
pub mod mcp;
mod output;
mod schema;
mod served;
pub mod storage;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod tool;

pub use bindings::imports::pinion::plugin::{
    agents, cancellation, catalog, child_process, invoke, log, model, offers_host, process, progress, questions,
    secrets, session, settings, ui, workspace,
};
pub use call::Call;
pub use command::{Action, Command, Completion};
pub use config::{config, current_config};
pub use error::{Error, Result};
pub use output::Output;
pub use served::{Resource, TaskSupport};
pub use tool::Tool;

#[doc(hidden)]
pub use adapter::Adapter;
pub use {schemars, serde, serde_json};

/// The items that most plugins need.
pub mod prelude {
    pub use crate::{Action, Call, Command, Completion, Error, Output, Plugin, Result, State, Tool, config, export};
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use serde_json::{Value, json};
}

/// A plugin. Every method has a default; [`export!`] selects which parts the component exports.
pub trait Plugin: 'static {
    /// Returns the tools, in the order in which the model sees them.
    ///
    /// The host calls this once per load and once per tool call, so it must be cheap and must not access files. A plugin that
    /// exports `offers` may return other tools later, once it has called [`offers_host::changed`], or from
    /// [`Plugin::offer`]; their effects are limited to those of the tools that it returned when it was loaded.
    fn tools() -> Vec<Tool> {
        Vec::new()
    }

    /// Returns the tool that a call names. The default looks in [`Plugin::tools`]; a plugin with many tools can find one faster,
    /// for example by [`Call::route`].
    fn tool(name: &str, _call: &Call) -> Option<Tool> {
        Self::tools().into_iter().find(|tool| tool.name == name)
    }

    /// Returns the slash commands. Called as often as [`Plugin::tools`].
    fn commands() -> Vec<Command> {
        Vec::new()
    }

    /// Returns sentences for the system prompt, if `offers` is exported; at most 8 KiB.
    fn instructions() -> Option<String> {
        None
    }

    /// Returns what the plugin offers while it is loaded, if `offers` is exported. Called with the plugin's grants, and again
    /// after [`offers_host::changed`]. The default is the three lists above.
    ///
    /// # Errors
    /// The offer before stays; the user sees the message.
    fn offer() -> Result<Offer, String> {
        Ok(Offer { tools: Self::tools(), commands: Self::commands(), instructions: Self::instructions() })
    }

    /// Prepares a new instance; runs before anything else if `lifecycle` is exported. [`config()`] is available.
    ///
    /// # Errors
    /// Fails the call that the instance was created for.
    fn init() -> Result<(), String> {
        Ok(())
    }

    /// Checks the plugin once per load if `lifecycle` is exported, without access to files or programs.
    ///
    /// # Errors
    /// Keeps the previous generation of the plugin; the user sees the message.
    fn self_test() -> Result<(), String> {
        Ok(())
    }
}

/// Tools and commands that a plugin offers while it is loaded, in place of those of its load.
#[derive(Default)]
pub struct Offer {
    /// At most 1,024 tools.
    pub tools: Vec<Tool>,
    /// At most 1,024 commands.
    pub commands: Vec<Command>,
    /// Sentences for the system prompt; at most 8 KiB.
    pub instructions: Option<String>,
}

/// State that a plugin of lifetime `session` passes to its next generation on reload, if it exports `state`.
pub trait State: 'static {
    /// Serializes the state, at most 1 MiB. Called while no call is running.
    fn save() -> Vec<u8>;

    /// Restores the state on a new instance; version `from_version` of the plugin saved it.
    ///
    /// # Errors
    /// The plugin starts without state; the user sees the message.
    fn restore(saved: Vec<u8>, from_version: &str) -> Result<(), String>;
}
