//! Detects a model that makes the same calls with the same results again and again.

use crate::content::{Content, ToolCall};
use crate::definition::ToolDefinition;
use crate::message::ToolResultMessage;
use crate::outcome::{RunError, RunErrorKind};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Maximum number of different calls in a cycle: A, B, A, B, … has two.
const MAX_CYCLE: usize = 4;
/// Maximum number of turns in a row that only repeat calls: the model was told each time.
const MAX_STUCK_TURNS: u32 = 5;

/// The latest calls of a run.
#[derive(Debug, Default)]
pub struct Repetition {
    /// Hashes of each call and of its result. The oldest comes first.
    latest: VecDeque<(u64, u64)>,
    /// Whether each call of this turn was a repetition; `None` before its first call.
    is_stuck: Option<bool>,
    /// Turns in a row that only repeated calls.
    stuck_turns: u32,
}

impl Repetition {
    /// Returns whether this call would continue a cycle of calls that already ran `max` times with the same results.
    pub fn is_repetition(&self, call: CallKey, max: usize) -> bool {
        (1..=MAX_CYCLE).any(|cycle| {
            let latest = || self.latest.iter().rev();
            let repeats = latest().zip(latest().skip(cycle)).take(cycle * (max - 1));
            self.latest.len() >= cycle * max
                && latest().nth(cycle - 1).is_some_and(|made| made.0 == call.0)
                && repeats.into_iter().all(|(later, earlier)| later == earlier)
        })
    }

    /// Records the result of a call; `None` if the call was refused. A refused call counts as if it had given its last
    /// result once more, so that the rest of its cycle is refused as well.
    pub fn record(&mut self, CallKey(call): CallKey, result: Option<&ToolResultMessage>, max: usize) {
        let last = self.latest.iter().rev().find(|made| made.0 == call).map_or(0, |made| made.1);
        let result = result.map_or(last, result_hash);
        let is_repeated = result == last && self.is_repetition(CallKey(call), max);
        self.is_stuck = Some(is_repeated && self.is_stuck.unwrap_or(true));
        self.latest.push_back((call, result));
        if self.latest.len() > MAX_CYCLE * max {
            self.latest.pop_front();
        }
    }

    /// Ends a turn that made calls.
    ///
    /// # Errors
    /// The model only repeated calls in too many turns in a row, so another turn would be paid for in vain.
    pub fn end_turn(&mut self) -> Result<(), RunError> {
        self.stuck_turns = if self.is_stuck.take() == Some(true) { self.stuck_turns + 1 } else { 0 };
        if self.stuck_turns < MAX_STUCK_TURNS {
            return Ok(());
        }
        let message = format!(
            "the model repeated calls whose results it already had, in {MAX_STUCK_TURNS} turns in a row, so the run was ended"
        );
        Err(RunError::new(RunErrorKind::Other, message))
    }
}

/// Identifies calls with the same name and arguments of the same version of a tool: another one may give another result.
#[derive(Clone, Copy)]
pub struct CallKey(u64);

impl CallKey {
    /// Returns the key of a call; `tool` is `None` for a call that cannot run.
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
