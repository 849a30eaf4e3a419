//! Writes a plan, or switches plan mode.

use crate::actions::definition::ConversationAction;
use pinion_tui::UiCommand;

/// The action.
pub(super) const ACTION: MakePlan = MakePlan;

/// The action `plan`.
pub(super) struct MakePlan;

impl ConversationAction for MakePlan {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Plan)
    }
}
