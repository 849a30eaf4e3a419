//! `/btw`: asks a side question.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("btw", "Ask beside the conversation, which does not learn of it", "btw").argument("<question>")
}
