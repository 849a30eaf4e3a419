//! Undoes the last undo.

use crate::actions::definition::ConversationAction;
use crate::chat::Chat;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::failure::Result;
use pinion_app::undo::rewind::RewindTarget;

/// The action.
pub(super) const ACTION: Redo = Redo;

/// The action `redo`.
pub(super) struct Redo;

impl ConversationAction for Redo {
    fn name(&self) -> &'static str {
        "redo"
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(chat.rewind(arguments, RewindTarget::Redo))
    }
}
