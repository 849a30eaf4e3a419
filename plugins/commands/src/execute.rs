//! `/execute`: executes a plan.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("execute", "Execute a plan in a new session", "execute").argument("<file>")
}
