//! Shows the keys.

use crate::actions::definition::{ActionScene, ConversationAction};
use crate::line_editor::keys;
use pinion_tui::UiCommand;

/// The action.
pub(super) const ACTION: ShowKeys = ShowKeys;

/// The action `keys`.
pub(super) struct ShowKeys;

impl ConversationAction for ShowKeys {
    fn name(&self) -> &'static str {
        "keys"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Keys)
    }

    fn perform_at_once(&self, _scene: &ActionScene<'_>, _arguments: &str) -> Option<String> {
        Some(keys().to_owned())
    }
}
