//! Actions that go back and forth between turns: files and conversation.

use crate::actions::definition::ConversationAction;
use crate::chat::Chat;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::failure::Result;
use pinion_app::undo::rewind::RewindTarget;

/// Undoes the last turn.
pub(super) const UNDO: Undo = Undo;

/// Undoes the last undo.
pub(super) const REDO: Redo = Redo;

/// Lists turns, or undoes several.
pub(super) const REWIND: Rewind = Rewind;

/// The action `undo`.
pub(super) struct Undo;

/// The action `redo`.
pub(super) struct Redo;

/// The action `rewind`.
pub(super) struct Rewind;

impl ConversationAction for Undo {
    fn name(&self) -> &'static str {
        "undo"
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(chat.rewind(arguments, RewindTarget::Back(1)))
    }
}

impl ConversationAction for Redo {
    fn name(&self) -> &'static str {
        "redo"
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(chat.rewind(arguments, RewindTarget::Redo))
    }
}

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
