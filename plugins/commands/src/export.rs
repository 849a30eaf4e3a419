//! `/export`: writes the session to a file.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::for_action("export", "Write the session to a file as a document", "export").argument("[file.md|file.html]")
}
