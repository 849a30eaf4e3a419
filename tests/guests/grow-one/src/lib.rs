//! Runs shell scripts; `grow-one` and `grow-two` are two versions of the same plugin, and the second declares more.

mod tools;

use pinion_plugin_sdk::prelude::*;

struct Grow;

impl Plugin for Grow {
    fn tools() -> Vec<Tool> {
        vec![tools::run(), tools::look()]
    }
}

export!(Grow, exports = [tools], name = "grow", asks = { "files": "read", "process": true });
