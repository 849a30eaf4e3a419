//! One text for each JSON value.

use serde_json::Value;

/// Returns a value as JSON without white space, whose keys are sorted: equal values have equal texts.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (number, (name, value)) in fields.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write(&Value::String(name.clone()), out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value = json!({ "b": [{ "y": "\"", "x": null }, 1.5], "a": {} });
        assert_eq!(text(&value), r#"{"a":{},"b":[{"x":null,"y":"\""},1.5]}"#);
    }
}
