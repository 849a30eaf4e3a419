//! `/agents`: shows everything that runs.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("agents", "Show everything that runs: sub-agents, branches, steps", "agents")
}
