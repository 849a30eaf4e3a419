//! `/net`: shows or changes the network of programs.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("net", "Show or change the network of programs", "network").argument("[on|off|allow <host>]")
}
