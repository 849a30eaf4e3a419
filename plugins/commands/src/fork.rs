//! `/fork`: continues in a copy of the session.

use crate::arguments::plain;
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("fork", "Continue in a copy of the session", || Action::Fork)
}
