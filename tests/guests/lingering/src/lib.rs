//! Runs scripts of file operations in a single instance, so that a call can use files that an earlier one opened.

#[path = "../../intruder/src/script.rs"]
mod script;

use pinion_plugin_sdk::prelude::*;

struct Lingering;

impl Plugin for Lingering {
    fn tools() -> Vec<Tool> {
        script::tools(["l_look", "l_change", "l_blind", "l_execute"])
    }
}

export!(Lingering, exports = [tools], asks = { "files": "write", "process": true }, lifetime = "session");
