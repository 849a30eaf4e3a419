//! JSON Schemas as a model should see them: every byte of them is paid for in each request.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Without `$schema` and `title`, which tell a model nothing, and without references, which some providers refuse, but
/// for types that contain themselves.
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

/// Drops what follows from Rust's types and not from the author's words: the width of a number, and the `null` of an
/// `Option`, which is already said by its not being required.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            // Anew, as removing from a map would be the larger part of a small component.
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
        /// Where to look.
        path: String,
        range: Option<Inner>,
        limit: Option<u64>,
        mode: Option<Mode>,
    }

    #[test]
    fn a_schema_is_inline_and_holds_the_doc_comments() {
        let schema = schema_of::<Arguments>();
        assert_eq!(schema["properties"]["path"]["description"], "Where to look.");
        assert_eq!(schema["required"], json!(["path"]));
        let text = schema.to_string();
        assert!(!text.contains("$ref") && !text.contains("$schema"), "{text}");
    }

    #[test]
    fn an_option_is_not_required_and_has_the_type_of_its_value() {
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
    fn a_type_that_contains_itself_has_a_definition() {
        let schema = schema_of::<Tree>();
        assert!(schema["$defs"]["Tree"].is_object(), "{schema}");
    }
}
