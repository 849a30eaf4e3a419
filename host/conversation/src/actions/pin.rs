//! Pins a text, which every compaction keeps word for word.

use pinion_console::output::text;
use crate::actions::definition::ConversationAction;
use crate::chat::Chat;
use crate::perform::NextPrompt;
use pinion_agent::Message;
use pinion_agent::compaction::PIN_FRAME;
use pinion_agent::futures_util::future::LocalBoxFuture;
use pinion_agent::text::one_line;
use pinion_app::failure::{Failure, Result};

/// The action.
pub(super) const ACTION: PinText = PinText;

/// The action `pin`.
pub(super) struct PinText;

/// Maximum bytes of a pinned text.
const MAX_BYTES: usize = 4_000;
/// Characters of a pinned text where it is shown.
const LABEL: usize = 60;

impl ConversationAction for PinText {
    fn name(&self) -> &'static str {
        "pin"
    }

    fn perform<'a>(&'a self, chat: &'a mut Chat<'_>, arguments: &'a str) -> LocalBoxFuture<'a, Result<NextPrompt>> {
        Box::pin(async move {
            let pinned = arguments.trim();
            if pinned.is_empty() || pinned.len() > MAX_BYTES {
                return Err(Failure::usage(format!("`/pin` takes a text of 1 to {MAX_BYTES} bytes")));
            }
            let shown = one_line(pinned, LABEL);
            let message = Message::labelled(format!("pinned: {shown}"), format!("{PIN_FRAME}{pinned}"));
            chat.ready.agent.append(vec![message]).map_err(Failure::from)?;
            chat.write_line(&text!("pinned: {} (every compaction keeps it)", shown));
            Ok(NextPrompt::default())
        })
    }
}
