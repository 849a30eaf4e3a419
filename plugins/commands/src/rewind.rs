//! `/rewind`: lists turns, or undoes several.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("rewind", "List turns, or undo the last N: files and conversation", "rewind").argument("[n]")
}
