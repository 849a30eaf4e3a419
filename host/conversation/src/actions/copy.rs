//! Copies an answer or a code block.

use crate::actions::definition::ConversationAction;
use pinion_tui::UiCommand;

/// The action.
pub(super) const ACTION: Copy = Copy;

/// The action `copy`.
pub(super) struct Copy;

impl ConversationAction for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Copy)
    }
}
