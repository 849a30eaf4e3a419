//! Detects a model that makes the same calls with the same results again and again.

use crate::content::{Content, ToolCall};
use crate::definition::ToolDefinition;
use crate::message::ToolResultMessage;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Maximum number of different calls in a cycle: A, B, A, B, … has two.
const MAX_CYCLE: usize = 4;

/// The latest calls of a run, as hashes of the call and of its result. The oldest comes first.
#[derive(Debug, Default)]
pub struct Repetition(VecDeque<(u64, u64)>);

impl Repetition {
    /// Returns whether this call would continue a cycle of calls that already ran `max` times with the same results.
    pub fn is_repetition(&self, call: CallKey, max: usize) -> bool {
        (1..=MAX_CYCLE).any(|cycle| {
            let latest = || self.0.iter().rev();
            let repeats = latest().zip(latest().skip(cycle)).take(cycle * (max - 1));
            self.0.len() >= cycle * max
                && latest().nth(cycle - 1).is_some_and(|made| made.0 == call.0)
                && repeats.into_iter().all(|(later, earlier)| later == earlier)
        })
    }

    /// Records the result of a call; `None` if the call was refused. A refused call counts as if it had given its last
    /// result once more, so that the rest of its cycle is refused as well.
    pub fn record(&mut self, CallKey(call): CallKey, result: Option<&ToolResultMessage>, max: usize) {
        let last = || self.0.iter().rev().find(|made| made.0 == call).map_or(0, |made| made.1);
        let result = result.map_or_else(last, result_hash);
        self.0.push_back((call, result));
        if self.0.len() > MAX_CYCLE * max {
            self.0.pop_front();
        }
    }
}

/// Identifies calls with the same name and arguments of the same version of a tool: another one may give another result.
#[derive(Clone, Copy)]
pub struct CallKey(u64);

impl CallKey {
    /// Returns the key of a call; `tool` is none for one that cannot run.
    pub fn new(call: &ToolCall, tool: Option<&ToolDefinition>) -> Self {
        let mut hasher = DefaultHasher::new();
        (&call.name, &call.arguments).hash(&mut hasher);
        tool.map(|ToolDefinition { source, .. }| (source.generation, &source.digest, &source.definition))
            .hash(&mut hasher);
        Self(hasher.finish())
    }
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
