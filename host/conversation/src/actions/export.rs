//! Writes the session to a file as a document.

use pinion_console::output::text;
use crate::actions::definition::ConversationAction;
use crate::chat::Chat;
use crate::export;
use crate::perform::NextPrompt;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_app::failure::Result;

/// The action.
pub(super) const ACTION: ExportSession = ExportSession;

/// The action `export`.
pub(super) struct ExportSession;

impl ConversationAction for ExportSession {
    fn name(&self) -> &'static str {
        "export"
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(async move {
            let file = export::export(chat.base, &chat.ready.session, arguments)?;
            chat.write_line(&text!("wrote {}", file));
            Ok(NextPrompt::default())
        })
    }
}
