//! `/keys`: shows the keys.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("keys", "Show the keys", "keys")
}
