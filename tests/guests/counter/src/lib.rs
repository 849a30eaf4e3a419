//! Counts its calls in a single instance and passes the count to its successor.

use pinion_plugin_sdk::prelude::*;
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Trap instead of counting.
    #[serde(default)]
    trap: bool,
}

struct Counter;

impl Plugin for Counter {
    fn tools() -> Vec<Tool> {
        vec![Tool::new("count", "Counts its calls.", |arguments: Arguments, _call| {
            assert!(!arguments.trap, "told to");
            COUNT.set(COUNT.get() + 1);
            Ok(COUNT.get().to_string())
        })]
    }
}

impl State for Counter {
    fn save() -> Vec<u8> {
        COUNT.get().to_le_bytes().to_vec()
    }

    fn restore(saved: Vec<u8>, _from_version: &str) -> Result<(), String> {
        let saved = <[u8; 4]>::try_from(saved).map_err(|_| "not a count")?;
        COUNT.set(u32::from_le_bytes(saved));
        Ok(())
    }
}

export!(Counter, exports = [tools, state], lifetime = "session");
