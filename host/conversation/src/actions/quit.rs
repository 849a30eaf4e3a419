//! Ends the conversation on the full screen, also while the agent works.

use crate::actions::definition::ConversationAction;
use pinion_tui::UiCommand;

/// The action.
pub(super) const ACTION: Quit = Quit;

/// The action `quit`.
pub(super) struct Quit;

impl ConversationAction for Quit {
    fn name(&self) -> &'static str {
        "quit"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Quit)
    }
}
