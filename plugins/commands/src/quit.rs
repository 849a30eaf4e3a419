//! `/quit`: ends the conversation.

use crate::arguments::plain;
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("quit", "Quit Pinion", || Action::Quit).bare_action("quit")
}
