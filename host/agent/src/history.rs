//! The part of a history that a run added, and the size of what every request contains besides it.

use crate::compaction::Compaction;
use crate::config::LoopConfig;
use crate::context::Context;
use pinion_protocol::json::json_bytes;
use pinion_protocol::message::Message;
use std::sync::Arc;

/// Estimates the tokens that every request contains: the system prompt and the tools.
pub(crate) fn fixed_tokens(context: &Context, config: &LoopConfig) -> u64 {
    let tools = config.ports.tools.definitions();
    let texts = tools.iter().flat_map(|tool| {
        let guidelines = tool.guidelines.iter().map(String::as_str);
        [&*tool.name, &*tool.description].into_iter().chain(guidelines)
    });
    let instructions = config.ports.tools.instructions();
    let texts = texts.chain(instructions.iter().map(|entry| &*entry.text));
    let texts: u64 = texts.map(|text| config.ports.counter.count(text)).sum();
    // The rule of thumb for text is good enough for schemas.
    let schemas: u64 = tools.iter().map(|tool| json_bytes(&tool.input_schema) / 4).sum();
    config.ports.counter.count(&context.system_prompt) + texts + schemas
}

/// The messages that a run added and the model still sees. In a long run, the others remain only in the session.
#[derive(Default)]
pub(crate) struct Added {
    pub(crate) messages: Vec<Arc<Message>>,
    /// Number of them that a compaction kept at the start of the history.
    first: usize,
}

impl Added {
    /// Drops what a compaction dropped of a history of `before` messages that is now `history`.
    pub(crate) fn compacted(&mut self, history: &[Arc<Message>], before: usize, compaction: &Compaction) {
        let (first, at_end) = (compaction.first, self.messages.len() - self.first);
        let tail = (before - compaction.dropped - first).min(at_end);
        self.first = first.min(self.first).max(first.saturating_sub(before - at_end));
        self.messages = history[first - self.first..first].to_vec();
        self.messages.extend_from_slice(&history[history.len() - tail..]);
    }
}
