//! Calls a plugin's tools and commands from native tests, without a host.
//!
//! Files are the machine's own; use absolute paths. [`Call::cancelled`] and [`Call::progress`] work, and
//! [`crate::storage`] keeps values in memory, for each thread its own. [`respond_with`] answers requests of [`crate::http`]. The other imports, such as
//! [`crate::workspace`] and [`crate::process`], need the host and panic.
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
//!         vec![Tool::new("greet", "Greets someone.", |a: Arguments, _: &Call| Ok(format!("Hello {}", a.name)))]
//!     }
//! }
//!
//! let reply = testing::call_tool::<Greeter>("greet", json!({ "name": "Ada" }))?;
//! assert_eq!(reply.text, "Hello Ada");
//! # Ok::<(), Error>(())
//! ```

pub use crate::bindings::imports::pinion::plugin::types::{Image, ToolDefinition};

use crate::bindings::imports::pinion::plugin::types::{CallContext, Content};
use crate::http::{Failure, HttpError, Request, Response};
use crate::{Action, Call, Error, Output, Plugin, Result, config, storage};
use serde_json::Value;
use std::cell::{Cell, RefCell};

type Respond = dyn Fn(&Request) -> Result<Response, HttpError>;

thread_local! {
    static RESPOND: RefCell<Option<Box<Respond>>> = const { RefCell::new(None) };
    static CHECKS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A tool's result.
#[derive(Debug, Clone)]
pub struct Reply {
    /// All text parts, concatenated.
    pub text: String,
    /// All images.
    pub images: Vec<Image>,
    /// Details for the UI, or [`Value::Null`].
    pub details: Value,
    /// True for the result of a call that failed ([`Output::failed`]).
    pub is_error: bool,
}

/// Returns the definitions of the plugin's tools, as the host receives them.
pub fn tools<P: Plugin>() -> Vec<ToolDefinition> {
    P::tools().iter().map(|tool| tool.definition()).collect()
}

/// Calls a tool with a deadline of ten minutes.
///
/// # Errors
/// The tool's error, or [`Error::NotFound`] if the plugin has no tool of this name.
pub fn call_tool<P: Plugin>(name: &str, input: Value) -> Result<Reply> {
    let call = call();
    let tool = P::tool(name, &call);
    let tool = tool.ok_or_else(|| Error::NotFound(format!("no tool `{name}` in this plugin")))?;
    let output = tool.run(&input.to_string(), &call);
    CHECKS_LEFT.set(None);
    Ok(output?.into())
}

/// Runs a command; `typed` is the text after its name.
///
/// # Errors
/// The command's error, or a message if the plugin has no command of this name.
pub fn run_command<P: Plugin>(name: &str, typed: &str) -> Result<Vec<Action>, String> {
    let commands = P::commands();
    let command = commands.iter().find(|command| command.name == name);
    command.ok_or_else(|| format!("no command `/{name}` in this plugin"))?.run(typed, &call())
}

/// Cancels the next call on this thread after `checks` calls of [`Call::cancelled`] or [`Call::check`].
pub fn cancel_after(checks: u32) {
    CHECKS_LEFT.set(Some(checks));
}

/// Answers the HTTP requests of this thread with a function, in place of servers.
pub fn respond_with(respond: impl Fn(&Request) -> Result<Response, HttpError> + 'static) {
    RESPOND.set(Some(Box::new(respond)));
}

pub(crate) fn respond(request: &Request) -> Result<Response, HttpError> {
    RESPOND.with_borrow(|respond| match respond {
        Some(respond) => respond(request),
        None => {
            let message = "no server in a native test: call `testing::respond_with`".to_owned();
            Err(HttpError::Failed(Failure { message, request_sent: false }))
        }
    })
}

/// Sets the config that [`crate::config()`] reads on this thread.
pub fn set_config(value: &Value) {
    config::store(value.to_string());
}

/// Removes all stored values of this thread.
pub fn clear_storage() {
    storage::memory::clear();
}

/// Creates a call like the host does, for functions that take one. The workspace is the current directory.
pub fn call() -> Call {
    let workspace = std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned();
    let (call_id, session_id) = ("call".to_owned(), "session".to_owned());
    Call::new(CallContext { call_id, session_id, workspace, deadline_ms: 600_000, extra: None })
}

pub(crate) fn cancelled() -> bool {
    let left = CHECKS_LEFT.get();
    CHECKS_LEFT.set(left.map(|checks| checks.saturating_sub(1)));
    left == Some(0)
}

impl From<Output> for Reply {
    fn from(output: Output) -> Self {
        let details = output.details.unwrap_or_default();
        let mut reply = Self { text: String::new(), images: Vec::new(), details, is_error: output.is_error };
        for part in output.content {
            match part {
                Content::Text(text) | Content::Other(text) => reply.text.push_str(&text),
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
    fn call_is_cancelled_after_the_chosen_number_of_checks() {
        cancel_after(2);
        let call = call();
        assert_eq!(
            [call.cancelled(), call.cancelled(), call.cancelled(), call.cancelled()],
            [false, false, true, true]
        );
        CHECKS_LEFT.set(None);
        assert!(!call.cancelled());
    }
}
