//! Executes a plan in a new session.

use crate::actions::definition::ConversationAction;
use crate::plan::list_plans;
use pinion_app::workspace_base::Base;
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: ExecutePlan = ExecutePlan;

/// The action `execute`.
pub(super) struct ExecutePlan;

impl ConversationAction for ExecutePlan {
    fn name(&self) -> &'static str {
        "execute"
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Execute)
    }

    fn arguments(&self, base: &Base) -> Option<Vec<PickChoice>> {
        Some(list_plans(&base.workspace))
    }
}
