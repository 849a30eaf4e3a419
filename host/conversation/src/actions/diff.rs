//! Shows the changes of the agent to files.

use crate::actions::definition::{ConversationAction, choice};
use crate::chat::Chat;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::workspace_base::Base;
use pinion_app::failure::Result;
use pinion_tui::PickChoice;

/// The action.
pub(super) const ACTION: ShowDiff = ShowDiff;

/// The action `diff`.
pub(super) struct ShowDiff;

impl ConversationAction for ShowDiff {
    fn name(&self) -> &'static str {
        "diff"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn arguments(&self, _base: &Base) -> Option<Vec<PickChoice>> {
        Some(vec![choice("turn", "what the last turn changed"), choice("session", "what the session changed")])
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(chat.diff(arguments))
    }
}
