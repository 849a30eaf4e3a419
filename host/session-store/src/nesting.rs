//! Reading of deeply nested JSON, beyond the default limit of serde_json, which protects the stack.
//!
//! Tool calls and results contain JSON that serde_json already read with its limit of 127 levels. A line of the file
//! wraps it in a few more levels and must be readable as well, so this limit is higher by as many levels.

use serde::Deserialize;
use serde_json::Value;

/// The deepest nesting of arrays and objects in the free-form values of a message. JSON from outside never nests
/// deeper.
pub(crate) const MAX_VALUE_NESTING: usize = 128;

/// The deepest nesting of a line: a value inside its envelope, message, list and part.
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

/// Returns an upper bound of the nesting of a line. In a malformed line it may count brackets in strings.
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

/// Returns whether a value nests deeper than `levels`.
pub(crate) fn nests_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| nests_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|item| nests_deeper(item, levels - 1)),
        _ => false,
    }
}
