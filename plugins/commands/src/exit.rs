//! `/exit`: ends the conversation, like `/quit`.

use crate::arguments::plain;
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("exit", "Quit Pinion", || Action::Quit).bare_action("quit")
}
