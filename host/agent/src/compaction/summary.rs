//! A summary of a conversation, written by its model.

use super::{CompactionError, Compactor};
use crate::channel::Events;
use crate::turn::Turn;
use pinion_protocol::message::{Message, StopReason};
use pinion_protocol::usage::Spend;
use std::sync::Arc;

const INSTRUCTION: &str = "\
Write a summary of this conversation that lets you continue it when everything else is forgotten. Keep: the user's task and \
wishes, in their words where they matter; decisions and why they were made; what was done, with the files that were read \
or changed and what is in them; commands that matter and their results; what failed; what is still open and comes next. \
Leave out what no longer matters. Write only the summary.";

/// Summary written by the model, with the spend on it.
pub(super) struct Summary {
    pub(super) text: String,
    pub(super) spend: Spend,
}

impl Compactor<'_> {
    /// Asks for a summary of `messages`.
    pub(super) async fn summary(
        &self,
        messages: &[Arc<Message>],
        instructions: Option<&str>,
    ) -> Result<Summary, CompactionError> {
        let mut asking = self.context.clone();
        asking.messages = messages.to_vec();
        let instruction = match instructions {
            Some(more) => format!("{INSTRUCTION}\n\nThe user adds: {more}"),
            None => INSTRUCTION.to_owned(),
        };
        asking.messages.push(Arc::new(Message::user(instruction)));
        // No watchers: the finished summary is reported as one event.
        let turn = Turn { context: &asking, config: self.config, events: &Events::default(), token: self.token };
        let reply = turn.answer_without_tools().await;
        match reply.stop_reason {
            StopReason::Aborted => return Err(CompactionError::Aborted),
            StopReason::Error => return Err(CompactionError::NoSummary { message: reply.error.unwrap_or_default() }),
            StopReason::Stop | StopReason::Length | StopReason::ToolUse => {}
        }
        let text = reply.text();
        if text.trim().is_empty() {
            return Err(CompactionError::NoSummary { message: "its reply holds no text".to_owned() });
        }
        Ok(Summary { text, spend: reply.spend() })
    }
}
