//! `/context`: shows what fills the context.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("context", "Show what fills the context", "context")
}
