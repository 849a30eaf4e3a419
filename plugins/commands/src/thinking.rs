//! `/thinking`: shows or changes how much the model thinks.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("thinking", "Show or change how much the model thinks", "thinking")
        .argument("[off|minimal|low|medium|high|xhigh]")
}
