//! The part of a history that a run added, and the size of the rest of every request.

use crate::compaction::Compaction;
use crate::config::LoopConfig;
use crate::context::Context;
use pinion_protocol::live_state::ContextEstimate;
use pinion_protocol::message::Message;
use pinion_protocol::tokens::ContextTracker;
use std::sync::Arc;

/// Estimates the tokens that every request contains: the system prompt and the tools.
pub(crate) fn fixed_tokens(context: &Context, config: &LoopConfig) -> u64 {
    let tools = config.ports.tools.offered();
    let texts = tools.iter().flat_map(|tool| {
        let guidelines = tool.guidelines.iter().map(String::as_str);
        [&*tool.name, &*tool.description].into_iter().chain(guidelines)
    });
    let instructions = config.ports.tools.instructions();
    let texts = texts.chain(instructions.iter().map(|entry| &*entry.text));
    let texts: u64 = texts.map(|text| config.ports.counter.count(text)).sum();
    let schemas: u64 = tools.iter().map(|tool| config.ports.counter.count(&tool.input_schema.to_string())).sum();
    config.ports.counter.count(&context.system_prompt) + texts + schemas
}

/// Tracks the history of a conversation, calibrated by earlier runs, or else by the reports in it.
pub(crate) fn track(tracker: &mut ContextTracker, context: &Context, config: &LoopConfig) {
    let (fixed, messages) = (fixed_tokens(context, config), &context.messages);
    match context.calibration {
        Some(ratio) => tracker.restart_with(ratio, fixed, messages),
        None => tracker.learn(fixed, messages),
    }
}

/// Estimates the next request of a conversation without a run under way.
pub(crate) fn estimate(context: &Context, config: &LoopConfig) -> ContextEstimate {
    let mut tracker = ContextTracker::new(config.ports.counter.clone());
    track(&mut tracker, context, config);
    estimate_of(&tracker, config)
}

pub(crate) fn estimate_of(tracker: &ContextTracker, config: &LoopConfig) -> ContextEstimate {
    let window = config.policy.model.context_window;
    ContextEstimate { tokens: tracker.tokens(), ratio: tracker.ratio(), window }
}

/// The messages that a run added and the model still sees. In a long run, the others remain only in the session.
#[derive(Default)]
pub(crate) struct Added {
    pub(crate) messages: Vec<Arc<Message>>,
    /// Number of them that a compaction kept at the start of the history.
    first: usize,
}

impl Added {
    /// Drops the messages that a compaction dropped from a history of `before` messages that is now `history`.
    pub(crate) fn compacted(&mut self, history: &[Arc<Message>], before: usize, compaction: &Compaction) {
        let (first, at_end) = (compaction.first, self.messages.len() - self.first);
        let tail = (before - compaction.dropped - first).min(at_end);
        self.first = first.min(self.first).max(first.saturating_sub(before - at_end));
        self.messages = history[first - self.first..first].to_vec();
        self.messages.extend_from_slice(&history[history.len() - tail..]);
    }
}
