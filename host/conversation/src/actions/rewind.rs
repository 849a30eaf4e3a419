//! Lists turns, or undoes several.

use crate::actions::definition::ConversationAction;
use crate::chat::Chat;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::failure::Result;
use pinion_app::undo::rewind::RewindTarget;

/// The action.
pub(super) const ACTION: Rewind = Rewind;

/// The action `rewind`.
pub(super) struct Rewind;

impl ConversationAction for Rewind {
    fn name(&self) -> &'static str {
        "rewind"
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        match arguments {
            "" => Box::pin(chat.list_turns()),
            arguments => Box::pin(chat.rewind(arguments, RewindTarget::Back(1))),
        }
    }
}
