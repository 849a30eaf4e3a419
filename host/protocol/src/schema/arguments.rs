//! Repair of arguments that a model wrote in another form than the schema has, where the schema makes the meaning certain.
//!
//! Small models write numbers and switches as texts, lists and objects as the text of their JSON, and all arguments as one text.

use super::work::{MAX_NESTING, Size};
use serde_json::{Map, Number, Value};

/// Maximum subschemas that are looked at for one repair.
const MAX_STEPS: usize = 20_000;
/// Whole numbers up to this bound are all exact in floating point.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Returns the arguments in the form of the schema, or `None` if there is nothing to repair. The caller validates the
/// result.
///
/// If the arguments are valid as they are, only whole numbers with a fraction, such as `10.0`, lose it: JSON Schema accepts them as
/// integers, and programs that read an integer do not.
pub fn repaired(schema: &Value, arguments: &Value, is_valid: bool) -> Option<Value> {
    let mut repair = ArgumentRepair { root: schema, left: MAX_STEPS, only_whole: is_valid };
    let repaired = match arguments {
        Value::String(text) if !is_valid => object(text)?,
        arguments => arguments.clone(),
    };
    Size::from_arguments(&repaired)?;
    let repaired = repair.value(schema, repaired, 0);
    (repaired != *arguments).then_some(repaired)
}

/// Returns an object without its null properties; `None` if it has no null properties.
pub fn without_nulls(arguments: &Value) -> Option<Value> {
    let fields = arguments.as_object().filter(|fields| fields.values().any(Value::is_null))?;
    Some(
        fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

/// Returns the arguments of a call whose text is not JSON because something follows them: an empty object, or the same once more.
pub fn followed_by_nothing_new(text: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let first = values.next()?.ok().filter(Value::is_object)?;
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    let mut rest = 0;
    for value in values {
        let value = value.ok()?;
        if !is_empty(&value) && value != first {
            return None;
        }
        rest += 1;
    }
    (rest > 0).then_some(first)
}

/// Reads all arguments from a text, which may be quoted more than once.
fn object(text: &str) -> Option<Value> {
    let mut text = text.to_owned();
    for _ in 0..3 {
        match serde_json::from_str(&text) {
            Ok(value @ Value::Object(_)) => return Some(value),
            Ok(Value::String(inner)) => text = inner,
            Ok(_) => return None,
            Err(_) => return followed_by_nothing_new(&text),
        }
    }
    None
}

struct ArgumentRepair<'a> {
    root: &'a Value,
    left: usize,
    /// Only whole numbers lose their fraction.
    only_whole: bool,
}

impl<'a> ArgumentRepair<'a> {
    fn value(&mut self, schema: &'a Value, value: Value, depth: usize) -> Value {
        let mut options = Vec::new();
        self.options(schema, depth, &mut options);
        let fitting: Vec<_> = options.iter().copied().filter(|option| accepts(option, &value)).collect();
        match fitting.as_slice() {
            // A type that fits stays. Which of several options is meant is not certain, unless all have the same properties.
            [_, ..] => self.parts(&fitting, value, depth),
            [] => match self.converted(&options, &value) {
                Some(converted) => {
                    let fitting: Vec<_> = options.into_iter().filter(|option| accepts(option, &converted)).collect();
                    self.parts(&fitting, converted, depth)
                }
                None => value,
            },
        }
    }

    /// Collects the schemas, one of which must accept a value, with references and alternatives resolved.
    fn options(&mut self, schema: &'a Value, depth: usize, options: &mut Vec<&'a Map<String, Value>>) {
        let Some(members) = schema.as_object() else { return };
        let Some(left) = self.left.checked_sub(1).filter(|_| depth <= MAX_NESTING) else { return };
        self.left = left;
        if let Some(target) = members.get("$ref").and_then(Value::as_str).and_then(|at| self.target(at)) {
            return self.options(target, depth + 1, options);
        }
        let alternatives =
            ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|keyword| members.get(keyword)?.as_array());
        let alternatives: Vec<_> = alternatives.flatten().collect();
        if alternatives.is_empty() || members.contains_key("properties") || members.contains_key("type") {
            options.push(members);
        }
        for alternative in alternatives {
            self.options(alternative, depth + 1, options);
        }
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }

    /// Converts a value that no option accepts, if all options that accept a conversion accept the same one.
    fn converted(&self, options: &[&'a Map<String, Value>], value: &Value) -> Option<Value> {
        if self.only_whole {
            return whole(value).filter(|whole| options.iter().any(|option| accepts(option, whole)));
        }
        let mut found: Option<Value> = None;
        for candidate in candidates(value) {
            if !options.iter().any(|option| accepts(option, &candidate)) {
                continue;
            }
            match &found {
                Some(found) if *found != candidate => return None,
                _ => found = Some(candidate),
            }
        }
        found
    }

    /// Repairs the properties or items of a value.
    fn parts(&mut self, options: &[&'a Map<String, Value>], value: Value, depth: usize) -> Value {
        if depth >= MAX_NESTING {
            return value;
        }
        match value {
            Value::Object(members) => {
                let part = |(name, value): (String, Value)| match the_only(
                    options.iter().filter_map(|option| property(option, &name)),
                ) {
                    Some(schema) => (name, self.value(schema, value, depth + 1)),
                    None => (name, value),
                };
                Value::Object(members.into_iter().map(part).collect())
            }
            Value::Array(items) => match the_only(options.iter().filter_map(|option| option.get("items"))) {
                Some(schema) => items.into_iter().map(|item| self.value(schema, item, depth + 1)).collect(),
                None => Value::Array(items),
            },
            value => value,
        }
    }
}

/// Returns the schema of a property.
fn property<'a>(option: &&'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let named = option.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| option.get("additionalProperties").filter(|_| !option.contains_key("patternProperties")))
}

/// Returns the value of an iterator if all its values are equal.
fn the_only<'a>(mut values: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    let first = values.next()?;
    values.all(|value| std::ptr::eq(value, first) || value == first).then_some(first)
}

/// Returns whether a schema allows a value by its type and its list of values.
fn accepts(schema: &&Map<String, Value>, value: &Value) -> bool {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.contains(value);
    }
    if let Some(only) = schema.get("const") {
        return only == value;
    }
    let is = |name: &str| match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        // A fraction of zero is left to be removed.
        Value::Number(number) => name == "number" || (name == "integer" && !number.is_f64()),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    };
    match schema.get("type") {
        Some(Value::String(name)) => is(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is),
        _ if schema.contains_key("properties") => value.is_object(),
        _ if schema.contains_key("items") => value.is_array(),
        _ => true,
    }
}

/// Returns the values that a value can stand for.
fn candidates(value: &Value) -> Vec<Value> {
    let mut found: Vec<Value> = whole(value).into_iter().collect();
    let Value::String(text) = value else { return found };
    let text = text.trim();
    match text {
        "true" | "True" => found.push(Value::Bool(true)),
        "false" | "False" => found.push(Value::Bool(false)),
        "null" | "None" => found.push(Value::Null),
        _ => match serde_json::from_str::<Value>(text) {
            Ok(number @ Value::Number(_)) => found.push(whole(&number).unwrap_or(number)),
            Ok(value @ (Value::Array(_) | Value::Object(_))) => found.push(value),
            _ => {}
        },
    }
    found
}

/// Returns a whole number without its fraction.
fn whole(value: &Value) -> Option<Value> {
    let number = value.as_number().filter(|number| number.is_f64())?.as_f64()?;
    let is_whole = number.fract() == 0.0 && number.abs() < MAX_WHOLE;
    is_whole.then(|| Value::Number(Number::from(number as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "n": { "type": "integer" }, "x": { "type": "number" }, "is": { "type": "boolean" },
                "s": { "type": "string" }, "list": { "type": "array", "items": { "$ref": "#/$defs/n" } },
                "o": { "type": "object", "properties": { "n": { "type": "integer" } } },
                "maybe": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
                "either": { "type": ["string", "integer"] },
                "two": { "anyOf": [{ "type": "integer" }, { "type": "boolean" }] },
                "one": { "enum": [1, 2] },
                "any": {},
            },
            "additionalProperties": { "type": "boolean" },
            "$defs": { "n": { "type": "integer" } },
        })
    }

    #[test]
    fn values_whose_meaning_is_certain_are_repaired() {
        for (wrote, meant) in [
            (json!({ "n": "1" }), json!({ "n": 1 })),
            (json!({ "n": " -7 " }), json!({ "n": -7 })),
            (json!({ "n": "1.0" }), json!({ "n": 1 })),
            (json!({ "x": "1.5" }), json!({ "x": 1.5 })),
            (json!({ "is": "true" }), json!({ "is": true })),
            (json!({ "is": "False" }), json!({ "is": false })),
            (json!({ "list": "[1, 2]" }), json!({ "list": [1, 2] })),
            (json!({ "list": "[\"1\"]" }), json!({ "list": [1] })),
            (json!({ "list": ["1", 2] }), json!({ "list": [1, 2] })),
            (json!({ "o": "{\"n\": \"1\"}" }), json!({ "o": { "n": 1 } })),
            (json!({ "o": { "n": "1" } }), json!({ "o": { "n": 1 } })),
            (json!({ "maybe": "3" }), json!({ "maybe": 3 })),
            (json!({ "maybe": "null" }), json!({ "maybe": null })),
            (json!({ "two": "true" }), json!({ "two": true })),
            (json!({ "one": "2" }), json!({ "one": 2 })),
            (json!({ "other": "true" }), json!({ "other": true })),
            (json!("{\"n\": 1}"), json!({ "n": 1 })),
            (json!("\"{\\\"n\\\": \\\"1\\\"}\""), json!({ "n": 1 })),
            (json!("{\"n\": 1}{}"), json!({ "n": 1 })),
        ] {
            assert_eq!(repaired(&schema(), &wrote, false), Some(meant), "{wrote}");
        }
    }

    #[test]
    fn values_whose_meaning_is_not_certain_stay() {
        for wrote in [
            json!({ "n": "one" }),
            json!({ "n": "1.5" }),
            json!({ "n": "" }),
            json!({ "n": "0x10" }),
            json!({ "n": true }),
            json!({ "n": 1.5 }),
            json!({ "is": "yes" }),
            json!({ "is": 1 }),
            json!({ "s": "1" }),
            json!({ "s": "true" }),
            json!({ "s": "[1]" }),
            json!({ "s": 1 }),
            json!({ "either": "1" }),
            json!({ "any": "1" }),
            json!({ "list": "1, 2" }),
            json!({ "list": "{}" }),
            json!({ "o": "[]" }),
            json!({ "one": "3" }),
            json!("[1]"),
            json!("n=1"),
            json!(7),
        ] {
            assert_eq!(repaired(&schema(), &wrote, false), None, "{wrote}");
        }
    }

    #[test]
    fn valid_arguments_lose_only_fractions_of_zero() {
        let whole = repaired(&schema(), &json!({ "n": 10.0, "x": 10.0, "list": [1.0] }), true).unwrap();
        assert_eq!(whole.to_string(), json!({ "n": 10, "x": 10.0, "list": [1] }).to_string());
        for valid in [json!({ "n": 10, "x": 1.0, "any": 1.0 }), json!({ "n": "1" }), json!({ "n": 1e300 })] {
            assert_eq!(repaired(&schema(), &valid, true), None, "{valid}");
        }
    }

    #[test]
    fn text_behind_the_arguments_is_dropped_if_it_adds_nothing() {
        for text in ["{\"a\":1}{}", "{\"a\":1}\n{} {}", "{\"a\":1}{\"a\":1}", "{\"a\":1}{\"a\":1}{}"] {
            assert_eq!(followed_by_nothing_new(text), Some(json!({ "a": 1 })), "{text}");
        }
        for text in ["{\"a\":1}", "{\"a\":1}{\"a\":2}", "{\"a\":1}{", "{\"a\":1", "[1]{}", "", "{\"a\":1}}", "{}x"] {
            assert_eq!(followed_by_nothing_new(text), None, "{text}");
        }
    }

    #[test]
    fn recursive_schemas_and_deep_arguments_end() {
        let tree =
            json!({ "properties": { "x": { "$ref": "#" }, "n": { "type": "integer" } }, "anyOf": [{ "$ref": "#" }] });
        let nested = |levels: usize| (0..levels).fold(json!({ "n": "1" }), |value, _| json!({ "x": value }));
        let _ = repaired(&tree, &nested(30), false);
        let _ = repaired(&tree, &nested(1_000), false);
        let _ = repaired(&json!({ "$ref": "#" }), &json!({ "n": "1" }), false);
        let wide = json!({ "x": vec!["1"; 100_000] });
        let _ = repaired(&json!({ "properties": { "x": { "items": { "type": "integer" } } } }), &wide, false);
    }
}
