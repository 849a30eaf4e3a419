//! Undoes the last turn: files and conversation.

use crate::actions::definition::ConversationAction;
use crate::chat::Chat;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::failure::Result;
use pinion_app::undo::rewind::RewindTarget;

/// The action.
pub(super) const ACTION: Undo = Undo;

/// The action `undo`.
pub(super) struct Undo;

impl ConversationAction for Undo {
    fn name(&self) -> &'static str {
        "undo"
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(chat.rewind(arguments, RewindTarget::Back(1)))
    }
}
