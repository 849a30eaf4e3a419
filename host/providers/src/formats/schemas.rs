//! Makes the schemas of tools acceptable to every server.
//!
//! A server rejects a whole request because of one keyword that it cannot turn into a grammar. The loop validates the
//! arguments of calls with the complete schema, so that a keyword may be left out here.

use pinion_protocol::ToolDefinition;
use pinion_protocol::pattern::PortablePattern;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Limit on the nesting of a schema. A schema that is nested deeper admits everything.
const MAX_DEPTH: usize = 64;

/// Keywords whose values are data, not schemas.
const DATA: [&str; 5] = ["const", "enum", "default", "examples", "required"];

/// Returns a tool with an acceptable schema.
pub(super) fn acceptable_tool(tool: &Arc<ToolDefinition>) -> Arc<ToolDefinition> {
    let mut input_schema = tool.input_schema.clone();
    let has_changed = fit(&mut input_schema, 0);
    let is_object = input_schema.get("type").is_some_and(|name| name == "object");
    if !is_object {
        match &mut input_schema {
            Value::Object(fields) => drop(fields.insert("type".to_owned(), json!("object"))),
            other => *other = json!({ "type": "object" }),
        }
    }
    match has_changed || !is_object {
        true => Arc::new(ToolDefinition { input_schema, ..(**tool).clone() }),
        false => tool.clone(),
    }
}

/// Rewrites the patterns in a schema, and leaves out those that some server cannot compile. Returns whether that changed
/// anything.
fn fit(schema: &mut Value, depth: usize) -> bool {
    match schema {
        Value::Object(_) | Value::Array(_) if depth > MAX_DEPTH => {
            *schema = json!({});
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| fit(item, depth + 1) | changed),
        Value::Object(fields) => fit_fields(fields, depth),
        _ => false,
    }
}

fn fit_fields(fields: &mut Map<String, Value>, depth: usize) -> bool {
    let mut changed = fit_pattern(fields) | fit_pattern_properties(fields);
    let mut weakened: Vec<&str> = Vec::new();
    for (keyword, value) in fields.iter_mut().filter(|(keyword, _)| !DATA.contains(&&***keyword)) {
        // The values of these keywords map names to schemas.
        let is_map = matches!(&**keyword, "properties" | "patternProperties" | "$defs" | "definitions");
        let value_changed = match value {
            Value::Object(schemas) if is_map => {
                schemas.values_mut().fold(false, |changed, schema| fit(schema, depth + 1) | changed)
            }
            value => fit(value, depth + 1),
        };
        changed |= value_changed;
        match &**keyword {
            "not" if value_changed => weakened.push("not"),
            "if" if value_changed => weakened.extend(["if", "then", "else"]),
            "oneOf" if value_changed => weakened.push("oneOf"),
            _ => {}
        }
    }
    for keyword in weakened {
        // Without their patterns, these would admit less: the negation of everything, or a value that fits twice.
        let removed = fields.remove(keyword);
        if let (Some(schemas), "oneOf", false) = (removed, keyword, fields.contains_key("anyOf")) {
            fields.insert("anyOf".to_owned(), schemas);
        }
    }
    changed
}

fn fit_pattern(fields: &mut Map<String, Value>) -> bool {
    let Some(Value::String(pattern)) = fields.get_mut("pattern") else { return false };
    match PortablePattern::from_pattern(pattern) {
        Some(portable) if portable.text == *pattern => return false,
        Some(portable) => *pattern = portable.text,
        None => drop(fields.remove("pattern")),
    }
    true
}

fn fit_pattern_properties(fields: &mut Map<String, Value>) -> bool {
    let Some(Value::Object(patterns)) = fields.get("patternProperties") else { return false };
    let is_portable =
        |name: &String| PortablePattern::from_pattern(name).is_some_and(|portable| portable.text == *name);
    if patterns.keys().all(is_portable) {
        return false;
    }
    // Names that only a lost pattern admits would be forbidden.
    fields.remove("patternProperties");
    fields.remove("additionalProperties");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(schema: Value) -> Value {
        let mut schema = schema;
        fit(&mut schema, 0);
        schema
    }

    #[test]
    fn only_portable_patterns_remain() {
        let schema = json!({ "type": "object", "properties": {
            "pattern": { "type": "string", "pattern": "^a+$" },
            "b": { "type": "string", "pattern": "^(?=a)" },
            "c": { "type": "array", "items": { "pattern": "^\\d$" } },
            "d": { "enum": [{ "pattern": "(" }], "default": { "pattern": "(" } },
        } });
        let expected = json!({ "type": "object", "properties": {
            "pattern": { "type": "string", "pattern": "^a+$" },
            "b": { "type": "string" },
            "c": { "type": "array", "items": { "pattern": "^[0-9]$" } },
            "d": { "enum": [{ "pattern": "(" }], "default": { "pattern": "(" } },
        } });
        assert_eq!(fitted(schema), expected);
    }

    #[test]
    fn nothing_is_forbidden_that_was_allowed() {
        let lost = || json!({ "pattern": "(" });
        assert_eq!(fitted(json!({ "not": lost() })), json!({}));
        assert_eq!(fitted(json!({ "if": lost(), "then": false, "else": {} })), json!({}));
        assert_eq!(fitted(json!({ "oneOf": [lost(), {}] })), json!({ "anyOf": [{}, {}] }));
        let names = json!({ "patternProperties": { "x": {} }, "additionalProperties": false });
        assert_eq!(fitted(names), json!({}));
    }

    #[test]
    fn deep_schemas_are_cut_and_the_root_is_an_object() {
        let deep = (0..1_000).fold(json!({}), |schema, _| json!({ "items": schema }));
        assert!(fitted(deep).to_string().len() < 2_000);
    }
}
