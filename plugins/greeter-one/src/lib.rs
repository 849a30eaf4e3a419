//! A greeting tool: the first of two versions that `pinion demo` swaps during a turn.

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Name of the person.
    name: String,
}

/// The plugin.
pub struct Greeter;

impl Plugin for Greeter {
    fn tools() -> Vec<Tool> {
        vec![Tool::new("greet", "Greets someone by name.", greet).sequential()]
    }
}

export!(Greeter, exports = [tools], name = "greeter");

fn greet(arguments: Arguments, _call: &Call) -> Result<String> {
    Ok(format!("Hello, {}. This is the first version of me.", arguments.name))
}
