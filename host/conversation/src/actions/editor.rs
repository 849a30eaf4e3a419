//! Opens the external editor.

use crate::actions::definition::ConversationAction;
use pinion_tui::UiCommand;

/// The action.
pub(super) const ACTION: OpenEditor = OpenEditor;

/// The action `editor`.
pub(super) struct OpenEditor;

impl ConversationAction for OpenEditor {
    fn name(&self) -> &'static str {
        "editor"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Edit)
    }
}
