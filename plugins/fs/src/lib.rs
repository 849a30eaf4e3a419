//! The built-in tools for files: read, write, edit, list, find and search.
//!
//! Single files go through `std::fs`, and so through WASI; walking and searching are the host's, by
//! [`pinion_plugin_sdk::workspace`]. What a tool does lies in functions that know neither, so that tests call them on
//! any machine; a tool's own file holds its arguments and its edge to the host.

mod diff;
mod edit;
mod find;
mod kind;
mod list;
mod nearest;
mod paths;
mod read;
mod replace;
mod search;
mod store;
mod text;
mod walk;
mod window;
mod write;

use pinion_plugin_sdk::prelude::*;

/// The plugin.
pub struct Files;

impl Plugin for Files {
    fn tools() -> Vec<Tool> {
        vec![read::tool(), write::tool(), edit::tool(), list::tool(), find::tool(), search::tool()]
    }
}

export!(Files, exports = [tools], asks = { "files": "write" });

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing;

    /// Definitions are a part of every request: each byte is paid for again and again.
    #[test]
    fn the_definitions_are_short() {
        let size = |tool: &testing::ToolDefinition| tool.name.len() + tool.description.len() + tool.input_schema.len();
        let bytes: usize = testing::tools::<Files>().iter().map(size).sum();
        assert!(bytes / 4 < 1_250, "{bytes} bytes");
    }
}
