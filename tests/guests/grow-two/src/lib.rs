//! Runs shell scripts; `grow-one` and `grow-two` are two versions of the same plugin, and the second declares more.

#[path = "../../grow-one/src/tools.rs"]
mod tools;

use pinion_plugin_sdk::prelude::*;

struct Grow;

impl Plugin for Grow {
    fn tools() -> Vec<Tool> {
        let extra = Tool::new("extra", "Runs a shell script, and is new.", tools::sh).executes();
        vec![tools::run(), tools::look().executes(), extra]
    }

    fn commands() -> Vec<Command> {
        vec![Command::new("extra", "Is new", |_typed, _call| Ok(vec![]))]
    }
}

export!(Grow, exports = [tools, commands], name = "grow", asks = { "files": "read", "process": true });
