//! `/redo`: undoes the last undo.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("redo", "Undo the last undo", "redo")
}
