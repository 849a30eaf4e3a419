//! Input schemas of servers, made acceptable to every vendor and to the host.
//!
//! Vendors reject a whole request because of one schema that they do not like, and the host refuses a whole list. So a schema
//! becomes one that all accept: an object at the root, without `anyOf` and the like there, with references only to its own
//! definitions, and within bounds. Other parts are left out, which only admits more: the server checks the arguments
//! again. A keyword whose weakening would admit less, such as `not`, goes as a whole.

mod measure;
mod named;
mod root;

use self::measure::{Measure, Place};
use self::named::{FORMATS, name_pattern};
use self::root::{flatten, inline, rename};
use crate::clean;
use crate::pattern::PortablePattern;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::Map;
use std::collections::BTreeMap;

/// Bytes of a schema; beyond, only the names and types of its properties are kept.
const MAX_BYTES: usize = 24 * 1024;
/// Bytes of a schema that is only names and types.
const MAX_FALLBACK: usize = 8 * 1024;
/// Nesting of a schema as it came.
const MAX_DEPTH: usize = 24;
/// Values in a schema as it came.
const MAX_VALUES: usize = 8_000;
/// Subschemas with all references expanded.
const MAX_EXPANDED: usize = 3_000;
/// References in a row from one subschema to the next that apply to the same value.
const MAX_CHAIN: usize = 12;
/// Regular expressions of a schema, and bytes of one.
const MAX_PATTERNS: usize = 32;
const MAX_PATTERN: usize = 512;
/// Values of an `enum`.
const MAX_ENUM: usize = 500;
/// Limit on lengths and numbers of items. Servers expand one into as many rules of a grammar, and refuse too many.
const MAX_LENGTH: u64 = 1_000;
/// Bytes of a description inside a schema.
const MAX_DESCRIPTION: usize = 1_000;
/// Bytes of the name of a property that every vendor accepts.
const MAX_PROPERTY: usize = 64;

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
/// Keywords that a root must not have for some vendor.
const NOT_AT_ROOT: [&str; 9] = ["anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"];

/// A schema that every vendor accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// The schema.
    pub schema: Value,
    /// Names of properties in the schema, and the names that the server knows, where these differ.
    pub renamed: BTreeMap<String, String>,
    /// A sentence for the model about rules that the schema does not contain.
    pub note: Option<String>,
}

impl Fitted {
    /// Returns arguments with the names that the server knows.
    pub fn arguments(renamed: &BTreeMap<String, String>, arguments: Value) -> Value {
        match arguments {
            Value::Object(fields) if !renamed.is_empty() => {
                let known = |name: String| renamed.get(&name).cloned().unwrap_or(name);
                Value::Object(fields.into_iter().map(|(name, value)| (known(name), value)).collect())
            }
            other => other,
        }
    }
}

/// Fits the input schema of a tool.
pub fn fitted(schema: &Value) -> Fitted {
    let is_small = values(schema, 0).is_some_and(|values| values <= MAX_VALUES);
    let whole = is_small.then(|| whole(schema)).flatten();
    whole.unwrap_or_else(|| fallback(schema))
}

/// Counts values. None if they nest too deep.
fn values(value: &Value, depth: usize) -> Option<usize> {
    if depth > 2 * MAX_DEPTH {
        return None;
    }
    let add = |sum: usize, value| Some(sum + values(value, depth + 1)?);
    match value {
        Value::Array(items) => items.iter().try_fold(1, add),
        Value::Object(fields) => fields.values().try_fold(1, add),
        _ => Some(1),
    }
}

/// Fits a schema with all its rules, as far as possible. None if that is too large or too deep.
fn whole(schema: &Value) -> Option<Fitted> {
    let mut fit = Fit { root: schema, patterns: 0, is_lossy: false, has_lossy_definitions: false };
    let Value::Object(mut root) = fit.schema(schema, 0)? else { return None };
    let mut is_lossy = fit.is_lossy;
    inline(&mut root)?;
    let mut rules = Vec::new();
    flatten(&mut root, &mut rules);
    for keyword in NOT_AT_ROOT {
        is_lossy |= root.remove(keyword).is_some();
    }
    match root.get("type") {
        None => {}
        Some(Value::String(name)) if name == "object" => {}
        Some(Value::Array(names)) if names.iter().any(|name| name == "object") => {}
        Some(_) => return None,
    }
    root.insert("type".to_owned(), json!("object"));
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".to_owned(), json!({}));
    }
    let renamed = rename(&mut root);
    let schema = Value::Object(root);
    let mut measure = Measure { root: &schema, left: MAX_EXPANDED };
    measure.visit(&schema, 0, &mut Vec::new(), Place::default())?;
    if schema.to_string().len() > MAX_BYTES {
        return None;
    }
    if is_lossy {
        rules.push("the server checks further rules".to_owned());
    }
    let note = (!rules.is_empty()).then(|| clean::line(&format!("Arguments: {}.", rules.join("; ")), MAX_DESCRIPTION));
    Some(Fitted { schema, renamed, note })
}

/// Keeps only the names, types and descriptions of properties.
fn fallback(schema: &Value) -> Fitted {
    let mut root = Map::new();
    let mut properties = Map::new();
    let mut left = MAX_FALLBACK;
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let mut kept = Map::new();
        if let Some(name) = property.get("type").and_then(Value::as_str).filter(|name| TYPES.contains(name)) {
            kept.insert("type".to_owned(), json!(name));
            if name == "array" {
                kept.insert("items".to_owned(), json!({}));
            }
        }
        if let Some(text) = property.get("description").and_then(Value::as_str) {
            kept.insert("description".to_owned(), json!(clean::line(text, 200)));
        }
        let kept = Value::Object(kept);
        let bytes = name.len() + kept.to_string().len();
        if bytes <= left && clean::is_clean_line(name) {
            left -= bytes;
            properties.insert(name.clone(), kept);
        }
    }
    let names = |value: Option<&Value>| -> Vec<Value> {
        let names = value.and_then(Value::as_array).into_iter().flatten();
        names.filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name))).cloned().collect()
    };
    let required = names(schema.get("required"));
    if !required.is_empty() {
        root.insert("required".to_owned(), Value::Array(required));
    }
    root.insert("type".to_owned(), json!("object"));
    root.insert("properties".to_owned(), Value::Object(properties));
    let renamed = rename(&mut root);
    let note = Some("Arguments: the server's schema is too complex to be shown; the server checks them.".to_owned());
    Fitted { schema: Value::Object(root), renamed, note }
}

/// Fits one schema after the other.
struct Fit<'a> {
    root: &'a Value,
    patterns: usize,
    /// Set when a rule was left out.
    is_lossy: bool,
    /// Set when one was left out of a definition.
    has_lossy_definitions: bool,
}

impl Fit<'_> {
    /// Fits a schema; anything else counts as one that admits everything. None if it nests too deep.
    fn schema(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(_) => return Some(schema.clone()),
            _ => {
                self.is_lossy = true;
                return Some(json!({}));
            }
        };
        let mut fitted = Map::new();
        if depth == 0 {
            for keyword in ["$defs", "definitions"] {
                let Some(schemas) = fields.get(keyword) else { continue };
                let mut definitions = self.definitions(schemas)?;
                if self.is_lossy && !self.has_lossy_definitions {
                    self.has_lossy_definitions = true;
                    definitions = self.definitions(schemas)?;
                }
                fitted.insert(keyword.to_owned(), definitions);
            }
        }
        for (keyword, value) in fields {
            self.keyword(fields, keyword, value, depth, &mut fitted)?;
        }
        self.settle(fields, &mut fitted, depth);
        Some(Value::Object(fitted))
    }

    fn keyword(
        &mut self,
        fields: &Map<String, Value>,
        keyword: &str,
        value: &Value,
        depth: usize,
        fitted: &mut Map<String, Value>,
    ) -> Option<()> {
        let keep = |fitted: &mut Map<String, Value>, value: Value| drop(fitted.insert(keyword.to_owned(), value));
        match keyword {
            "title" | "description" => {
                if let Some(text) = value.as_str() {
                    keep(fitted, json!(clean::text(text, MAX_DESCRIPTION)));
                }
            }
            "$schema" | "$id" | "id" | "$comment" | "$vocabulary" | "examples" | "readOnly" | "writeOnly"
            | "deprecated" => {}
            "default" if is_clean(value) => keep(fitted, value.clone()),
            "default" => {}
            "const" if is_clean(value) => keep(fitted, value.clone()),
            "enum" => match value.as_array() {
                Some(values) if !values.is_empty() && values.len() <= MAX_ENUM && is_clean(value) => {
                    keep(fitted, value.clone());
                }
                _ => self.is_lossy = true,
            },
            "type" => match types(value) {
                Some(types) => keep(fitted, types),
                None => self.is_lossy = true,
            },
            "format" => {
                if value.as_str().is_some_and(|format| FORMATS.contains(&format)) {
                    keep(fitted, value.clone());
                }
            }
            "pattern" => match value.as_str() {
                Some(pattern) => match self.portable(pattern) {
                    Some(pattern) => {
                        self.is_lossy |= !pattern.is_exact;
                        keep(fitted, json!(pattern.text));
                    }
                    None => self.is_lossy = true,
                },
                None => self.is_lossy = true,
            },
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => match value.is_number() {
                true if keyword != "multipleOf" || value.as_f64().is_some_and(|step| step > 0.0) => {
                    keep(fitted, value.clone());
                }
                _ => self.is_lossy = true,
            },
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
            | "maxContains" => match value.as_u64().is_some_and(|length| length <= MAX_LENGTH) {
                true => keep(fitted, value.clone()),
                false => self.is_lossy = true,
            },
            "uniqueItems" => match value.is_boolean() {
                true => keep(fitted, value.clone()),
                false => self.is_lossy = true,
            },
            "required" => match value.as_array().filter(|names| names.iter().all(is_property)) {
                Some(names) if names.len() <= MAX_ENUM => keep(fitted, distinct(names)),
                _ => self.is_lossy = true,
            },
            "$ref" => match value.as_str().filter(|reference| self.resolves(reference)) {
                Some(reference) => keep(fitted, json!(reference)),
                None => self.is_lossy = true,
            },
            "$defs" | "definitions" => {}
            "properties" | "patternProperties" | "dependentSchemas" => match value.as_object() {
                Some(schemas) => {
                    let schemas = self.map(schemas, depth, keyword == "patternProperties")?;
                    keep(fitted, Value::Object(schemas));
                }
                None => self.is_lossy = true,
            },
            "dependentRequired" => match value.as_object() {
                Some(names) if is_clean(value) && names.values().all(is_list_of_names) => keep(fitted, value.clone()),
                _ => self.is_lossy = true,
            },
            // Drafts before 2020-12 have an array of schemas in `items`.
            "items" if value.as_array().is_some_and(Vec::is_empty) => self.is_lossy = true,
            "items" if value.is_array() => {
                drop(fitted.insert("prefixItems".to_owned(), self.list(value, depth)?));
                if let Some(more) = fields.get("additionalItems") {
                    let more = self.schema(more, depth + 1)?;
                    keep(fitted, more);
                }
            }
            "items" | "additionalProperties" | "contains" | "propertyNames" => {
                let schema = self.schema(value, depth + 1)?;
                keep(fitted, schema);
            }
            "prefixItems" | "allOf" | "anyOf" => match value.as_array().filter(|schemas| !schemas.is_empty()) {
                Some(_) => keep(fitted, self.list(value, depth)?),
                None => self.is_lossy = true,
            },
            // Weaker alternatives could admit a value twice, so that `oneOf` would refuse it.
            "oneOf" => match value.as_array().filter(|schemas| !schemas.is_empty()) {
                Some(_) => {
                    let before = std::mem::take(&mut self.is_lossy);
                    let schemas = self.list(value, depth)?;
                    let name = if self.is_lossy || self.is_lossy_by_reference(value) { "anyOf" } else { "oneOf" };
                    self.is_lossy |= before;
                    if !fitted.contains_key(name) {
                        fitted.insert(name.to_owned(), schemas);
                    }
                }
                None => self.is_lossy = true,
            },
            "not" | "if" => {
                let before = std::mem::take(&mut self.is_lossy);
                let schema = self.schema(value, depth + 1)?;
                match self.is_lossy || self.is_lossy_by_reference(value) {
                    true => self.is_lossy = true,
                    false => keep(fitted, schema),
                }
                self.is_lossy |= before;
            }
            "then" | "else" => keep(fitted, self.schema(value, depth + 1)?),
            // Rules that depend on what other keywords admitted, that few know, or that are none.
            _ => {
                self.is_lossy |=
                    ["unevaluatedProperties", "unevaluatedItems", "dependencies", "$dynamicRef"].contains(&keyword)
            }
        }
        Some(())
    }

    /// Removes keywords that depend on others which were left out: alone, they would mean nothing or something else.
    fn settle(&mut self, fields: &Map<String, Value>, fitted: &mut Map<String, Value>, depth: usize) {
        name_pattern(fields, fitted);
        if !fitted.contains_key("if") {
            fitted.remove("then");
            fitted.remove("else");
        }
        let of_type = |fitted: &Map<String, Value>, name: &str| match fitted.get("type") {
            Some(Value::String(one)) => one == name,
            Some(Value::Array(names)) => names.iter().any(|one| one == name),
            _ => false,
        };
        if of_type(fitted, "array") && !fitted.contains_key("items") {
            fitted.insert("items".to_owned(), json!({}));
        }
        // Names that not every vendor accepts; the root's names get others.
        let has_strange = |keyword: &str, may_be_renamed: bool| {
            let names = fields.get(keyword).and_then(Value::as_object);
            names.is_some_and(|names| {
                names.keys().any(|name| !clean::is_clean_line(name) || !may_be_renamed && !is_accepted(name))
            })
        };
        let has_strange_patterns = fields.get("patternProperties").and_then(Value::as_object).is_some_and(|patterns| {
            let kept = fitted.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
            kept != patterns.len()
        });
        if has_strange("properties", depth == 0) || has_strange_patterns {
            self.is_lossy = true;
            for keyword in ["additionalProperties", "patternProperties", "propertyNames", "maxProperties"] {
                fitted.remove(keyword);
            }
            let drop_strange = |schemas: &mut Value| {
                if let Some(schemas) = schemas.as_object_mut() {
                    schemas.retain(|name, _| clean::is_clean_line(name) && (depth == 0 || is_accepted(name)));
                }
            };
            fitted.get_mut("properties").map(drop_strange);
        }
    }

    /// Returns a pattern in the form that all servers compile.
    fn portable(&mut self, pattern: &str) -> Option<PortablePattern> {
        self.patterns += 1;
        let is_bounded = self.patterns <= MAX_PATTERNS && pattern.len() <= MAX_PATTERN && clean::is_clean_line(pattern);
        PortablePattern::from_pattern(pattern).filter(|portable| is_bounded && clean::is_clean_line(&portable.text))
    }

    /// Returns whether a reference leads to a definition of the root.
    fn resolves(&self, reference: &str) -> bool {
        let Some((keyword, name)) = reference.strip_prefix("#/").and_then(|path| path.split_once('/')) else {
            return false;
        };
        let is_plain = clean::is_clean_line(name) && !name.contains(['/', '%', '~']);
        let is_known = |keyword: &str| self.root.get(keyword).and_then(|names| names.get(name)).is_some();
        is_plain && ["$defs", "definitions"].contains(&keyword) && is_known(keyword)
    }

    /// Returns whether a schema refers to definitions of which one lacks a rule.
    fn is_lossy_by_reference(&self, schema: &Value) -> bool {
        self.has_lossy_definitions && has_reference(schema)
    }

    fn definitions(&mut self, schemas: &Value) -> Option<Value> {
        let Some(schemas) = schemas.as_object() else { return Some(json!({})) };
        self.map(schemas, 0, false).map(Value::Object)
    }

    fn map(&mut self, schemas: &Map<String, Value>, depth: usize, is_by_pattern: bool) -> Option<Map<String, Value>> {
        let mut fitted = Map::new();
        for (name, schema) in schemas {
            let name = match is_by_pattern {
                // A pattern that admits more would apply its schema to more.
                true => self.portable(name).filter(|pattern| pattern.is_exact).map(|pattern| pattern.text),
                false => Some(name.clone()).filter(|name| clean::is_clean_line(name)),
            };
            if let Some(name) = name {
                fitted.insert(name, self.schema(schema, depth + 1)?);
            }
        }
        Some(fitted)
    }

    fn list(&mut self, schemas: &Value, depth: usize) -> Option<Value> {
        let schemas = schemas.as_array().into_iter().flatten();
        schemas.map(|schema| self.schema(schema, depth + 1)).collect::<Option<Vec<Value>>>().map(Value::Array)
    }
}

fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("$ref") || fields.values().any(has_reference),
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

fn types(value: &Value) -> Option<Value> {
    let is_type = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::String(_) if is_type(value) => Some(value.clone()),
        Value::Array(names) if !names.is_empty() && names.iter().all(is_type) => Some(distinct(names)),
        _ => None,
    }
}

fn distinct(values: &[Value]) -> Value {
    let mut distinct: Vec<Value> = Vec::new();
    values.iter().for_each(|value| {
        if !distinct.contains(value) {
            distinct.push(value.clone())
        }
    });
    Value::Array(distinct)
}

fn is_list_of_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

/// Returns whether a value is the name of a property that a list may contain.
fn is_property(value: &Value) -> bool {
    value.as_str().is_some_and(clean::is_clean_line)
}

/// Returns whether all texts in a value are plain.
fn is_clean(value: &Value) -> bool {
    match value {
        Value::String(text) => clean::text(text, usize::MAX) == *text,
        Value::Array(items) => items.iter().all(is_clean),
        Value::Object(fields) => fields.iter().all(|(name, value)| clean::is_clean_line(name) && is_clean(value)),
        _ => true,
    }
}

fn is_accepted(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_PROPERTY && name.chars().all(is_property_letter)
}

fn is_property_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
