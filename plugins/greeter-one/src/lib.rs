//! A tool that greets: the first of two versions, which `pinion demo` swaps while a turn runs.

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Whom to greet.
    name: String,
}

/// The plugin.
pub struct Greeter;

impl Plugin for Greeter {
    fn tools() -> Vec<Tool> {
        vec![Tool::new("greet", "Greets somebody by name.", greet).sequential()]
    }
}

export!(Greeter, exports = [tools], name = "greeter");

fn greet(arguments: Arguments, _call: &Call) -> Result<String> {
    Ok(format!("Hello, {}. This is the first version of me.", arguments.name))
}
