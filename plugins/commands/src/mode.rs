//! `/mode`: shows or changes what needs approval.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("mode", "Show or change what needs approval", "mode").argument("[ask|confirm|smart|edits|plan|all]")
}
