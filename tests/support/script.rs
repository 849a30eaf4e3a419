//! Replies for the provider `replay`, one value per line of a script.

use serde_json::{Value, json};

/// A reply that is a text.
pub fn say(text: &str) -> Value {
    json!({ "text": text })
}

/// A reply that calls one tool.
pub fn call(tool: &str, arguments: Value) -> Value {
    json!({ "calls": [{ "tool": tool, "arguments": arguments }] })
}
