//! Policy of automatic compaction.

/// Controls automatic compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionPolicy {
    /// Enables automatic compaction: before a request that would leave no room for the reply, and after the vendor
    /// rejected a request as too long.
    pub automatic: bool,
    /// Tokens to assume as the limit of a model whose own limit is unknown; `None` to compact only after the vendor
    /// rejected a request as too long.
    pub assumed_window: Option<u64>,
    /// Tokens of the context window to reserve for the reply; at most a quarter of the window.
    pub reserve: u64,
    /// Maximum size of the context after compaction, as a fraction of the threshold, 0 to 1.
    pub target: f64,
    /// Number of messages to keep at the start, as long as they fit into a quarter of the target. The first one states
    /// the task.
    pub keep_first: usize,
    /// Number of recent messages to keep, as long as they fit into half of the target.
    pub keep_recent: usize,
    /// Bytes of text that remain of an old tool result.
    pub result_bytes: usize,
    /// Lets the model write the summary; otherwise it is a list of messages and calls.
    pub by_model: bool,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self {
            automatic: true,
            assumed_window: Some(128_000),
            reserve: 16_384,
            target: 0.5,
            keep_first: 1,
            keep_recent: 10,
            result_bytes: 2_048,
            by_model: true,
        }
    }
}

impl CompactionPolicy {
    /// Returns the number of tokens of a request above which the history is compacted.
    pub fn threshold(&self, window: u64) -> u64 {
        window - self.reserve.min(window / 4)
    }

    /// Returns the threshold of a model with this limit, or with the assumed one if it is unknown.
    pub fn threshold_of(&self, window: Option<u64>) -> Option<u64> {
        window.or(self.assumed_window).map(|window| self.threshold(window))
    }

    /// Returns the number of tokens that a compacted history may take.
    pub fn budget(&self, threshold: u64) -> u64 {
        (threshold as f64 * self.target.clamp(0.0, 1.0)) as u64
    }
}
