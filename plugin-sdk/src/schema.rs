//! JSON Schemas for models, kept small because every request pays for each byte.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Generates the schema of `T` without `$schema`, `title` and references.
///
/// Some providers reject references; they remain only for recursive types.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut generator = settings.into_generator();
    let mut schema = T::json_schema(&mut generator).to_value();
    let definitions = generator.take_definitions(false);
    if let (Value::Object(members), false) = (&mut schema, definitions.is_empty()) {
        members.insert("$defs".to_owned(), definitions.into());
    }
    tidy(&mut schema);
    schema
}

/// Removes what comes from Rust's type system and not from the author: integer widths, and the `null` of an `Option`,
/// which is already absent from `required`.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            // Rebuilds the map: code that removes entries would be the larger part of a small component.
            for (name, mut value) in std::mem::take(members) {
                if !is_noise(&name, &value) {
                    without_null(&name, &mut value);
                    tidy(&mut value);
                    members.insert(name, value);
                }
            }
        }
        Value::Array(parts) => parts.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn is_noise(name: &str, value: &Value) -> bool {
    match name {
        "format" => value.as_str().is_some_and(is_width),
        "default" => value.is_null(),
        _ => false,
    }
}

fn without_null(name: &str, value: &mut Value) {
    let Value::Array(values) = value else { return };
    match name {
        "type" => values.retain(|name| name != "null"),
        "enum" => values.retain(|value| !value.is_null()),
        _ => return,
    }
    if let ("type", [_]) = (name, values.as_slice()) {
        *value = values.remove(0);
    }
}

fn is_width(format: &str) -> bool {
    let digits = format.trim_start_matches("uint").trim_start_matches("int");
    matches!(digits, "" | "8" | "16" | "32" | "64" | "128") || matches!(format, "float" | "double")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Mode {
        Fast,
        Slow,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Inner {
        start: u32,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Arguments {
        /// Directory to search.
        path: String,
        range: Option<Inner>,
        limit: Option<u64>,
        mode: Option<Mode>,
    }

    #[test]
    fn schema_is_inline_and_contains_doc_comments() {
        let schema = schema_of::<Arguments>();
        assert_eq!(schema["properties"]["path"]["description"], "Directory to search.");
        assert_eq!(schema["required"], json!(["path"]));
        let text = schema.to_string();
        assert!(!text.contains("$ref") && !text.contains("$schema"), "{text}");
    }

    #[test]
    fn option_is_optional_and_has_the_inner_type() {
        let schema = schema_of::<Arguments>();
        assert_eq!(schema["properties"]["limit"], json!({"type": "integer", "minimum": 0}));
        assert_eq!(schema["properties"]["mode"], json!({"type": "string", "enum": ["fast", "slow"]}));
        assert_eq!(schema["properties"]["range"]["type"], "object");
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Tree {
        children: Vec<Tree>,
    }

    #[test]
    fn recursive_type_gets_a_definition() {
        let schema = schema_of::<Tree>();
        assert!(schema["$defs"]["Tree"].is_object(), "{schema}");
    }
}
