//! Detects a model that repeats the same call with the same result.

use pinion_protocol::content::{Content, ToolCall};
use pinion_protocol::message::ToolResultMessage;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Counts consecutive identical calls with the same result.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    call: u64,
    result: u64,
    times: u32,
}

impl Repetition {
    /// Returns how many times in a row this call was made with the same result.
    pub(crate) fn times(&self, call: &ToolCall) -> u32 {
        if self.call == call_hash(call) { self.times } else { 0 }
    }

    /// Records the result of a call.
    pub(crate) fn record(&mut self, call: &ToolCall, result: &ToolResultMessage) {
        let (call, result) = (call_hash(call), result_hash(result));
        let is_same = (call, result) == (self.call, self.result);
        *self = Self { call, result, times: if is_same { self.times.saturating_add(1) } else { 1 } };
    }
}

fn call_hash(call: &ToolCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    call.arguments.hash(&mut hasher);
    hasher.finish()
}

fn result_hash(result: &ToolResultMessage) -> u64 {
    let mut hasher = DefaultHasher::new();
    result.is_error.hash(&mut hasher);
    for part in &result.content {
        match part {
            Content::Text { text } => text.hash(&mut hasher),
            Content::Image(image) => image.data.hash(&mut hasher),
            // Results contain nothing else.
            Content::Thinking(_) | Content::ToolCall(_) => {}
        }
    }
    hasher.finish()
}
