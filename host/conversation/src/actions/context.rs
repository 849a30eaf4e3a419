//! Shows the parts that fill the context.

use crate::actions::definition::{ActionScene, ConversationAction};
use crate::context_report::context_report;
use pinion_tui::UiCommand;

/// The action.
pub(super) const ACTION: ShowContext = ShowContext;

/// The action `context`.
pub(super) struct ShowContext;

impl ConversationAction for ShowContext {
    fn name(&self) -> &'static str {
        "context"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Immediate)
    }

    fn perform_at_once(&self, scene: &ActionScene<'_>, _arguments: &str) -> Option<String> {
        Some(context_report(scene.agent))
    }
}
