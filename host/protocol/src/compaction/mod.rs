//! Compaction records, and the view of the history that the model gets.

use crate::content::Content;
use crate::event::CompactionReason;
use crate::message::{Message, ToolResultMessage, UserMessage};
use crate::output_bounds::{OutputBounds, cut_lines};
use crate::usage::Spend;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub mod kept_words;
pub mod policy;
pub mod shrink;

/// Kind of the extension messages that hold a compaction [`CompactionRecord`].
pub const COMPACTION_MESSAGE: &str = "pinion/compaction";

/// Precedes the summary, so that the model does not read it as a request.
pub const SUMMARY_FRAME: &str =
    "[What follows is a summary of the conversation so far. It is background, not a request.]\n\n";

/// Data of a compaction message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactionRecord {
    /// Replaces the messages that are not kept; empty when all are kept.
    pub summary: String,
    /// Number of messages to keep at the start, before the summary.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: usize,
    /// Number of messages to keep at the end.
    pub kept: usize,
    /// Bound on the tool results among the messages kept at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Bound on the tool results among the messages kept at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cut: Option<Cut>,
}

/// A bound on tool results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Bytes of text that remain of each result; images are removed.
    pub bytes: usize,
    /// Lines that remain of each text of a result; all of them in sessions that state no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// Number of messages at the end that are exempt.
    pub spared: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Returns the part of a history that the model sees: the messages that the last compaction kept at the start, its
/// summary, the messages that it kept at the end, and all messages after it. Ignores compactions that cannot be parsed.
pub fn view(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut seen: Vec<Arc<Message>> = Vec::new();
    for message in messages {
        match record(&message) {
            Some(record) => seen = record.apply(&seen, message.timestamp()),
            None => seen.push(message),
        }
    }
    seen
}

fn record(message: &Message) -> Option<CompactionRecord> {
    match message {
        Message::Extension(extension) if extension.kind == COMPACTION_MESSAGE => {
            serde_json::from_value(extension.data.clone()).ok()
        }
        _ => None,
    }
}

/// Returns whether a message is the summary of a compaction, which the user did not write.
pub fn is_summary(message: &Message) -> bool {
    let Message::User(message) = message else { return false };
    message.content.first().and_then(Content::as_text).is_some_and(|text| text.starts_with(SUMMARY_FRAME))
}

impl CompactionRecord {
    /// Returns the messages that the model sees instead of `messages` after this compaction.
    pub fn apply(&self, messages: &[Arc<Message>], timestamp: Timestamp) -> Vec<Arc<Message>> {
        let (head, rest) = messages.split_at(messages.len() - self.kept.min(messages.len()));
        let head = head[..self.first.min(head.len())].iter().map(|message| match self.first_cut {
            Some(cut) => cut.apply(message),
            None => message.clone(),
        });
        let kept = rest;
        let summary = (!self.summary.is_empty()).then(|| {
            let content = vec![Content::text(format!("{SUMMARY_FRAME}{}", self.summary))];
            Arc::new(Message::User(UserMessage { content, label: None, timestamp }))
        });
        let spared = kept.len() - self.cut.map_or(kept.len(), |cut| cut.spared).min(kept.len());
        let cut = kept.iter().enumerate().map(|(at, message)| match self.cut {
            Some(cut) if at < spared => cut.apply(message),
            _ => message.clone(),
        });
        head.chain(summary).chain(cut).collect()
    }
}

impl Cut {
    /// Shortens a tool result; returns any other message unchanged.
    pub fn apply(self, message: &Arc<Message>) -> Arc<Message> {
        let Message::ToolResult(result) = &**message else { return message.clone() };
        let bounds = OutputBounds { max_text_bytes: self.bytes, max_images: 0, ..OutputBounds::default() };
        let lines = |part: &Content| part.as_text().map_or(0, |text| text.lines().count());
        let is_too_long = |most| result.content.iter().any(|part| lines(part) > most);
        if !self.lines.is_some_and(is_too_long) && !bounds.is_exceeded_by(&result.content) {
            return message.clone();
        }
        let content = result.content.iter().cloned().map(|part| match (part, self.lines) {
            (Content::Text { text }, Some(most)) => Content::Text { text: cut_lines(text, most) },
            (part, _) => part,
        });
        let content = bounds.apply(content.collect());
        Arc::new(Message::ToolResult(ToolResultMessage { content, details: None, ..result.clone() }))
    }
}

// The port to applications that choose the replacement of a long history themselves.

/// Chooses the replacement of a long history.
pub trait CompactionStrategy: Send + Sync {
    /// Returns the replacement for the older part of a history; `None` for the built-in way. Must return promptly once
    /// `history.token` is cancelled.
    ///
    /// The loop keeps fewer messages where a call would lose its result, and shortens the summary until the history
    /// fits. If the kept messages alone do not fit, it compacts in the built-in way.
    fn replace<'a>(&'a self, history: LongHistory<'a>) -> BoxFuture<'a, Option<Replacement>>;
}

/// A history to be compacted.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LongHistory<'a> {
    /// The messages that the model sees now.
    pub messages: &'a [Arc<Message>],
    /// Maximum tokens of the messages afterwards, by the estimate of the loop.
    pub tokens: u64,
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// Cancelled when the run is aborted.
    pub token: &'a CancellationToken,
}

/// The messages that remain of a history, and a summary of the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replacement {
    /// Number of messages to keep at the start.
    pub first: usize,
    /// Summary of the messages in between.
    pub summary: String,
    /// Number of messages to keep at the end.
    pub recent: usize,
    /// Tokens and cost of the work on it, which count toward the run.
    pub spend: Spend,
}

impl<'a> LongHistory<'a> {
    /// Describes a history to a strategy.
    pub fn new(
        messages: &'a [Arc<Message>],
        tokens: u64,
        reason: CompactionReason,
        token: &'a CancellationToken,
    ) -> Self {
        Self { messages, tokens, reason, token }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_a_message_of_the_user_that_begins_with_the_frame() {
        assert!(is_summary(&Message::user(format!("{SUMMARY_FRAME}It read a file."))));
        assert!(!is_summary(&Message::user("It read a file.")));
        assert!(!is_summary(&Message::user(format!("See: {SUMMARY_FRAME}"))));
    }
}
