//! `/permissions`: lists or removes rules about calls.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("permissions", "List the rules about calls, or remove one", "permissions")
        .argument("[remove <n>]")
}
