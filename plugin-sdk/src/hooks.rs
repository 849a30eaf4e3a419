//! Hooks: one trait per point at which the host asks or informs a plugin.
//!
//! A plugin implements the traits that it needs and names them in [`export!`](crate::export!). It needs the grant `hooks`.

pub use crate::bindings::before_compaction::exports::pinion::plugin::before_compaction::Compaction;
pub use crate::bindings::before_prompt::exports::pinion::plugin::before_prompt::PromptVerdict;
pub use crate::bindings::before_tool_call::exports::pinion::plugin::before_tool_call::Verdict;
pub use crate::bindings::imports::pinion::plugin::types::{ToolCall, ToolError, ToolOutput};

use crate::Call;

/// Checks tool calls before they are approved. Export as `before_tool_call`.
pub trait BeforeToolCall: 'static {
    /// Checks a call. A hook that panics, or does not return within 5 s, denies it.
    fn check(hook: &Call, call: ToolCall) -> Verdict;
}

/// Revises the outcomes of tool calls. Export as `after_tool_call`.
pub trait AfterToolCall: 'static {
    /// Returns the outcome that replaces `outcome`, or `None` to leave it as it is. A failed call stays failed.
    fn revise(
        hook: &Call,
        call: ToolCall,
        outcome: Result<ToolOutput, ToolError>,
    ) -> Option<Result<ToolOutput, ToolError>>;
}

/// Checks the user's prompts. Export as `before_prompt`.
pub trait BeforePrompt: 'static {
    /// Checks a prompt. A hook that panics, or does not return within 5 s, rejects it.
    fn check(hook: &Call, prompt: String) -> PromptVerdict;
}

/// Adds instructions for summaries. Export as `before_compaction`.
pub trait BeforeCompaction: 'static {
    /// Returns instructions for the summary, at most 4 KiB.
    fn instructions(hook: &Call, compaction: Compaction) -> Option<String>;
}

/// Observes events of the session. Export as `session_events`, in a plugin of lifetime `session`.
pub trait SessionEvents: 'static {
    /// Receives events as JSON, oldest first.
    fn on_events(events: Vec<String>);
}
