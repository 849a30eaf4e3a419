//! What a plugin author in Rust depends on: write a trait, call one macro, build a component.
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
//! The granted folders are where they are for everyone: `std::fs` opens them by absolute path, or relative to the
//! workspace; [`Call::path`] finds what a model names. What the host offers beyond WASI is in [`workspace`],
//! [`process`], [`agents`], [`catalog`] and [`log`]; importing one is asking for it, and its calls answer `denied` until
//! the user grants it.
//!
//! A plugin's tests call its tools through [`testing`], on any machine and without a host.
//!
//! The bindings in `src/bindings` are generated ahead from `wit/`, so that an author's build needs no WIT parser. A test
//! of the integration tests keeps them current.

mod adapter;
#[allow(missing_docs, unsafe_code, unreachable_pub, unused_qualifications, rust_2018_idioms)]
#[allow(clippy::all, clippy::unwrap_used, clippy::panic)]
#[doc(hidden)]
#[rustfmt::skip]
pub mod bindings {
    pub mod imports;
    pub mod tools;
    pub mod commands;
    pub mod lifecycle;
    pub mod state;
}
mod call;
mod command;
mod config;
mod error;
#[doc(hidden)]
pub mod export;
mod output;
mod schema;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod tool;

pub use bindings::imports::pinion::plugin::{agents, cancellation, catalog, log, process, progress, workspace};
pub use call::Call;
pub use command::{Command, Completion, Effect, Mode};
pub use config::config;
pub use error::{Error, Result};
pub use output::Output;
pub use tool::Tool;

#[doc(hidden)]
pub use adapter::Adapter;
pub use {schemars, serde, serde_json};

/// All that a plugin usually names.
pub mod prelude {
    pub use crate::{Call, Command, Completion, Effect, Error, Output, Plugin, Result, State, Tool, config, export};
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use serde_json::{Value, json};
}

/// A plugin. Every part has a default; say in [`export!`] which of them the component exports.
pub trait Plugin: 'static {
    /// The tools, in the order in which the model is told of them. Called once a load and once a call, so it must be
    /// cheap and must not touch files.
    fn tools() -> Vec<Tool> {
        Vec::new()
    }

    /// The slash commands. Like [`Plugin::tools`], called often.
    fn commands() -> Vec<Command> {
        Vec::new()
    }

    /// Called once on every instance before anything else, when `lifecycle` is exported. [`config`] is ready by then.
    ///
    /// # Errors
    /// Fails the call that the instance was made for.
    fn init() -> Result<(), String> {
        Ok(())
    }

    /// Called once a load, when `lifecycle` is exported, without files or programs.
    ///
    /// # Errors
    /// Keeps the last generation of the plugin, and tells the user why.
    fn self_test() -> Result<(), String> {
        Ok(())
    }
}

/// For plugins of lifetime `session` that export `state`: what one instance hands to the next over a reload.
pub trait State: 'static {
    /// Called when no call is running; at most 1 MiB.
    fn save() -> Vec<u8>;

    /// Called on the new instance, with what the plugin of version `from_version` saved.
    ///
    /// # Errors
    /// The plugin starts without state, and the user is told why.
    fn restore(saved: Vec<u8>, from_version: &str) -> Result<(), String>;
}
