//! The built-in bridge to MCP servers: their tools, prompts and resources, as the contract has them.
//!
//! The host starts servers and speaks the protocol (`mcp`). This crate decides what the model and the user see of them: names,
//! schemas that every vendor accepts, results, and when tools are found by a search instead of being listed. Servers are
//! strangers: their texts are cleaned and bounded, and their hints about tools only ever ask for more care.

mod catalog;
mod completion;
mod offer;
mod prompts;
mod resources;
mod result;
mod search;
mod settings;
mod tasks;

use listing::clean;
use listing::schema::Fitted;
use pinion_plugin_sdk::mcp::{self, McpError};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::{Offer, serde_json};
use settings::Settings;
use std::collections::BTreeMap;

/// Bytes of an error.
const MAX_ERROR: usize = 8 * 1024;

/// The plugin.
pub struct Mcp;

impl Plugin for Mcp {
    fn tools() -> Vec<Tool> {
        offer::loaded()
    }

    fn tool(name: &str, call: &Call) -> Option<Tool> {
        if let Some(tool) = search::own(name) {
            return Some(tool);
        }
        let route: Route = call.route()?;
        Some(Tool::with_text(name, "", "{}", move |input, _: &Call| route.call(input)))
    }

    fn commands() -> Vec<Command> {
        // Called with nothing granted when the plugin is loaded, and for a command: the prompts need the servers.
        let servers = if cfg!(target_arch = "wasm32") { mcp::servers() } else { Vec::new() };
        let commands = prompts::commands(&servers);
        if commands.is_empty() { vec![prompts::list()] } else { commands }
    }

    fn offer() -> Result<Offer, String> {
        Ok(offer::offer(&mcp::servers(), Settings::read()?))
    }
}

// One hour: the settings of each server decide how long its calls may take.
export!(
    Mcp,
    exports = [tools, commands, offers],
    asks = { "mcp": true },
    limits = { "deadline-ms": 3600000, "grace-ms": 1000 },
    lifetime = "reused"
);

/// The data that the host returns with each call of a listed tool.
#[derive(Deserialize)]
struct Route {
    server: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    names: BTreeMap<String, String>,
    #[serde(default)]
    connect: bool,
}

impl Route {
    /// Calls the tool, or starts the server. `input` is JSON text.
    fn call(&self, input: &str) -> Result<Output> {
        if self.connect {
            return connect(&self.server).map(Output::from);
        }
        if self.names.is_empty() {
            return call_server(&self.server, &self.tool, input);
        }
        let input = serde_json::from_str(input).map_err(Error::invalid_input)?;
        call_server(&self.server, &self.tool, &Fitted::arguments(&self.names, input).to_string())
    }
}

/// Calls a tool of a server with arguments as JSON text.
fn call_server(server: &str, tool: &str, input: &str) -> Result<Output> {
    let result = mcp::call_tool_with_text(server, tool, input).map_err(|error| failed(server, error))?;
    let keep: result::Keep<'_> = &|text| mcp::keep(text);
    if let Some(output) = result::of_texts(&result, keep) {
        return Ok(output);
    }
    let result = mcp::parsed(&result).map_err(|error| failed(server, error))?;
    Ok(result::of_tool(&result, keep))
}

/// Starts a server, and describes its offer.
fn connect(server: &str) -> Result<String> {
    mcp::connect(server).map_err(|error| failed(server, error))?;
    let servers = mcp::servers();
    let tools = servers.iter().find(|known| known.name == server).map_or(0, |known| known.tools.len());
    Ok(format!(
        "connected to `{}`; it has {tools} tools, which are there with the next message",
        clean::line(server, 64)
    ))
}

/// Converts an error of a server. The model reads its text, and the user may.
fn failed(server: &str, error: McpError) -> Error {
    let is_known_by_text = matches!(error, McpError::NotFound(_) | McpError::LoginRequired(_) | McpError::Denied(_));
    let name = clean::line(server, 64);
    let text = |text: String| match is_known_by_text || text.starts_with("MCP server `") {
        true => clean::text(&text, MAX_ERROR),
        false => format!("MCP server `{name}`: {}", clean::text(&text, MAX_ERROR)),
    };
    match Error::from(error) {
        Error::Cancelled => Error::Cancelled,
        Error::InvalidInput(said) => Error::InvalidInput(text(said)),
        Error::NotFound(said) => Error::NotFound(text(said)),
        Error::Denied(said) => Error::Denied(text(said)),
        Error::Failed { message, retryable } => Error::Failed { message: text(message), retryable },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::mcp::{Failure, ServerError};

    #[test]
    fn errors_name_the_server_and_hide_nothing() {
        let error = ServerError { code: -32000, message: "no\u{1b}[2J".to_owned(), data: None };
        let Error::Failed { message, retryable } = failed("docs", McpError::Server(error)) else { panic!() };
        assert_eq!(
            (message.as_str(), retryable),
            ("MCP server `docs`: the server returned the error -32000: no�[2J", false)
        );
        let failure = Failure { message: "it does not start".to_owned(), request_sent: false };
        assert!(matches!(failed("docs", McpError::Failed(failure)), Error::Failed { retryable: true, .. }));
        let hint = "log in\nhint: `pinion mcp login docs`".to_owned();
        assert_eq!(failed("docs", McpError::LoginRequired(hint.clone())), Error::Denied(hint));
    }
}
