//! `/new`: starts a new session.

use crate::arguments::plain;
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("new", "Start a new session", || Action::NewSession)
}
