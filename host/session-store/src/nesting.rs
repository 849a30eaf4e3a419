//! JSON that nests deeply, which is where serde_json stops by default, for fear of the stack.
//!
//! Tool calls and results hold JSON that serde_json read once, up to its own limit of 127 levels. A line of the file
//! wraps that in a few levels more, and has to be read all the same. So the limit is moved by as much, and kept.

use serde::Deserialize;
use serde_json::Value;

/// How deep arrays and objects in a message's free-form values may nest. JSON that came from outside never nests
/// deeper.
pub(crate) const MAX_VALUE_NESTING: usize = 128;

/// How deep a whole line may nest: a value, and the envelope, message, list and part around it.
const MAX_LINE_NESTING: usize = MAX_VALUE_NESTING + 4;

/// Reads a line of JSON whose values nest up to [`MAX_VALUE_NESTING`] levels.
pub(crate) fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, serde_json::Error> {
    let error = match serde_json::from_slice(line) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if !error.is_syntax() || line_nesting(line) > MAX_LINE_NESTING {
        return Err(error);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// An upper bound of how deep a line of JSON nests: brackets in strings count too when a line is malformed.
fn line_nesting(line: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Whether a value nests deeper than `levels`.
pub(crate) fn nests_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| nests_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|item| nests_deeper(item, levels - 1)),
        _ => false,
    }
}
