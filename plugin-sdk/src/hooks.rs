//! Hooks: one trait per point at which the host asks or informs a plugin.
//!
//! A plugin implements the traits that it needs, names them in [`export!`](crate::export!), and asks for `hooks`, which the
//! user grants for all points or for some:
//!
//! ```no_run
//! use pinion_plugin_sdk::hooks::{BeforeToolCall, ToolCall, Verdict};
//! use pinion_plugin_sdk::prelude::*;
//!
//! struct Careful;
//!
//! impl Plugin for Careful {}
//!
//! impl BeforeToolCall for Careful {
//!     fn check(_hook: &Call, call: ToolCall) -> Verdict {
//!         match call.input.contains("git push") {
//!             true => Verdict::Ask("this publishes commits".to_owned()),
//!             false => Verdict::Proceed,
//!         }
//!     }
//! }
//!
//! export!(Careful, exports = [before_tool_call], asks = { "hooks": true });
//! # fn main() {}
//! ```
//!
//! Hooks can restrict what happens, and have no way to allow it. A check that panics or takes longer than 5 s denies the call
//! or rejects the prompt; other hooks that fail change nothing, and the user learns of it. Relative paths begin at the
//! workspace, as in commands.

pub use crate::bindings::before_compaction::exports::pinion::plugin::before_compaction::Compaction;
pub use crate::bindings::before_prompt::exports::pinion::plugin::before_prompt::PromptVerdict;
pub use crate::bindings::before_tool_call::exports::pinion::plugin::before_tool_call::Verdict;
pub use crate::bindings::imports::pinion::plugin::types::{
    Content, Display, Effects, ErrorKind, Image, ToolCall, ToolError, ToolOutput,
};

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
