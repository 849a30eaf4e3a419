//! `/reload`: reloads changed plugins.

use crate::arguments::plain;
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("reload", "Reload changed plugins", || Action::ReloadPlugins)
}
