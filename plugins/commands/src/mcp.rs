//! `/mcp`: shows MCP servers and changes them.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("mcp", "Show MCP servers, or reconnect, switch or log in to one", "mcp")
        .argument("[tools|reload|reconnect|enable|disable|login|logout <name> [tool]]")
}
