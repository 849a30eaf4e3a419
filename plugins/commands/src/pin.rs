//! `/pin`: pins a text, which every compaction keeps word for word.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("pin", "Pin a text, which every compaction keeps word for word", "pin").argument("<text>")
}
