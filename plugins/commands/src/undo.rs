//! `/undo`: undoes the last turn.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("undo", "Undo the last turn: files and conversation", "undo")
}
