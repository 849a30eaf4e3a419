//! Returns the greeting from its config and rejects a config that says so.

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    greeting: Option<String>,
    refuse: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {}

struct Configured;

impl Plugin for Configured {
    fn tools() -> Vec<Tool> {
        vec![Tool::new("greeting", "Tells its greeting.", |_: Arguments, _call| {
            let config: Config = config().map_err(Error::failed)?;
            Ok(config.greeting.unwrap_or_else(|| "none".to_owned()))
        })]
    }

    fn init() -> Result<(), String> {
        let config: Config = config()?;
        if config.refuse { Err("told to refuse".to_owned()) } else { Ok(()) }
    }
}

export!(Configured, exports = [tools, lifecycle]);
