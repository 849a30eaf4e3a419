//! Bounds on the work of validating arguments against a schema.

use super::admission::{Applied, Measure, OF_ITEMS, OF_PROPERTIES, looks_back, subschemas};
use serde_json::{Map, Value};

/// Maximum nesting depth of arguments.
pub const MAX_NESTING: usize = 64;
/// Maximum work of one validation, where one unit is one subschema applied to one value. The maximum takes some tenths
/// of a second.
const MAX_WORK: u64 = 2_000_000;
/// Units of work for a regular expression that may backtrack.
const BACKTRACKING: u64 = 4_000;

/// Maximum inline work, as subschemas times values: a few milliseconds.
const INLINE_WORK: u64 = 50_000;
/// Maximum subschemas of a schema that is compiled inline.
const INLINE_EXPANDED: u64 = 500;

/// Size of arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Number of values, including nested ones.
    pub values: u64,
    /// Bytes of text.
    pub text: u64,
}

impl Size {
    /// Measures arguments; `None` when they nest deeper than [`MAX_NESTING`].
    pub fn from_arguments(arguments: &Value) -> Option<Self> {
        let mut size = Self::default();
        size.add(arguments, 0).then_some(size)
    }

    fn add(&mut self, value: &Value, depth: usize) -> bool {
        self.values += 1;
        if depth > MAX_NESTING {
            return false;
        }
        match value {
            Value::String(text) => {
                self.text += text.len() as u64;
                true
            }
            Value::Array(items) => items.iter().all(|item| self.add(item, depth + 1)),
            Value::Object(fields) => fields.iter().all(|(name, value)| {
                self.text += name.len() as u64;
                self.add(value, depth + 1)
            }),
            _ => true,
        }
    }
}

/// Returns whether validating takes at most a few milliseconds, less than starting a thread for it.
pub fn is_small(measure: Measure, size: Size) -> bool {
    let Measure { expanded, is_recursive, patterns } = measure;
    let work = expanded.saturating_mul(size.values).saturating_add(patterns.saturating_mul(size.text));
    !is_recursive && patterns == 0 && expanded <= INLINE_EXPANDED && work <= INLINE_WORK
}

/// Returns whether validation would stay within `MAX_WORK`, by walking the schema over the arguments without
/// shortcuts. Requires an admitted schema and arguments within [`MAX_NESTING`].
pub fn is_bearable(schema: &Value, arguments: &Value) -> bool {
    SchemaWalk { root: schema, left: MAX_WORK }.visit(schema, arguments).is_some()
}

struct SchemaWalk<'a> {
    root: &'a Value,
    left: u64,
}

impl<'a> SchemaWalk<'a> {
    fn visit(&mut self, schema: &'a Value, value: &Value) -> Option<()> {
        self.spend(1)?;
        let Some(fields) = schema.as_object() else { return Some(()) };
        self.own_keywords(fields, value)?;
        let times = if looks_back(fields) { 2 } else { 1 };
        let visited = subschemas(self.root, fields, |applied| {
            let visited = match applied.is_in_place() {
                true => (0..times).try_for_each(|_| self.visit(applied.schema, value)),
                false => self.parts(applied, value),
            };
            visited.ok_or(())
        });
        visited.ok()
    }

    /// Visits a subschema that applies to properties or items of a value.
    fn parts(&mut self, Applied { keyword, name, schema }: Applied<'a>, value: &Value) -> Option<()> {
        match (value, name) {
            (Value::Object(parts), _) if keyword == "propertyNames" => {
                parts.keys().try_for_each(|name| self.visit(schema, &Value::String(name.clone())))
            }
            (Value::Object(parts), Some(name)) if keyword == "properties" => {
                parts.get(name).map_or(Some(()), |part| self.visit(schema, part))
            }
            (Value::Object(parts), _) if OF_PROPERTIES.contains(&keyword) => {
                parts.values().try_for_each(|part| self.visit(schema, part))
            }
            (Value::Array(parts), _) if OF_ITEMS.contains(&keyword) => {
                parts.iter().try_for_each(|part| self.visit(schema, part))
            }
            _ => Some(()),
        }
    }

    /// Spends the work of keywords whose cost grows with the value.
    fn own_keywords(&mut self, fields: &Map<String, Value>, value: &Value) -> Option<()> {
        if let Some(values) = fields.get("enum").and_then(Value::as_array) {
            self.spend(values.len() as u64)?;
        }
        if let (Some(pattern), Value::String(text)) = (fields.get("pattern").and_then(Value::as_str), value) {
            self.spend(pattern_work(pattern, text))?;
        }
        if let (Some(Value::Object(patterns)), Value::Object(parts)) = (fields.get("patternProperties"), value) {
            for pattern in patterns.keys() {
                parts.keys().try_for_each(|name| self.spend(pattern_work(pattern, name)))?;
            }
        }
        if let (Some(Value::Bool(true)), Value::Array(_)) = (fields.get("uniqueItems"), value) {
            // Validators hash or sort the items.
            self.spend(Size::from_arguments(value).map_or(u64::MAX, |size| size.values.saturating_mul(16)))?;
        }
        Some(())
    }

    fn spend(&mut self, work: u64) -> Option<()> {
        self.left = self.left.checked_sub(work)?;
        Some(())
    }
}

fn pattern_work(pattern: &str, text: &str) -> u64 {
    let may_backtrack = pattern.contains("(?") || pattern.contains('\\');
    let backtracking = if may_backtrack { BACKTRACKING } else { 0 };
    1 + text.len() as u64 / 32 + backtracking
}

// Schemas that mean the same in every supported dialect.
//
// A validator checks a schema with the schema of its dialect, which it compiles first. The 2020-12 meta-schema
// consists of eight documents with dynamic references, and takes a short run longer than all other work on schemas;
// the draft 7 meta-schema is small.

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
    fn arguments_that_nest_too_deeply_have_no_size() {
        let nested = |levels: usize| (0..levels).fold(json!("x"), |value, _| json!([value]));
        assert_eq!(Size::from_arguments(&json!({ "a": ["xy", 1] })), Some(Size { values: 4, text: 3 }));
        assert!(Size::from_arguments(&nested(MAX_NESTING)).is_some());
        assert!(Size::from_arguments(&nested(MAX_NESTING + 1)).is_none());
    }

    #[test]
    fn schema_that_doubles_with_each_level_is_too_much_work() {
        let part = json!({ "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }] });
        let schema = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "properties": { "x": part } } } });
        let nested = |levels: usize| (0..levels).fold(json!({}), |value, _| json!({ "x": value }));
        assert!(is_bearable(&schema, &nested(10)));
        assert!(!is_bearable(&schema, &nested(40)));
    }

    #[test]
    fn tree_of_any_size_is_bearable() {
        let schema = json!({ "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } }, "type": "object" });
        let tree = (0..14).fold(json!({}), |tree, _| json!({ "left": tree, "right": tree }));
        assert!(is_bearable(&schema, &tree));
    }

    #[test]
    fn backtracking_patterns_cost_more() {
        let texts = json!(vec!["aaaa"; 2_000]);
        assert!(is_bearable(&json!({ "items": { "pattern": "^a+$" } }), &texts));
        assert!(!is_bearable(&json!({ "items": { "pattern": "^(?=a)(a+)+$" } }), &texts));
    }

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
