//! What the examples share: where a model comes from, which tools it gets, and how a run is shown.
//!
//! Without `--model` a script takes the model's place. Everything else is real then, too: the loop, the components, the
//! files that they change. No key and no network are needed.

mod approve;
mod model;
mod show;
mod tools;

pub use approve::AskUser;
pub use model::{ModelArgs, Offline, find_model};
pub use show::{describe, each_event, exit, line, lines, print, run_shown};
pub use tools::{NoTools, PLUGINS, load_tools};

/// What went wrong, for a person to read.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What may go wrong in an example.
pub type Result<T, E = Error> = std::result::Result<T, E>;
