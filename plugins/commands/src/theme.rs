//! `/theme`: changes the colours.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("theme", "Change the colours", "theme").argument("[name]")
}
