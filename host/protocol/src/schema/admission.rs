//! Bounds on schemas, checked before a schema is compiled.
//!
//! Schemas come from plugins and servers. The time and memory to compile a schema and to validate against it grow with
//! its expanded references: a schema of a few hundred bytes can expand to 2^40 checks. This module therefore bounds the
//! expanded size. An admitted schema is compiled with the root and the references that were measured; see
//! [`compilable`].

use crate::tokens::json_bytes;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// Maximum bytes of a schema as compact JSON.
const MAX_BYTES: u64 = 64 * 1024;
/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;
/// Maximum subschemas with all references expanded. A schema with `unevaluated*` keywords counts its parts twice.
const MAX_EXPANDED: u64 = 10_000;
/// Maximum chain of nested or referenced subschemas that apply to the same value.
const MAX_CHAIN: usize = 32;
/// Maximum nesting depth with all references expanded.
const MAX_EXPANDED_DEPTH: usize = 256;
/// Maximum number of regular expressions.
const MAX_PATTERNS: u64 = 64;
/// Maximum bytes of one regular expression.
const MAX_PATTERN_BYTES: usize = 1024;
/// Maximum number of values of one `enum`.
const MAX_ENUM: usize = 1024;

/// Types of JSON Schema 2020-12, validation 6.1.1.
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
/// Supported dialects.
const DIALECTS: [&str; 4] = ["draft-06", "draft-07", "2019-09", "2020-12"];
/// Keywords that change the base of references, or refer in unsupported ways.
const UNSUPPORTED: [&str; 6] = ["$id", "$schema", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];

/// The reason a schema was rejected: its size, its complexity or an unsupported reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema {0}")]
pub struct SchemaError(String);

/// Work that validation against a schema can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Number of subschemas with all references expanded once.
    pub expanded: u64,
    /// True if the schema refers to itself, so that the work depends on the nesting of the arguments.
    pub is_recursive: bool,
    /// Number of regular expressions.
    pub patterns: u64,
}

/// Checks that a schema is small and simple enough to be compiled and validated against.
///
/// Takes time linear in the size of the schema. A schema that passes may still be invalid as JSON Schema; of
/// the keywords, only `type` is checked.
///
/// # Errors
/// Fails if the schema exceeds a bound, or has a reference that does not resolve within the schema.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    measure(schema).map(drop)
}

/// Measures a schema that is small and simple enough to be compiled.
///
/// # Errors
/// Fails like [`check_schema`].
pub fn measure(schema: &Value) -> Result<Measure, SchemaError> {
    let mut scan = SchemaScan::default();
    scan.value(schema, 0)?;
    let bytes = json_bytes(schema);
    if bytes > MAX_BYTES {
        return error(format!("has {bytes} bytes, the limit is {MAX_BYTES}"));
    }
    if let Some(dialect) = schema.get("$schema").and_then(Value::as_str)
        && !DIALECTS.iter().any(|known| dialect.contains(known))
    {
        return error("uses an unsupported dialect: use draft 6, draft 7, 2019-09 or 2020-12");
    }
    let mut expansion = Expansion::new(schema);
    let expanded = expansion.size(schema, 0)?;
    Ok(Measure { expanded, is_recursive: expansion.is_recursive, patterns: scan.patterns })
}

/// Returns the schema without its `$id`, which would change the meaning of its references.
pub fn compilable(schema: &Value) -> Cow<'_, Value> {
    match schema.as_object() {
        Some(fields) if fields.contains_key("$id") => {
            let mut fields = fields.clone();
            fields.remove("$id");
            Cow::Owned(Value::Object(fields))
        }
        _ => Cow::Borrowed(schema),
    }
}

/// Checks the keyword `type`: a validator is not compiled until the tool is called, which is too late to report it.
fn types(fields: &Map<String, Value>) -> Result<(), SchemaError> {
    let is_known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_valid = match fields.get("type") {
        None => true,
        Some(Value::Array(names)) => !names.is_empty() && names.iter().all(is_known),
        Some(name) => is_known(name),
    };
    match is_valid {
        true => Ok(()),
        false => error(format!("has a `type` other than {}, or an array of these", TYPES.join(", "))),
    }
}

fn error<T>(problem: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError(problem.into()))
}

/// Visits each value of the schema once, regardless of its meaning.
#[derive(Default)]
struct SchemaScan {
    patterns: u64,
}

impl SchemaScan {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), SchemaError> {
        if depth > MAX_DEPTH {
            return error(format!("nests deeper than {MAX_DEPTH} levels"));
        }
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.value(item, depth + 1)),
            Value::Object(fields) => {
                self.keywords(fields, depth)?;
                fields.values().try_for_each(|value| self.value(value, depth + 1))
            }
            _ => Ok(()),
        }
    }

    fn keywords(&mut self, fields: &Map<String, Value>, depth: usize) -> Result<(), SchemaError> {
        for keyword in UNSUPPORTED {
            let is_used = fields.get(keyword).is_some_and(|value| !value.is_object());
            if is_used && (depth > 0 || !matches!(keyword, "$id" | "$schema")) {
                return error(format!("uses `{keyword}` where it is not supported"));
            }
        }
        // No reference to an anchor is admitted, so that one with a plain name changes nothing.
        if let Some(anchor) = fields.get("$anchor").and_then(Value::as_str)
            && !anchor.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        {
            return error("has an `$anchor` that is no plain name");
        }
        if let Some(pattern) = fields.get("pattern").and_then(Value::as_str) {
            self.pattern(pattern)?;
        }
        if let Some(patterns) = fields.get("patternProperties").and_then(Value::as_object) {
            patterns.keys().try_for_each(|pattern| self.pattern(pattern))?;
        }
        match fields.get("enum").and_then(Value::as_array) {
            Some(values) if values.len() > MAX_ENUM => error(format!("has an `enum` of more than {MAX_ENUM} values")),
            _ => Ok(()),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), SchemaError> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return error(format!("has more than {MAX_PATTERNS} regular expressions"));
        }
        match pattern.len() > MAX_PATTERN_BYTES {
            true => error(format!("has a regular expression of more than {MAX_PATTERN_BYTES} bytes")),
            false => Ok(()),
        }
    }
}

/// A subschema that a schema applies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applied<'a> {
    pub(crate) keyword: &'a str,
    /// Property that the subschema applies to, if the keyword names properties.
    pub(crate) name: Option<&'a str>,
    pub(crate) schema: &'a Value,
}

impl Applied<'_> {
    /// Returns whether the subschema applies to the value itself, rather than to its items or properties.
    pub(crate) fn is_in_place(&self) -> bool {
        IN_PLACE.contains(&self.keyword)
    }
}

pub(crate) const IN_PLACE: [&str; 10] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "$ref"];
pub(crate) const OF_PROPERTIES: [&str; 5] =
    ["properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"];
pub(crate) const OF_ITEMS: [&str; 5] = ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"];
/// Keywords whose value maps names to schemas.
const MAPS: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];

/// Calls `each` with the subschemas of a schema. References are resolved from `root`.
pub(crate) fn subschemas<'a, E>(
    root: &'a Value,
    schema: &'a Map<String, Value>,
    mut each: impl FnMut(Applied<'a>) -> Result<(), E>,
) -> Result<(), E> {
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        let is_applied = [&IN_PLACE[..], &OF_PROPERTIES, &OF_ITEMS].iter().any(|names| names.contains(&keyword));
        let mut apply = |name, schema| each(Applied { keyword, name, schema });
        match value {
            _ if !is_applied => {}
            Value::String(reference) if keyword == "$ref" => {
                target(root, reference).map_or(Ok(()), |target| apply(None, target))?;
            }
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| apply(None, schema))?,
            Value::Object(schemas) if MAPS.contains(&keyword) => {
                schemas.iter().try_for_each(|(name, schema)| apply(Some(name), schema))?;
            }
            schema => apply(None, schema)?,
        }
    }
    Ok(())
}

/// Returns whether a schema has an `unevaluated*` keyword, which makes validators evaluate its subschemas twice.
pub(crate) fn looks_back(schema: &Map<String, Value>) -> bool {
    ["unevaluatedProperties", "unevaluatedItems"].iter().any(|keyword| schema.contains_key(*keyword))
}

/// Resolves a reference to the root or to a path from it.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.contains('%') {
        return None;
    }
    root.pointer(pointer)
}

/// Measures a schema with its references expanded.
struct Expansion<'a> {
    root: &'a Value,
    /// Sizes by the address of the schema; `None` while a schema is being measured.
    sizes: HashMap<*const Value, Option<u64>>,
    chains: HashMap<*const Value, Option<usize>>,
    is_recursive: bool,
}

impl<'a> Expansion<'a> {
    fn new(root: &'a Value) -> Self {
        Self { root, sizes: HashMap::new(), chains: HashMap::new(), is_recursive: false }
    }

    fn size(&mut self, schema: &'a Value, depth: usize) -> Result<u64, SchemaError> {
        let Some(fields) = schema.as_object() else { return Ok(1) };
        match self.sizes.get(&std::ptr::from_ref(schema)) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => {
                self.is_recursive = true;
                return Ok(1);
            }
            None => drop(self.sizes.insert(schema, None)),
        }
        if depth > MAX_EXPANDED_DEPTH {
            return error(format!("nests deeper than {MAX_EXPANDED_DEPTH} levels with its references"));
        }
        self.references(fields)?;
        types(fields)?;
        self.chain(schema, 0)?;
        let (root, mut size) = (self.root, 1_u64);
        subschemas(root, fields, |applied| {
            let times = if applied.is_in_place() && looks_back(fields) { 2 } else { 1 };
            size = size.saturating_add(self.size(applied.schema, depth + 1)?.saturating_mul(times));
            match size > MAX_EXPANDED {
                true => error(format!("has more than {MAX_EXPANDED} subschemas with its references")),
                false => Ok(()),
            }
        })?;
        self.sizes.insert(schema, Some(size));
        Ok(size)
    }

    fn references(&self, fields: &Map<String, Value>) -> Result<(), SchemaError> {
        match fields.get("$ref") {
            Some(Value::String(reference)) if target(self.root, reference).is_none() => {
                let shown: String = reference.chars().take(80).flat_map(char::escape_debug).collect();
                error(format!("has an unresolved reference `{shown}`: only `#` and `#/…` are supported"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the length of the longest chain of subschemas that apply to the same value.
    fn chain(&mut self, schema: &'a Value, depth: usize) -> Result<usize, SchemaError> {
        let Some(fields) = schema.as_object() else { return Ok(1) };
        match self.chains.get(&std::ptr::from_ref(schema)) {
            Some(Some(length)) => return Ok(*length),
            Some(None) => return error("applies itself to the same value"),
            None => drop(self.chains.insert(schema, None)),
        }
        let too_long = || error(format!("nests more than {MAX_CHAIN} subschemas that apply to the same value"));
        if depth > MAX_CHAIN {
            return too_long();
        }
        let mut length = 0;
        subschemas(self.root, fields, |applied| {
            if applied.is_in_place() {
                length = length.max(self.chain(applied.schema, depth + 1)?);
            }
            Ok(())
        })?;
        if length >= MAX_CHAIN {
            return too_long();
        }
        self.chains.insert(schema, Some(length + 1));
        Ok(length + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rejection(schema: Value) -> String {
        check_schema(&schema).unwrap_err().to_string()
    }

    /// Builds `count` definitions that each apply the next one twice.
    fn doubled(count: usize, keyword: &str) -> Value {
        let twice =
            |n: usize| json!({ keyword: [{ "$ref": format!("#/$defs/d{n}") }, { "$ref": format!("#/$defs/d{n}") }] });
        let mut definitions: Map<String, Value> = (0..count).map(|n| (format!("d{n}"), twice(n + 1))).collect();
        definitions.insert(format!("d{count}"), json!({ "type": "object" }));
        json!({ "type": "object", "$ref": "#/$defs/d0", "$defs": definitions })
    }

    #[test]
    fn values_nest_as_deep_as_the_limit_and_no_deeper() {
        let nested = |depth: usize| {
            let value = (1..depth).fold(json!([]), |inner, _| json!([inner]));
            check_schema(&json!({ "type": "object", "default": value }))
        };
        assert!(nested(MAX_DEPTH).is_ok());
        assert!(nested(MAX_DEPTH + 1).unwrap_err().to_string().contains("nests deeper than 64 levels"));
    }

    #[test]
    fn unknown_types_are_rejected_where_they_are_keywords() {
        for bad in [json!(7), json!("text"), json!([]), json!(["string", 7]), json!({})] {
            let problem = rejection(json!({ "type": "object", "properties": { "a": { "type": bad } } }));
            assert!(problem.contains("has a `type` other than "), "{problem}");
        }
        let good = json!({ "type": ["object", "null"], "properties": { "type": { "type": "string" } }, "default": { "type": 7 } });
        assert!(check_schema(&good).is_ok());
    }

    #[test]
    fn doubling_references_are_rejected_by_expanded_size() {
        assert!(check_schema(&doubled(10, "allOf")).is_ok());
        for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            let problem = rejection(doubled(14, keyword));
            assert!(problem.contains("10000 subschemas"), "{keyword}: {problem}");
            rejection(doubled(40, keyword));
        }
        let mut nested = json!({});
        for n in 0..30 {
            let part = format!("#/$defs/{n}");
            nested[(n + 1).to_string()] = json!({ "properties": { "a": { "$ref": part }, "b": { "$ref": part } } });
        }
        nested["0"] = json!({});
        assert!(rejection(json!({ "$ref": "#/$defs/30", "$defs": nested })).contains("subschemas with its references"));
    }

    #[test]
    fn unevaluated_keywords_count_their_parts_twice() {
        let mut schema = json!({ "type": "object" });
        for _ in 0..20 {
            schema = json!({ "allOf": [schema], "unevaluatedProperties": false });
        }
        assert!(rejection(schema).contains("10000 subschemas"));
    }

    #[test]
    fn reference_cycle_on_the_same_value_is_rejected() {
        for schema in [
            json!({ "$defs": { "a": { "allOf": [{ "$ref": "#/$defs/a" }] } }, "$ref": "#/$defs/a" }),
            json!({ "$ref": "#" }),
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "not": { "$ref": "#/$defs/a" } } },
                    "properties": { "x": { "$ref": "#/$defs/a" } } }),
        ] {
            assert!(rejection(schema).contains("itself to the same value"));
        }
    }

    #[test]
    fn recursive_tree_schema_is_admitted() {
        let tree = json!({ "type": "object", "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } });
        assert!(measure(&tree).unwrap().is_recursive);
    }

    #[test]
    fn references_outside_the_schema_are_rejected() {
        for reference in
            ["http://a.example/x", "file:///etc/passwd", "#anchor", "other.json#/a", "#/$defs/none", "", "#%2F"]
        {
            assert!(rejection(json!({ "$ref": reference })).contains("unresolved reference"), "{reference}");
        }
        for (keyword, value) in [
            ("$id", json!("http://a.example/")),
            ("$anchor", json!("/$defs/a")),
            ("$dynamicRef", json!("#a")),
            ("$schema", json!("http://json-schema.org/draft-04/schema#")),
        ] {
            let problem = rejection(json!({ "properties": { "x": { keyword: value } } }));
            assert!(problem.contains(keyword), "{problem}");
        }
        assert!(rejection(json!({ "$schema": "http://json-schema.org/draft-04/schema#" })).contains("dialect"));
        assert!(
            check_schema(&json!({ "$id": "http://a.example/", "properties": { "$id": { "type": "string" } } })).is_ok()
        );
    }

    #[test]
    fn anchor_is_admitted_and_references_to_it_are_not() {
        let schema = |reference: &str| json!({ "$defs": { "a": { "$anchor": "name" } }, "$ref": reference });
        assert_eq!(check_schema(&schema("#/$defs/a")), Ok(()));
        assert!(rejection(schema("#name")).contains("unresolved reference `#name`"));
    }

    #[test]
    fn bytes_depth_patterns_and_enums_are_bounded() {
        assert!(rejection(json!({ "description": "x".repeat(70_000) })).contains("bytes"));
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({ "properties": { "a": deep } });
        }
        assert!(rejection(deep).contains("64 levels"));
        assert!(rejection(json!({ "pattern": "a".repeat(2_000) })).contains("1024 bytes"));
        assert!(rejection(json!({ "patternProperties": { "a".repeat(2_000): {} } })).contains("1024 bytes"));
        let many: Map<String, Value> = (0..65).map(|n| (format!("p{n}"), json!({ "pattern": "a" }))).collect();
        assert!(rejection(json!({ "properties": many })).contains("64 regular expressions"));
        assert!(rejection(json!({ "enum": (0..2_000).collect::<Vec<_>>() })).contains("1024 values"));
    }

    #[test]
    fn long_reference_chain_is_rejected_without_stack_overflow() {
        let link = |n: usize, key: &str| match key {
            "$ref" => json!({ "$ref": format!("#/$defs/{}", n + 1) }),
            _ => json!({ "properties": { "a": { "$ref": format!("#/$defs/{}", n + 1) } } }),
        };
        for key in ["$ref", "properties"] {
            let mut definitions: Map<String, Value> = (0..1_000).map(|n| (n.to_string(), link(n, key))).collect();
            definitions.insert("1000".into(), json!({}));
            assert!(check_schema(&json!({ "$ref": "#/$defs/0", "$defs": definitions })).is_err(), "{key}");
        }
    }
}
