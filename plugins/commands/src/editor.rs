//! `/editor`: opens the external editor.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("editor", "Write a message in the external editor", "editor").argument("[text]")
}
