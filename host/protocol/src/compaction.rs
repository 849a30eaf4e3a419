//! The record of a compaction, and the history as the model sees it.

use crate::bound::OutputBounds;
use crate::content::Content;
use crate::message::{Message, ToolResultMessage, UserMessage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind of the extension message that holds a compaction.
pub const COMPACTION_MESSAGE: &str = "pinion/compaction";

/// Goes before the summary, so that the model takes it for what it is.
pub const FRAME: &str = "[What follows is a summary of the conversation so far. It is background, not a request.]\n\n";

/// What a compaction message holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// In the place of what is not kept; empty when all is.
    pub summary: String,
    /// Messages at the end that are kept.
    pub kept: usize,
    /// What became of the results of tools among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// Results of tools are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// To so many bytes of text, and no images.
    pub bytes: usize,
    /// But not those among so many messages at the end.
    pub spared: usize,
}

/// What the model sees of a history: from its last compaction on, the summary and what came after, and of what came
/// before only what the compaction kept. Compactions that cannot be read are passed over.
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

fn record(message: &Message) -> Option<Record> {
    match message {
        Message::Extension(extension) if extension.kind == COMPACTION_MESSAGE => {
            serde_json::from_value(extension.data.clone()).ok()
        }
        _ => None,
    }
}

impl Record {
    /// Returns what the model sees of `messages` from then on.
    pub fn apply(&self, messages: &[Arc<Message>], timestamp: Timestamp) -> Vec<Arc<Message>> {
        let kept = &messages[messages.len() - self.kept.min(messages.len())..];
        let summary = (!self.summary.is_empty()).then(|| {
            let content = vec![Content::text(format!("{FRAME}{}", self.summary))];
            Arc::new(Message::User(UserMessage { content, timestamp }))
        });
        let spared = kept.len() - self.cut.map_or(kept.len(), |cut| cut.spared).min(kept.len());
        let cut = kept.iter().enumerate().map(|(at, message)| match self.cut {
            Some(cut) if at < spared => cut.apply(message),
            _ => message.clone(),
        });
        summary.into_iter().chain(cut).collect()
    }
}

impl Cut {
    /// Returns the message with its result cut; any other message as it is.
    pub fn apply(self, message: &Arc<Message>) -> Arc<Message> {
        let Message::ToolResult(result) = &**message else { return message.clone() };
        let bounds = OutputBounds { max_text_bytes: self.bytes, max_images: 0, ..OutputBounds::default() };
        if !bounds.is_exceeded_by(&result.content) {
            return message.clone();
        }
        let content = bounds.apply(result.content.clone());
        Arc::new(Message::ToolResult(ToolResultMessage { content, details: None, ..result.clone() }))
    }
}
