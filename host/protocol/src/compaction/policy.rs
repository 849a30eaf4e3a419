//! Policy of automatic compaction.

use super::Cut;

/// Controls automatic compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionPolicy {
    /// Enables automatic compaction: before a request that would leave no room for the reply, and after the vendor
    /// rejected a request as too long.
    pub automatic: bool,
    /// Maximum tokens of the context of a model whose own limit is unknown; `None` to compact only after the vendor
    /// rejected a request as too long.
    pub assumed_window: Option<u64>,
    /// Tokens to reserve for the system prompt where the caller of [`Self::room`] does not know its size. The loop does.
    pub system_prompt_tokens: u64,
    /// Tokens of the context window to reserve for the reply; at most a quarter of the window.
    pub reserve: u64,
    /// Maximum size of the context after compaction, as a fraction of the threshold, 0 to 1.
    pub target: f64,
    /// Number of messages to keep at the start, as long as they fit into a quarter of the target: the task, and the
    /// first reply. If the last of them is a reply, the results of its calls stay as well.
    pub keep_first: usize,
    /// Number of recent messages to keep, as long as they fit into half of the target.
    pub keep_recent: usize,
    /// Lines that remain of each text of an old tool result, including the note on those that are left out; 0 for all.
    pub tool_output_max_lines: usize,
    /// Bytes of text that remain of an old tool result, because a line has any length. The default is more than 50
    /// lines of 160 characters.
    pub tool_output_max_bytes: usize,
    /// Lets the model write the summary; otherwise it is a list of messages and calls.
    pub by_model: bool,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self {
            automatic: true,
            assumed_window: Some(100_000),
            system_prompt_tokens: 4_000,
            reserve: 16_384,
            target: 0.5,
            keep_first: 2,
            keep_recent: 10,
            tool_output_max_lines: 50,
            tool_output_max_bytes: 8_192,
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

    /// Returns the number of tokens that the messages may take after a compaction for a model with this limit; `None`
    /// if the model has no limit, not even an assumed one. `fixed` is the size of the part of every request that is not
    /// a message, if the caller knows it.
    pub fn room(&self, window: Option<u64>, fixed: Option<u64>) -> Option<u64> {
        let fixed = fixed.unwrap_or(self.system_prompt_tokens);
        self.threshold_of(window).map(|threshold| self.budget(threshold.saturating_sub(fixed)))
    }

    /// Returns the bound on old tool results, which spares so many messages at the end.
    pub fn cut(&self, spared: usize) -> Cut {
        Cut { bytes: self.tool_output_max_bytes, lines: Some(self.tool_output_max_lines), spared }
    }

    /// Returns the number of tokens that a compacted history may take.
    pub fn budget(&self, threshold: u64) -> u64 {
        (threshold as f64 * self.target.clamp(0.0, 1.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let CompactionPolicy { assumed_window, system_prompt_tokens, keep_recent, keep_first, .. } =
            CompactionPolicy::default();
        assert_eq!((assumed_window, system_prompt_tokens, keep_recent, keep_first), (Some(100_000), 4_000, 10, 2));
        assert_eq!(CompactionPolicy::default().cut(0), Cut { bytes: 8_192, lines: Some(50), spared: 0 });
    }

    #[test]
    fn unknown_window_and_unknown_system_prompt_count_as_the_policy_says() {
        let policy = CompactionPolicy { reserve: 0, target: 1.0, ..CompactionPolicy::default() };
        assert_eq!((policy.room(None, None), policy.room(None, Some(1_000))), (Some(96_000), Some(99_000)));
        assert_eq!((policy.room(Some(5_000), None), policy.room(Some(100), None)), (Some(1_000), Some(0)));
        assert_eq!(CompactionPolicy { assumed_window: None, ..policy }.room(None, None), None);
    }
}
