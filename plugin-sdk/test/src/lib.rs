//! Tests of plugins in the real runtime, with a scripted host.
//!
//! A test loads a component as users get it, grants it access in the words of `--grant`, scripts everything beyond it
//! (the user, models, other tools, servers, secrets), and calls it. Limits, grants, address checks and redaction work
//! as in the product. No request leaves the machine.
//!
//! ```no_run
//! use pinion_plugin_test::{Plugin, TestError, json};
//!
//! # async fn test() -> Result<(), TestError> {
//! let plugin = Plugin::load("target/pinion/word-count.wasm")
//!     .file("a.txt", "one two\nthree")
//!     .grant("files=read")
//!     .start()
//!     .await?;
//! let reply = plugin.call("word_count", json!({ "path": "a.txt" })).await;
//! assert_eq!(reply.text()?, "3 words");
//! assert_eq!((reply.ledger.files, reply.ledger.bytes_written), (1, 0));
//! # Ok(())
//! # }
//! ```
//!
//! [`Plugin`] prepares the component and the host, [`Running`] makes calls, [`Reply`] is the result of one, [`Hooked`]
//! the answer of a hook, and [`Running::seen`] shows how the plugin used its conversation.

mod answer;
mod conversation;
mod error;
mod hooks;
mod host;
mod plugin;
mod reply;
mod running;
mod secrets;
mod servers;
mod settings;

pub use self::answer::ScriptedAnswer;
pub use self::conversation::{Asked, Called, Seen};
pub use self::error::{TestError, helpful_grants};
pub use self::hooks::Hooked;
pub use self::host::{Host, MakeConfinement};
pub use self::plugin::Plugin;
pub use self::reply::Reply;
pub use self::running::Running;
pub use self::servers::{Received, Response, response};

pub use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, DialogKind};
pub use pinion_agent::services::CompletionTask;
pub use pinion_agent::tool::{Ledger, ToolOutput};
pub use pinion_agent::{Authority, Content};
pub use pinion_plugin_runtime::{Completion, HostAction, PartialLimits, SecretPlacement};
pub use serde_json::{Value, json};
