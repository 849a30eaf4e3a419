//! When a conversation is compacted by itself, and how far.

/// When a conversation is compacted by itself, and how far.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionPolicy {
    /// Does it happen by itself? Needs a model whose context window is known.
    pub automatic: bool,
    /// Tokens of the context window that are left for the reply; at most a quarter of the window.
    pub reserve: u64,
    /// How full the context is at most afterwards, as a share of the threshold, 0 to 1.
    pub target: f64,
    /// Messages at the end that are kept as they are, as far as they take no more than half of the room.
    pub keep_recent: usize,
    /// Bytes to which the text of an old tool result is cut.
    pub result_bytes: usize,
    /// Does the model write the summary? Else it is a list of what was said and done.
    pub by_model: bool,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self { automatic: true, reserve: 16_384, target: 0.5, keep_recent: 10, result_bytes: 2_048, by_model: true }
    }
}

impl CompactionPolicy {
    /// How many tokens a request may hold before the history is compacted.
    pub fn threshold(&self, window: u64) -> u64 {
        window - self.reserve.min(window / 4)
    }

    pub(crate) fn budget(&self, threshold: u64) -> u64 {
        (threshold as f64 * self.target.clamp(0.0, 1.0)) as u64
    }
}
