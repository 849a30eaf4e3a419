//! `/compact`: replaces the conversation with a summary, compares it with the conversation before, or undoes it.

use pinion_plugin_sdk::bindings::commands::exports::pinion::plugin::commands::OtherAction;
use pinion_plugin_sdk::prelude::*;

/// The options, and the arguments of the application's action for the last compaction.
const OPTIONS: [(&str, &str); 2] = [("--show", "show"), ("--undo", "undo")];

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::new("compact", "Replace the conversation with a summary; compare, or undo it", |typed, _call| {
        let typed = typed.trim();
        if let Some((_, argument)) = OPTIONS.iter().find(|(option, _)| *option == typed) {
            let (name, argument) = ("compaction".to_owned(), Some((*argument).to_owned()));
            return Ok(vec![Action::Other(OtherAction { name, argument })]);
        }
        Ok(vec![Action::Compact((!typed.is_empty()).then(|| typed.to_owned()))])
    })
    .argument("[focus|--show|--undo]")
}
