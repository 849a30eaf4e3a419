//! `/compact`: replaces the conversation with a summary.

use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::new("compact", "Replace the conversation with a summary", |typed, _call| {
        let instructions = typed.trim();
        Ok(vec![Action::Compact((!instructions.is_empty()).then(|| instructions.to_owned()))])
    })
    .argument("[focus]")
}
