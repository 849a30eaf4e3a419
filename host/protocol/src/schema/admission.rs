//! Bounds on schemas, checked before one is compiled.
//!
//! Schemas come from plugins and servers. Compiling one, and checking arguments against it, takes time and memory that
//! grow with the schema as its references expand it, so that is what is bounded here: a schema of a few hundred bytes can
//! expand to 2^40 checks. What passes is compiled with root and references as they were measured, see [`compilable`].

use crate::json::json_bytes;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// Bytes of a schema as JSON.
const MAX_BYTES: u64 = 64 * 1024;
/// Levels of nesting.
const MAX_DEPTH: usize = 64;
/// Subschemas with all references expanded; one that looks at what was evaluated counts its parts twice.
const MAX_EXPANDED: u64 = 10_000;
/// Subschemas that apply to the same value, one within the other or behind its reference.
const MAX_CHAIN: usize = 32;
/// Levels of nesting with all references expanded.
const MAX_EXPANDED_DEPTH: usize = 256;
/// Regular expressions.
const MAX_PATTERNS: u64 = 64;
/// Bytes of one of them.
const MAX_PATTERN_BYTES: usize = 1024;
/// Values of one `enum`.
const MAX_ENUM: usize = 1024;

/// The dialects whose keywords are understood here.
const DIALECTS: [&str; 4] = ["draft-06", "draft-07", "2019-09", "2020-12"];
/// Keywords that give a subschema another base, or refer in ways that are not followed here.
const UNSUPPORTED: [&str; 7] =
    ["$id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];

/// A schema that is not admitted: it is too large or too complex, or refers to what cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema {0}")]
pub struct SchemaError(String);

/// The work that checking against a schema can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Subschemas, with all references expanded once.
    pub expanded: u64,
    /// It refers to itself, so that the work depends on how deep the arguments nest.
    pub is_recursive: bool,
    /// Regular expressions in the schema.
    pub patterns: u64,
}

/// Checks that a schema is small and simple enough to be compiled and checked against.
///
/// Takes time linear in the schema's size. A schema that passes may still be no valid JSON Schema.
///
/// # Errors
/// It exceeds a bound, or has a reference that does not lead to a place in itself.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    measure(schema).map(drop)
}

/// Measures a schema that is small and simple enough to be compiled.
///
/// # Errors
/// It exceeds a bound: see [`check_schema`].
pub fn measure(schema: &Value) -> Result<Measure, SchemaError> {
    let mut scan = Scan::default();
    scan.value(schema, 0)?;
    let bytes = json_bytes(schema);
    if bytes > MAX_BYTES {
        return error(format!("has {bytes} bytes, and {MAX_BYTES} are the limit"));
    }
    if let Some(dialect) = schema.get("$schema").and_then(Value::as_str)
        && !DIALECTS.iter().any(|known| dialect.contains(known))
    {
        return error("is of a dialect that is not supported: use draft 6, draft 7, 2019-09 or 2020-12");
    }
    let mut expansion = Expansion::new(schema);
    let expanded = expansion.size(schema, 0)?;
    Ok(Measure { expanded, is_recursive: expansion.is_recursive, patterns: scan.patterns })
}

/// The schema without an identifier of its own, which would change what its references mean.
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

fn error<T>(problem: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError(problem.into()))
}

/// Looks at each value of the schema once, whatever it means there.
#[derive(Default)]
struct Scan {
    patterns: u64,
}

impl Scan {
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
    /// The property that it is for, where the keyword names properties.
    pub(crate) name: Option<&'a str>,
    pub(crate) schema: &'a Value,
}

impl Applied<'_> {
    /// It applies to the same value, as opposed to items or properties of it.
    pub(crate) fn is_in_place(&self) -> bool {
        IN_PLACE.contains(&self.keyword)
    }
}

const IN_PLACE: [&str; 10] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "$ref"];
pub(crate) const OF_PROPERTIES: [&str; 5] =
    ["properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"];
pub(crate) const OF_ITEMS: [&str; 5] = ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"];
/// Keywords whose value maps names to schemas.
const MAPS: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];

/// Calls `each` with the subschemas that a schema applies. References start at `root`.
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

/// Returns whether a schema looks at what its subschemas have evaluated, for which they are evaluated once more.
pub(crate) fn looks_back(schema: &Map<String, Value>) -> bool {
    ["unevaluatedProperties", "unevaluatedItems"].iter().any(|keyword| schema.contains_key(*keyword))
}

/// The place that a reference leads to: the root, or a path from there.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.contains('%') {
        return None;
    }
    root.pointer(pointer)
}

/// Follows references.
struct Expansion<'a> {
    root: &'a Value,
    /// By the address of the schema; none while it is being measured.
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
                error(format!("refers to `{shown}`, which is no place in it: only `#` and `#/…` are supported"))
            }
            _ => Ok(()),
        }
    }

    /// Nesting of subschemas that apply to the same value.
    fn chain(&mut self, schema: &'a Value, depth: usize) -> Result<usize, SchemaError> {
        let Some(fields) = schema.as_object() else { return Ok(1) };
        match self.chains.get(&std::ptr::from_ref(schema)) {
            Some(Some(length)) => return Ok(*length),
            Some(None) => return error("refers to itself for one and the same value"),
            None => drop(self.chains.insert(schema, None)),
        }
        let too_long = || error(format!("applies more than {MAX_CHAIN} subschemas within one another to one value"));
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

    fn refused(schema: Value) -> String {
        check_schema(&schema).unwrap_err().to_string()
    }

    /// `count` definitions, each of which applies the next one twice.
    fn doubled(count: usize, keyword: &str) -> Value {
        let twice =
            |n: usize| json!({ keyword: [{ "$ref": format!("#/$defs/d{n}") }, { "$ref": format!("#/$defs/d{n}") }] });
        let mut definitions: Map<String, Value> = (0..count).map(|n| (format!("d{n}"), twice(n + 1))).collect();
        definitions.insert(format!("d{count}"), json!({ "type": "object" }));
        json!({ "type": "object", "$ref": "#/$defs/d0", "$defs": definitions })
    }

    #[test]
    fn references_that_double_are_refused_by_what_they_expand_to() {
        assert!(check_schema(&doubled(10, "allOf")).is_ok());
        for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            let problem = refused(doubled(14, keyword));
            assert!(problem.contains("10000 subschemas"), "{keyword}: {problem}");
            refused(doubled(40, keyword));
        }
        let mut nested = json!({});
        for n in 0..30 {
            let part = format!("#/$defs/{n}");
            nested[(n + 1).to_string()] = json!({ "properties": { "a": { "$ref": part }, "b": { "$ref": part } } });
        }
        nested["0"] = json!({});
        assert!(refused(json!({ "$ref": "#/$defs/30", "$defs": nested })).contains("subschemas with its references"));
    }

    #[test]
    fn what_looks_at_evaluated_parts_counts_them_twice() {
        let mut schema = json!({ "type": "object" });
        for _ in 0..20 {
            schema = json!({ "allOf": [schema], "unevaluatedProperties": false });
        }
        assert!(refused(schema).contains("10000 subschemas"));
    }

    #[test]
    fn a_reference_that_comes_back_to_the_same_value_is_refused() {
        for schema in [
            json!({ "$defs": { "a": { "allOf": [{ "$ref": "#/$defs/a" }] } }, "$ref": "#/$defs/a" }),
            json!({ "$ref": "#" }),
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "not": { "$ref": "#/$defs/a" } } },
                    "properties": { "x": { "$ref": "#/$defs/a" } } }),
        ] {
            assert!(refused(schema).contains("itself for one and the same value"));
        }
    }

    #[test]
    fn a_tree_that_refers_to_itself_is_fine() {
        let tree = json!({ "type": "object", "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } });
        assert!(measure(&tree).unwrap().is_recursive);
    }

    #[test]
    fn references_lead_to_the_schema_itself_and_nowhere_else() {
        for reference in
            ["http://a.example/x", "file:///etc/passwd", "#anchor", "other.json#/a", "#/$defs/none", "", "#%2F"]
        {
            assert!(refused(json!({ "$ref": reference })).contains("no place in it"), "{reference}");
        }
        for (keyword, value) in [
            ("$id", json!("http://a.example/")),
            ("$anchor", json!("a")),
            ("$dynamicRef", json!("#a")),
            ("$schema", json!("http://json-schema.org/draft-04/schema#")),
        ] {
            let problem = refused(json!({ "properties": { "x": { keyword: value } } }));
            assert!(problem.contains(keyword), "{problem}");
        }
        assert!(refused(json!({ "$schema": "http://json-schema.org/draft-04/schema#" })).contains("dialect"));
        assert!(
            check_schema(&json!({ "$id": "http://a.example/", "properties": { "$id": { "type": "string" } } })).is_ok()
        );
    }

    #[test]
    fn bytes_depth_patterns_and_enums_are_bounded() {
        assert!(refused(json!({ "description": "x".repeat(70_000) })).contains("bytes"));
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({ "properties": { "a": deep } });
        }
        assert!(refused(deep).contains("64 levels"));
        assert!(refused(json!({ "pattern": "a".repeat(2_000) })).contains("1024 bytes"));
        assert!(refused(json!({ "patternProperties": { "a".repeat(2_000): {} } })).contains("1024 bytes"));
        let many: Map<String, Value> = (0..65).map(|n| (format!("p{n}"), json!({ "pattern": "a" }))).collect();
        assert!(refused(json!({ "properties": many })).contains("64 regular expressions"));
        assert!(refused(json!({ "enum": (0..2_000).collect::<Vec<_>>() })).contains("1024 values"));
    }

    #[test]
    fn a_long_chain_of_references_is_refused_before_it_fills_the_stack() {
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
