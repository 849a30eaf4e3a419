//! `/edit-plan`: opens a plan in the external editor.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("edit-plan", "Edit a plan, by default the latest one", "edit-plan").argument("[file]")
}
