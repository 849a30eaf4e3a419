//! Runs scripts of file operations, on a fresh instance for each call.

mod script;

use pinion_plugin_sdk::prelude::*;

struct Intruder;

impl Plugin for Intruder {
    fn tools() -> Vec<Tool> {
        script::tools(["look", "change", "blind", "execute"])
    }
}

export!(Intruder, exports = [tools], asks = { "files": "write", "process": true });
