//! Changes the colours of the full screen.

use crate::actions::definition::ConversationAction;
use crate::full::themes;
use pinion_app::workspace_base::Base;
use pinion_tui::{PickChoice, UiCommand};

/// The action.
pub(super) const ACTION: ChangeTheme = ChangeTheme;

/// The action `theme`.
pub(super) struct ChangeTheme;

impl ConversationAction for ChangeTheme {
    fn name(&self) -> &'static str {
        "theme"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn is_only_on_screen(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Theme)
    }

    fn arguments(&self, base: &Base) -> Option<Vec<PickChoice>> {
        Some(themes::list(base))
    }
}
