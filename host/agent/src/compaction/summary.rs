//! A summary of a conversation, written by its model.

use super::{CompactionError, Compactor};
use crate::channel::Events;
use crate::config::LoopConfig;
use crate::context::Context;
use crate::turn::Turn;
use pinion_protocol::message::{Message, StopReason};
use pinion_protocol::provider::ThinkingLevel;
use pinion_protocol::usage::Spend;
use std::sync::Arc;

const INSTRUCTION: &str = "\
Write a summary of this conversation that lets you continue it when everything else is forgotten. Keep: the user's task and \
wishes, in their words where they matter; decisions and why they were made; what was done, with the files that were read \
or changed and what is in them; commands that matter and their results; what failed; what is still open and comes next. \
Leave out what no longer matters. Write only the summary.";

/// The text that the model wrote, or the reason there is none, and what was spent on it.
pub(super) struct Summary {
    pub(super) text: Result<String, CompactionError>,
    pub(super) spend: Spend,
}

impl Compactor<'_> {
    /// Asks for a summary of `messages`: first the model for summaries, if there is one.
    pub(super) async fn summary(&self, messages: &[Arc<Message>], instructions: Option<&str>) -> Summary {
        let mut summarizing = self.context.clone();
        summarizing.messages = messages.to_vec();
        let instruction = match instructions {
            Some(more) => format!("{INSTRUCTION}\n\nThe user adds: {more}"),
            None => INSTRUCTION.to_owned(),
        };
        summarizing.messages.push(Arc::new(Message::user(instruction)));
        let Some(found) = &self.config.ports.summarizer else { return self.ask(&summarizing, self.config).await };
        let mut config = self.config.clone().with_model(found.clone());
        // Meant for the other model.
        (config.policy.options.thinking, config.policy.options.thinking_budget) = (ThinkingLevel::Off, None);
        let first = self.ask(&summarizing, &config).await;
        let Err(CompactionError::NoSummary { message }) = &first.text else { return first };
        tracing::warn!(message, "the model for summaries wrote none; the model of the conversation is asked");
        let mut second = self.ask(&summarizing, self.config).await;
        second.spend.add(first.spend);
        second
    }

    async fn ask(&self, context: &Context, config: &LoopConfig) -> Summary {
        // No watchers: the finished summary is reported as one event.
        let turn = Turn { context, config, events: &Events::default(), token: self.token };
        let reply = turn.answer_without_tools().await;
        let text = match reply.stop_reason {
            StopReason::Aborted => Err(CompactionError::Aborted),
            StopReason::Error => Err(CompactionError::NoSummary { message: reply.error.clone().unwrap_or_default() }),
            StopReason::Stop | StopReason::Length | StopReason::ToolUse => Ok(reply.text()),
        };
        let is_empty = |text: &String| text.trim().is_empty();
        let text = match text {
            Ok(text) if is_empty(&text) => {
                Err(CompactionError::NoSummary { message: "its reply holds no text".to_owned() })
            }
            text => text,
        };
        Summary { text, spend: reply.spend() }
    }
}
