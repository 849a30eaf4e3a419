//! Schemas without the parts that cannot be compiled.
//!
//! Servers write patterns for JavaScript, whose syntax allows more, and keywords with values of the wrong type. Neither restricts
//! anything here: the server checks its arguments itself.

use super::admission::{IN_PLACE, OF_ITEMS, OF_PROPERTIES};
use serde_json::{Map, Value, json};

/// Keywords whose value maps names to schemas.
const MAPS: [&str; 6] = ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];

/// Maximum invalid keywords that are ignored in one schema.
const MAX_INVALID: usize = 16;

/// Compiles a schema. An error begins with the JSON pointer of the keyword that is refused.
type Build<'a, T, E> = dyn Fn(&Value) -> Result<T, (String, E)> + 'a;

/// Compiles a schema with `build`, without its patterns and keywords that `build` refuses. Its errors begin with the JSON pointer of
/// the refused keyword.
///
/// # Errors
/// The rest cannot be compiled, or too many keywords are invalid.
pub fn build_leniently<T, E>(schema: &Value, build: &Build<'_, T, E>) -> Result<T, E> {
    let mut error = match build(schema) {
        Ok(built) => return Ok(built),
        Err((_, error)) => error,
    };
    let is_pattern = |pattern: &str| build(&json!({ "pattern": pattern })).is_ok();
    let mut schema = without_patterns(schema, &is_pattern).unwrap_or_else(|| schema.clone());
    for _ in 0..=MAX_INVALID {
        let pointer;
        (pointer, error) = match build(&schema) {
            Ok(built) => return Ok(built),
            Err(refused) => refused,
        };
        if !remove_keyword(&mut schema, &pointer) {
            break;
        }
    }
    Err(error)
}

/// Returns a schema without the patterns that do not satisfy `compiles`, which accepts at least the values that the
/// original accepts. `None` if all patterns satisfy it.
fn without_patterns(schema: &Value, compiles: &dyn Fn(&str) -> bool) -> Option<Value> {
    let mut schema = schema.clone();
    strip(&mut schema, compiles).then_some(schema)
}

/// Removes the keyword at a JSON pointer. Returns whether there was one.
fn remove_keyword(schema: &mut Value, pointer: &str) -> bool {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return false };
    let name = name.replace("~1", "/").replace("~0", "~");
    match schema.pointer_mut(parent) {
        Some(Value::Object(members)) => members.shift_remove(&name).is_some(),
        // An entry of a list is removed with its keyword: the others alone may mean something else.
        Some(Value::Array(_)) => remove_keyword(schema, parent),
        _ => false,
    }
}

/// Returns whether something was removed.
fn strip(schema: &mut Value, compiles: &dyn Fn(&str) -> bool) -> bool {
    let Value::Object(members) = schema else { return false };
    let mut is_changed = false;
    if members.get("pattern").and_then(Value::as_str).is_some_and(|pattern| !compiles(pattern)) {
        members.shift_remove("pattern");
        is_changed = true;
    }
    if let Some(Value::Object(patterns)) = members.get_mut("patternProperties") {
        let before = patterns.len();
        patterns.retain(|pattern, _| compiles(pattern));
        if patterns.len() < before {
            // Properties that the pattern would have matched are not additional ones.
            members.shift_remove("additionalProperties");
            members.shift_remove("unevaluatedProperties");
            is_changed = true;
        }
    }
    let mut weakened = Vec::new();
    for (keyword, value) in members.iter_mut() {
        let is_applied =
            [&IN_PLACE[..], &OF_PROPERTIES, &OF_ITEMS, &MAPS].iter().any(|k| k.contains(&keyword.as_str()));
        if !is_applied {
            continue;
        }
        let is_stripped = match value {
            Value::Array(schemas) => strip_all(schemas.iter_mut(), compiles),
            Value::Object(schemas) if MAPS.contains(&keyword.as_str()) => strip_all(schemas.values_mut(), compiles),
            schema => strip(schema, compiles),
        };
        if is_stripped {
            weakened.push(keyword.clone());
        }
    }
    is_changed |= !weakened.is_empty();
    for keyword in weakened {
        loosen(members, &keyword);
    }
    is_changed
}

fn strip_all<'a>(schemas: impl Iterator<Item = &'a mut Value>, compiles: &dyn Fn(&str) -> bool) -> bool {
    let mut is_changed = false;
    for schema in schemas {
        is_changed |= strip(schema, compiles);
    }
    is_changed
}

/// Removes keywords that refuse more if a subschema of theirs accepts more.
fn loosen(members: &mut Map<String, Value>, keyword: &str) {
    let removed: &[&str] = match keyword {
        "not" => &["not"],
        "oneOf" => &["oneOf"],
        "if" => &["if", "then", "else"],
        "contains" => &["maxContains"],
        _ => &[],
    };
    for keyword in removed {
        members.shift_remove(*keyword);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_do_not_compile_are_removed_wherever_they_apply() {
        let without = |schema| without_patterns(&schema, &|pattern| pattern != "bad");
        for (schema, expected) in [
            (json!({ "pattern": "bad", "type": "string" }), json!({ "type": "string" })),
            (
                json!({ "properties": { "pattern": { "items": [{ "pattern": "bad" }, { "pattern": "good" }] } } }),
                json!({ "properties": { "pattern": { "items": [{}, { "pattern": "good" }] } } }),
            ),
            (json!({ "$defs": { "a": { "pattern": "bad" } } }), json!({ "$defs": { "a": {} } })),
            (
                json!({ "patternProperties": { "bad": {}, "good": {} }, "additionalProperties": false }),
                json!({ "patternProperties": { "good": {} } }),
            ),
            (json!({ "not": { "pattern": "bad" }, "minLength": 1 }), json!({ "minLength": 1 })),
            (json!({ "oneOf": [{ "pattern": "bad" }, { "type": "null" }] }), json!({})),
            (
                json!({ "anyOf": [{ "pattern": "bad" }, { "type": "null" }] }),
                json!({ "anyOf": [{}, { "type": "null" }] }),
            ),
            (json!({ "if": { "pattern": "bad" }, "then": false, "else": false }), json!({})),
        ] {
            assert_eq!(without(schema.clone()), Some(expected), "{schema}");
        }
        for schema in [
            json!({ "pattern": "good" }),
            json!({ "properties": { "pattern": { "const": { "pattern": "bad" } } } }),
            json!({ "default": { "pattern": "bad" }, "enum": ["bad"], "pattern": 7 }),
            json!(true),
        ] {
            assert_eq!(without(schema.clone()), None, "{schema}");
        }
    }

    #[test]
    fn keyword_is_removed_at_its_place() {
        let mut schema = json!({ "properties": { "a/b": { "required": true }, "x": { "allOf": [7, {}] } } });
        assert!(remove_keyword(&mut schema, "/properties/a~1b/required"));
        assert!(remove_keyword(&mut schema, "/properties/x/allOf/0"));
        assert_eq!(schema, json!({ "properties": { "a/b": {}, "x": {} } }));
        for nothing in ["", "/properties/y/z", "/type"] {
            assert!(!remove_keyword(&mut schema, nothing), "{nothing}");
        }
    }
}
