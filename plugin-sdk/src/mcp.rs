//! MCP servers that the user configured. Needs the capability `mcp` and, in tools, [`Tool::executes`] and
//! [`Tool::network`].
//!
//! ```no_run
//! use pinion_plugin_sdk::mcp;
//! use pinion_plugin_sdk::prelude::*;
//!
//! # fn example() -> Result<()> {
//! let result = mcp::call_tool("weather", "forecast", &json!({ "city": "Oslo" }))?;
//! let text = result["content"][0]["text"].as_str().unwrap_or_default();
//! # Ok(())
//! # }
//! ```
//!
//! The manifest asks for all servers: `export!(…, asks = { "mcp": true })`; the user may grant some of them. `?` converts
//! an [`McpError`] into an [`Error`] of the same kind; one that is [`Error::Failed`] is retryable if the server cannot
//! have received the request. Results, names and errors of servers are the texts of strangers.
//!
//! [`Tool::executes`]: crate::Tool::executes
//! [`Tool::network`]: crate::Tool::network

pub use crate::bindings::imports::pinion::plugin::mcp::{
    Failure, McpError, Server, ServerError, ServerPrompt, ServerState, ServerTool, connect, keep, servers,
};

use crate::Error;
use crate::bindings::imports::pinion::plugin::mcp as host;
use serde_json::{Value, json};

/// Calls a tool with an object of arguments, and returns the result as the protocol has it.
///
/// # Errors
/// The server cannot be reached, or returned an error. A tool that failed is a result with `isError`.
pub fn call_tool(server: &str, name: &str, arguments: &Value) -> Result<Value, McpError> {
    parsed(&call_tool_with_text(server, name, &arguments.to_string())?)
}

/// Calls a tool like [`call_tool`], with the JSON text of an object, and returns the JSON text of the result.
///
/// # Errors
/// Like [`call_tool`], and if the text is not an object.
pub fn call_tool_with_text(server: &str, name: &str, arguments: &str) -> Result<String, McpError> {
    host::call_tool(server, name, arguments, None)
}

/// Waits for the result of one of a server's tasks, as [`call_tool`] returns it. The tasks are in [`Server::extra`].
///
/// # Errors
/// There is no such task, the server cannot be reached, or it returned an error.
pub fn follow_task(server: &str, task: &str) -> Result<Value, McpError> {
    parsed(&host::call_tool(server, "", "{}", Some(&json!({ "task": task }).to_string()))?)
}

/// Cancels one of a server's tasks.
///
/// # Errors
/// Like [`follow_task`].
pub fn cancel_task(server: &str, task: &str) -> Result<(), McpError> {
    host::call_tool(server, "", "{}", Some(&json!({ "task": task, "cancel": true }).to_string())).map(drop)
}

/// Gets the messages of a prompt, with an object of arguments, all of which are strings.
///
/// # Errors
/// The server cannot be reached, or returned an error.
pub fn get_prompt(server: &str, name: &str, arguments: &Value) -> Result<Value, McpError> {
    parsed(&host::get_prompt(server, name, &arguments.to_string())?)
}

/// Lists the resources of a server: the first page, or the one at `cursor`.
///
/// # Errors
/// The server cannot be reached, or returned an error.
pub fn list_resources(server: &str, cursor: Option<&str>) -> Result<Value, McpError> {
    parsed(&host::list_resources(server, cursor)?)
}

/// Lists the templates of a server's resources: the first page, or the one at `cursor`.
///
/// # Errors
/// The server cannot be reached, or returned an error.
pub fn list_resource_templates(server: &str, cursor: Option<&str>) -> Result<Value, McpError> {
    parsed(&host::list_resource_templates(server, cursor)?)
}

/// Reads a resource.
///
/// # Errors
/// The server cannot be reached, or returned an error.
pub fn read_resource(server: &str, uri: &str) -> Result<Value, McpError> {
    parsed(&host::read_resource(server, uri)?)
}

/// Completes an argument of a prompt or of a template; `reference` and `argument` as the protocol has them.
///
/// # Errors
/// The server cannot be reached, or returned an error.
pub fn complete(server: &str, reference: &Value, argument: &Value) -> Result<Value, McpError> {
    parsed(&host::complete(server, &reference.to_string(), &argument.to_string())?)
}

/// Parses the JSON text of a result.
///
/// # Errors
/// A server may nest it deeper than a parser follows.
pub fn parsed(result: &str) -> Result<Value, McpError> {
    serde_json::from_str(result).map_err(|problem| {
        let message = format!("the result of the server cannot be read: {problem}");
        McpError::Failed(Failure { message, request_sent: true })
    })
}

/// Converts an error of the host; called by `?`.
pub(crate) fn convert(error: &McpError) -> Error {
    let failed =
        |failure: &Failure| Error::Failed { message: failure.message.clone(), retryable: !failure.request_sent };
    match error {
        McpError::Denied(text) | McpError::Disabled(text) | McpError::LoginRequired(text) => {
            Error::Denied(text.clone())
        }
        McpError::NotFound(text) => Error::NotFound(text.clone()),
        McpError::Invalid(text) => Error::InvalidInput(text.clone()),
        McpError::TooLarge(limit) => Error::failed(format!("the result of the server exceeds {limit} bytes")),
        McpError::TimedOut(failure) | McpError::Failed(failure) => failed(failure),
        McpError::Cancelled(_) => Error::Cancelled,
        McpError::Server(error) => {
            let message = format!("the server returned the error {}: {}", error.code, error.message);
            Error::Failed { message, retryable: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_errors_keep_their_kind() {
        let failure = |request_sent| Failure { message: "m".to_owned(), request_sent };
        let failed = |retryable| Error::Failed { message: "m".to_owned(), retryable };
        for (error, expected) in [
            (McpError::LoginRequired("log in".to_owned()), Error::Denied("log in".to_owned())),
            (McpError::NotFound("n".to_owned()), Error::NotFound("n".to_owned())),
            (McpError::Invalid("i".to_owned()), Error::InvalidInput("i".to_owned())),
            (McpError::TimedOut(failure(true)), failed(false)),
            (McpError::Failed(failure(false)), failed(true)),
            (McpError::Cancelled(failure(false)), Error::Cancelled),
        ] {
            assert_eq!(Error::from(error), expected);
        }
        let server = ServerError { code: -32602, message: "no city".to_owned(), data: None };
        let Error::Failed { message, .. } = Error::from(McpError::Server(server)) else { panic!() };
        assert_eq!(message, "the server returned the error -32602: no city");
    }

    #[test]
    fn result_that_nests_too_deep_is_an_error() {
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        assert!(matches!(parsed(&deep), Err(McpError::Failed(failure)) if failure.request_sent));
        assert_eq!(parsed("{}").unwrap(), serde_json::json!({}));
    }
}
