//! A greeting tool: the second of two versions that `pinion demo` swaps during a turn.

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
    Ok(format!("Good day, {}! I am version 0.2.0, loaded a moment ago while this turn was running.", arguments.name))
}
