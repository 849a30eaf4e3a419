//! Actions that show a page about the conversation and change nothing.

use crate::actions::definition::{ActionScene, ConversationAction, choice};
use crate::chat::Chat;
use crate::context_report::context_report;
use crate::line_editor::keys;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_session_store::History;
use pinion_tui::{AgentTree, PickChoice, UiCommand};

/// Shows everything that runs, or has run, in the conversation.
pub(super) const AGENTS: ShowAgents = ShowAgents;

/// Shows the parts that fill the context.
pub(super) const CONTEXT: ShowContext = ShowContext;

/// Shows the changes of the agent to files.
pub(super) const DIFF: ShowDiff = ShowDiff;

/// Shows the keys.
pub(super) const KEYS: ShowKeys = ShowKeys;

/// The action `agents`.
pub(super) struct ShowAgents;

/// The action `context`.
pub(super) struct ShowContext;

/// The action `diff`.
pub(super) struct ShowDiff;

/// The action `keys`.
pub(super) struct ShowKeys;

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

impl ConversationAction for ShowKeys {
    fn name(&self) -> &'static str {
        "keys"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Keys)
    }

    fn perform_at_once(&self, _scene: &ActionScene<'_>, _arguments: &str) -> Option<String> {
        Some(keys().to_owned())
    }
}
