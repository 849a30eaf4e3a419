//! Chooses the model in a list.

use crate::actions::definition::ConversationAction;
use pinion_tui::UiCommand;

/// The action.
pub(super) const ACTION: ChooseModel = ChooseModel;

/// The action `choose-model`.
pub(super) struct ChooseModel;

impl ConversationAction for ChooseModel {
    fn name(&self) -> &'static str {
        "choose-model"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::ChooseModel)
    }
}
