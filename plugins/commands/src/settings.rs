//! `/settings`: lists the settings of the UI.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("settings", "List the settings, and change them for this conversation", "settings")
}
