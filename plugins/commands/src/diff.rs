//! `/diff`: shows what the agent changed.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("diff", "Show what the agent changed", "diff").argument("[turn|session]")
}
