//! Opens a plan in the external editor.

use crate::actions::definition::ConversationAction;
use crate::plan::list_plans;
use pinion_app::workspace_base::Base;
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: EditPlan = EditPlan;

/// The action `edit-plan`.
pub(super) struct EditPlan;

impl ConversationAction for EditPlan {
    fn name(&self) -> &'static str {
        "edit-plan"
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::EditPlan)
    }

    fn arguments(&self, base: &Base) -> Option<Vec<PickChoice>> {
        Some(list_plans(&base.workspace))
    }
}
