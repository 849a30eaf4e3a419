//! The built-in file tools: read, write, edit, list, find and search.
//!
//! Single files go through `std::fs` and so through WASI; the host walks and searches, through
//! [`pinion_plugin_sdk::workspace`]. Each tool's file defines its arguments and its calls of the host. The logic is in
//! functions that use neither, so that tests run natively.

mod diff;
mod edit;
mod find;
mod kind;
mod list;
mod look_alikes;
mod near_miss;
mod nearest;
mod overwrite;
mod paths;
mod read;
mod replace;
mod search;
mod skipped;
mod store;
mod text;
mod tree;
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

    /// The definitions are part of every request, so their size is a recurring cost.
    #[test]
    fn definitions_stay_short() {
        let size = |tool: &testing::ToolDefinition| tool.name.len() + tool.description.len() + tool.input_schema.len();
        let bytes: usize = testing::tools::<Files>().iter().map(size).sum();
        assert!(bytes / 4 < 1_250, "{bytes} bytes");
    }
}
