//! Adds the guidelines of tools and the instructions of plugins to the system prompt.

use pinion_protocol::definition::{Instructions, ToolDefinition};
use std::fmt::Write as _;
use std::sync::Arc;

/// Returns the system prompt, followed by the guidelines of the offered tools and the instructions of their plugins. The
/// text is deterministic, so that vendors can cache it.
pub(crate) fn with_guidelines(
    base: &Arc<str>,
    tools: &[Arc<ToolDefinition>],
    instructions: &[Instructions],
) -> Arc<str> {
    let of_offered = |entry: &&Instructions| tools.iter().any(|tool| tool.source.plugin == entry.plugin);
    let mut instructions = instructions.iter().filter(of_offered).peekable();
    if tools.iter().all(|tool| tool.guidelines.is_empty()) && instructions.peek().is_none() {
        return base.clone();
    }
    let mut prompt = base.to_string();
    prompt.push_str("\n\n# Tools\n");
    for (tool, guideline) in tools.iter().flat_map(|tool| tool.guidelines.iter().map(move |line| (tool, line))) {
        // Writing to a string never fails.
        let _ = write!(prompt, "\n- `{}`: {guideline}", tool.name);
    }
    for entry in instructions {
        let line_end = if prompt.ends_with('\n') { "" } else { "\n" };
        let _ = write!(prompt, "{line_end}\nThe plugin `{}` says about its tools:\n", entry.plugin);
        // Quoted line by line, so that no plugin can begin a new section.
        for line in entry.text.lines() {
            let _ = write!(prompt, "\n> {line}");
        }
    }
    prompt.into()
}
