//! Lists the settings of the UI.

use crate::actions::definition::ConversationAction;
use pinion_tui::UiCommand;

/// The action.
pub(super) const ACTION: ListSettings = ListSettings;

/// The action `settings`.
pub(super) struct ListSettings;

impl ConversationAction for ListSettings {
    fn name(&self) -> &'static str {
        "settings"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Settings)
    }
}
