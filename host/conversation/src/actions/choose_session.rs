//! Chooses the session to resume in a list.

use crate::actions::definition::ConversationAction;
use crate::full::lists;
use pinion_app::workspace_base::Base;
use pinion_tui::{Pick, PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: ChooseSession = ChooseSession;

/// The action `choose-session`.
pub(super) struct ChooseSession;

impl ConversationAction for ChooseSession {
    fn name(&self) -> &'static str {
        "choose-session"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::ChooseSession)
    }

    fn arguments(&self, base: &Base) -> Option<Vec<PickChoice>> {
        Some(lists::sessions(base, Pick::Session))
    }
}
