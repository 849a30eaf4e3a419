//! Asks a side question.

use pinion_console::process::signals::interruptible_by;
use crate::actions::definition::ConversationAction;
use crate::chat::Chat;
use crate::perform::NextPrompt;
use crate::side_question::answer;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::failure::Result;
use pinion_tui::UiCommand;
use tokio_util::sync::CancellationToken;

/// The action.
pub(super) const ACTION: AskAside = AskAside;

/// The action `btw`.
pub(super) struct AskAside;

impl ConversationAction for AskAside {
    fn name(&self) -> &'static str {
        "btw"
    }

    fn is_for_all_plugins(&self) -> bool {
        true
    }

    fn on_screen(&self) -> Option<UiCommand> {
        Some(UiCommand::Aside)
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(async move {
            let page = match arguments {
                "" => "`/btw` takes a question".to_owned(),
                question => {
                    let (agent, token) = (chat.ready.agent.clone(), CancellationToken::new());
                    let asking = answer(&agent, question, &token);
                    let stop = token.clone();
                    interruptible_by(move || stop.cancel(), asking).await.0
                }
            };
            chat.page(&page);
            Ok(NextPrompt::default())
        })
    }
}
