//! `/copy`: copies an answer or a code block.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("copy", "Copy the last answer or code block, or the n-th last one", "copy")
        .argument("[code] [n]")
}
