//! Schemas that mean the same in every supported dialect.
//!
//! A validator checks a schema with the schema of its dialect, which it compiles first. The 2020-12 meta-schema
//! consists of eight documents with dynamic references, and takes a short run longer than all other work on schemas;
//! the draft 7 meta-schema is small.

use serde_json::Value;

/// Returns whether a schema has only keywords that mean the same from draft 7 to 2020-12. Others may still do so.
pub fn is_plain(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return schema.is_boolean() };
    fields.iter().all(|(keyword, value)| match keyword.as_str() {
        "type" | "title" | "description" | "default" | "required" | "enum" => true,
        "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems" => true,
        "properties" => value.as_object().is_some_and(|properties| properties.values().all(is_plain)),
        // An array of schemas means something else in each dialect.
        "items" | "additionalProperties" => is_plain(value),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schema_of_common_keywords_is_plain() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "A path.", "minLength": 1 },
                "lines": { "type": "array", "items": { "type": "integer", "minimum": 1 }, "minItems": 1 },
                "mode": { "enum": ["read", "write"], "default": "read" },
                "more": { "type": "object", "additionalProperties": { "type": ["number", "null"], "maximum": 1.5 } },
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        assert!(is_plain(&schema));
    }

    #[test]
    fn keywords_that_differ_between_dialects_are_not_plain() {
        for schema in [
            json!({ "$schema": "http://json-schema.org/draft-07/schema#" }),
            json!({ "$ref": "#/$defs/a" }),
            json!({ "items": [{}] }),
            json!({ "properties": { "x": { "additionalProperties": { "prefixItems": [] } } } }),
            json!({ "properties": 7 }),
            json!({ "format": "date" }),
        ] {
            assert!(!is_plain(&schema), "{schema}");
        }
    }
}
