//! Adds the guidelines of tools to the system prompt.

use pinion_protocol::definition::ToolDefinition;
use std::fmt::Write as _;
use std::sync::Arc;

/// Returns the system prompt, followed by the guidelines of the offered tools. The text is deterministic, so that
/// vendors can cache it.
pub(crate) fn with_guidelines(base: &Arc<str>, tools: &[Arc<ToolDefinition>]) -> Arc<str> {
    if tools.iter().all(|tool| tool.guidelines.is_empty()) {
        return base.clone();
    }
    let mut prompt = base.to_string();
    prompt.push_str("\n\n# Tools\n");
    for (tool, guideline) in tools.iter().flat_map(|tool| tool.guidelines.iter().map(move |line| (tool, line))) {
        // Writing to a string never fails.
        let _ = write!(prompt, "\n- `{}`: {guideline}", tool.name);
    }
    prompt.into()
}
