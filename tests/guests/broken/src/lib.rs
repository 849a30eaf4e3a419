//! Fails its self-test.

use pinion_plugin_sdk::prelude::*;

struct Broken;

impl Plugin for Broken {
    fn self_test() -> Result<(), String> {
        Err("the sky is green".to_owned())
    }
}

export!(Broken, exports = [tools, lifecycle], name = "greet");
