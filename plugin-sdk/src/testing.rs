//! Calls a plugin's tools and commands from its author's tests: on the machine's own target, without a host.
//!
//! Files are the machine's own, reached by absolute paths. [`Call::cancelled`] and [`Call::progress`] work; the other
//! imports ([`crate::workspace`], [`crate::process`], [`crate::agents`], [`crate::catalog`], [`crate::log`]) are the host's, and panic.
//!
//! ```
//! use pinion_plugin_sdk::prelude::*;
//! use pinion_plugin_sdk::testing;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Arguments {
//!     name: String,
//! }
//!
//! struct Greeter;
//!
//! impl Plugin for Greeter {
//!     fn tools() -> Vec<Tool> {
//!         vec![Tool::new("greet", "Greets.", |a: Arguments, _: &Call| Ok(format!("Hello {}", a.name)))]
//!     }
//! }
//!
//! let reply = testing::call_tool::<Greeter>("greet", json!({ "name": "Ada" }))?;
//! assert_eq!(reply.text, "Hello Ada");
//! # Ok::<(), Error>(())
//! ```

pub use crate::bindings::imports::pinion::plugin::types::Image;
pub use crate::bindings::tools::exports::pinion::plugin::tools::ToolDefinition;

use crate::bindings::imports::pinion::plugin::types::{CallContext, Content, ToolOutput};
use crate::{Call, Effect, Error, Output, Plugin, Result, config};
use serde_json::Value;
use std::cell::Cell;

thread_local! {
    static QUESTIONS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// What a tool gave back.
#[derive(Debug, Clone)]
pub struct Reply {
    /// All text parts, one after the other.
    pub text: String,
    /// All pictures.
    pub images: Vec<Image>,
    /// [`Value::Null`] where there are none.
    pub details: Value,
}

/// The definitions of the plugin's tools, as the host gets them.
pub fn tools<P: Plugin>() -> Vec<ToolDefinition> {
    P::tools().iter().map(|tool| tool.definition()).collect()
}

/// Calls a tool, with a deadline of ten minutes.
///
/// # Errors
/// The tool's own, and [`Error::NotFound`] where the plugin has no tool of this name.
pub fn call_tool<P: Plugin>(name: &str, arguments: Value) -> Result<Reply> {
    let tools = P::tools();
    let tool = tools.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| Error::NotFound(format!("no tool `{name}` in this plugin")))?;
    let output = tool.run(&arguments.to_string(), &call());
    QUESTIONS_LEFT.set(None);
    Ok(output?.into())
}

/// Runs a command with what was typed after its name.
///
/// # Errors
/// The command's own, and one for a name that the plugin does not have.
pub fn run_command<P: Plugin>(name: &str, typed: &str) -> Result<Vec<Effect>, String> {
    let commands = P::commands();
    let command = commands.iter().find(|command| command.name == name);
    command.ok_or_else(|| format!("no command `/{name}` in this plugin"))?.run(typed, &call())
}

/// The next call on this thread is cancelled after it has asked `questions` times whether it is.
pub fn cancel_after(questions: u32) {
    QUESTIONS_LEFT.set(Some(questions));
}

/// What [`crate::config()`] reads from now on, on this thread.
pub fn set_config(value: &Value) {
    config::store(value.to_string());
}

/// A call as the host would make it, for functions that want one. The workspace is the current directory.
pub fn call() -> Call {
    let workspace = std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned();
    let (call_id, session_id) = ("call".to_owned(), "session".to_owned());
    Call::new(CallContext { call_id, session_id, workspace, deadline_ms: 600_000 })
}

pub(crate) fn cancelled() -> bool {
    let left = QUESTIONS_LEFT.get();
    QUESTIONS_LEFT.set(left.map(|questions| questions.saturating_sub(1)));
    left == Some(0)
}

impl From<Output> for Reply {
    fn from(output: Output) -> Self {
        let output = ToolOutput::from(output);
        let value = |json: Option<String>| json.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
        let mut reply = Self { text: String::new(), images: Vec::new(), details: value(output.details) };
        for part in output.content {
            match part {
                Content::Text(text) => reply.text.push_str(&text),
                Content::Image(image) => reply.images.push(image),
            }
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_cancelled_from_the_chosen_question_on() {
        cancel_after(2);
        let call = call();
        assert_eq!(
            [call.cancelled(), call.cancelled(), call.cancelled(), call.cancelled()],
            [false, false, true, true]
        );
        QUESTIONS_LEFT.set(None);
        assert!(!call.cancelled());
    }
}
