//! JSON Schemas as a model should see them: every byte of them is paid for in each request.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Without `$schema` and `title`, which tell a model nothing, and without references, which some providers refuse.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.meta_schema = None;
        s.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    RecursiveTransform(tidy).transform(&mut schema);
    schema.to_value()
}

/// Drops what follows from Rust's types and not from the author's words: the width of a number, and the `null` of an
/// `Option`, which is already said by its not being required.
fn tidy(schema: &mut Schema) {
    if schema.get("format").and_then(Value::as_str).is_some_and(is_width) {
        schema.remove("format");
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
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
}
