//! `/plan`: writes a plan, or switches plan mode.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("plan", "Write a plan for a task, or turn plan mode on or off", "plan").argument("[task]")
}
