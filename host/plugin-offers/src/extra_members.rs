//! The members of `extra` in definitions of tools and commands, compared with the published schemas.
//!
//! The host ignores members that it does not know, so that plugins can use later ones. A misspelled member would fail
//! silently, so `pinion plugin check` names each one that the schemas do not have.

use pinion_protocol::text::one_line;
use serde_json::Value;

/// The schema of a tool's `extra`.
pub const TOOL: &str = include_str!("../schemas/tool-extra.json");
/// The schema of a command's `extra`.
pub const COMMAND: &str = include_str!("../schemas/command-extra.json");

/// Remarks about one definition.
const MAX_REMARKS: usize = 8;
/// Characters of a name in a remark.
const MAX_SHOWN: usize = 80;

/// Returns phrases for the parts of an `extra` that its schema does not have. `owner` begins them, such as ``tool `x` ``.
pub fn remarks(owner: &str, extra: Option<&str>, schema: &str) -> Vec<String> {
    let Some(extra) = extra else { return Vec::new() };
    let (Ok(extra), Ok(schema)) = (serde_json::from_str::<Value>(extra), serde_json::from_str(schema)) else {
        return vec![format!("{owner}: `extra` is not JSON, and is ignored")];
    };
    let mut problems = Vec::new();
    compare(&extra, &schema, "extra", &mut problems);
    problems.into_iter().take(MAX_REMARKS).map(|problem| format!("{owner}: {problem}")).collect()
}

fn compare(value: &Value, schema: &Value, path: &str, problems: &mut Vec<String>) {
    let kind = schema["type"].as_str();
    if kind.is_some_and(|kind| kind != type_name(value)) {
        problems.push(format!("`{path}` is not of the type `{}`", kind.unwrap_or_default()));
        return;
    }
    if let (Value::Object(members), Some(known)) = (value, schema["properties"].as_object()) {
        for (name, member) in members {
            let path = format!("{path}.{}", one_line(name, MAX_SHOWN));
            match known.get(name) {
                Some(schema) => compare(member, schema, &path, problems),
                None => problems.push(format!("`{path}` is not known here, and is ignored")),
            }
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_extra(extra: &Value) -> Vec<String> {
        remarks("tool `x`", Some(&extra.to_string()), TOOL)
    }

    #[test]
    fn unknown_members_and_other_types_are_named_by_their_paths() {
        assert_eq!(check_extra(&json!({ "rout": 1 })), ["tool `x`: `extra.rout` is not known here, and is ignored"]);
        let nested = json!({ "resource": { "uri": "a://b", "mimetype": "t" }, "bound-to": 3, "route": [1] });
        assert_eq!(
            check_extra(&nested),
            [
                "tool `x`: `extra.resource.mimetype` is not known here, and is ignored",
                "tool `x`: `extra.bound-to` is not of the type `string`",
            ]
        );
        assert_eq!(check_extra(&json!([])), ["tool `x`: `extra` is not of the type `object`"]);
        assert_eq!(remarks("tool `x`", Some("{"), TOOL).len(), 1);
        assert!(remarks("tool `x`", None, TOOL).is_empty() && check_extra(&json!({ "task": "optional" })).is_empty());
        let many: serde_json::Map<String, Value> = (0..50).map(|n| (n.to_string(), Value::Null)).collect();
        assert_eq!(check_extra(&many.into()).len(), MAX_REMARKS);
    }

    #[test]
    fn schemas_are_valid() {
        for schema in [TOOL, COMMAND] {
            pinion_protocol::check_schema(&serde_json::from_str(schema).unwrap()).unwrap();
        }
    }
}
