//! Shared parts of the examples: models, tools and display.
//!
//! Without `--model`, a script replaces the model. Everything else is real: the loop, the components, the files that
//! they change. No key and no network are needed.

mod approve;
mod model;
mod show;
mod tools;

pub use approve::AskUser;
pub use model::{ModelArgs, Offline, find_model};
pub use show::{describe, each_event, exit, line, lines, print, run_shown};
pub use tools::{PLUGINS, load_tools};

/// Any error, for display.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Result of an example.
pub type Result<T, E = Error> = std::result::Result<T, E>;
