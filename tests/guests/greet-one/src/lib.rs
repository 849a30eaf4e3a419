//! Greets; `greet-one` and `greet-two` are two versions of the same plugin.

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {}

struct Greet;

impl Plugin for Greet {
    fn tools() -> Vec<Tool> {
        vec![Tool::new("greet", "Greets.", |_: Arguments, _call| Ok("hello from version one")).sequential()]
    }
}

export!(Greet, exports = [tools], name = "greet");
