//! The arguments of a call in one line, for people.

use serde_json::Value;

/// Arguments that say what a call is about, the most telling first. They are visible however narrow the row is.
const TELLING: [&str; 8] = ["command", "path", "file", "query", "pattern", "url", "name", "task"];

/// Returns the arguments of a call in one line: first those that say what it is about, then the others in the model's order,
/// with names if there are many. Edits are counted, because the result shows them. The text is the model's own.
pub fn summary(arguments: &Value) -> String {
    let fields = match arguments {
        Value::Object(fields) => fields,
        Value::String(text) => return text.clone(),
        other => return other.to_string(),
    };
    let is_telling = |name: &str| TELLING.contains(&name);
    let telling = TELLING.iter().filter_map(|name| Some((*name, fields.get(*name)?)));
    let others = fields.iter().filter(|(name, _)| !is_telling(name)).map(|(name, value)| (name.as_str(), value));
    let has_names = fields.len() > 3;
    let shown = |(name, value): (&str, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Array(edits) if name == "edits" => match edits.len() {
                1 => "1 edit".to_owned(),
                n => format!("{n} edits"),
            },
            other => other.to_string(),
        };
        if has_names && !is_telling(name) { format!("{name}: {value}") } else { value }
    };
    telling.chain(others).map(shown).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn file_and_command_come_first_in_any_order_of_arguments() {
        for (arguments, shown) in [
            (json!({ "content": "long", "path": "a.rs" }), "a.rs  long"),
            (json!({ "edits": [1, 2], "path": "a.rs" }), "a.rs  2 edits"),
            (json!({ "b": 1, "a": "x" }), "1  x"),
            (json!({ "limit": 3, "regex": true, "path": "src", "pattern": "fn" }), "src  fn  limit: 3  regex: true"),
            (json!("text"), "text"),
            (json!([1]), "[1]"),
            (json!({}), ""),
        ] {
            assert_eq!(summary(&arguments), shown);
        }
    }
}
