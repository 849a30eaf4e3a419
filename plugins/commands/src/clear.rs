//! `/clear`: starts a new session, like `/new`.

use crate::arguments::plain;
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("clear", "Start a new session", || Action::NewSession)
}
