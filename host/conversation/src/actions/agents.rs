//! Shows everything that runs, or has run, in the conversation.

use crate::actions::definition::ConversationAction;
use crate::chat::Chat;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::failure::Result;
use pinion_session_store::History;
use pinion_tui::{AgentTree, UiCommand};

/// The action.
pub(super) const ACTION: ShowAgents = ShowAgents;

/// The action `agents`.
pub(super) struct ShowAgents;

impl ConversationAction for ShowAgents {
    fn name(&self) -> &'static str {
        "agents"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Agents)
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, _arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(async move {
            let session = chat.ready.session.on_disk.as_ref().filter(|session| session.path().exists());
            let events = match session {
                Some(session) => History::read(session.path())?.into_events(Some(session.path())),
                None => Vec::new(),
            };
            chat.page(&AgentTree::of_past(&events).page());
            Ok(NextPrompt::default())
        })
    }
}
