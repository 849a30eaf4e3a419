//! `/keep`: keeps a choice for all conversations.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("keep", "Keep a choice for all conversations", "keep").argument("<mode|model|theme|thinking>")
}
