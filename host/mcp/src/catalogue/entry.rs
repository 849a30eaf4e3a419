//! Entries of lists in other forms than the protocol has: repaired where the meaning is clear, dropped otherwise.

use pinion_protocol::text::one_line;
use serde_json::{Map, Value, json};

use super::CatalogueKind;

/// Members that are texts.
const TEXTS: [&str; 2] = ["title", "description"];
/// Members that are objects.
const OBJECTS: [&str; 4] = ["annotations", "execution", "outputSchema", "_meta"];
/// Members of annotations that are switches.
const SWITCHES: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Returns the name and the definition of an entry, and a remark if a part that changes its meaning was replaced.
///
/// Members that only describe the entry are left out if they have the wrong type.
///
/// # Errors
/// The entry cannot be used; the text names it and the reason.
pub(crate) fn read(kind: CatalogueKind, entry: &Value) -> Result<(String, Value, Option<String>), String> {
    let label = kind.name();
    let Value::Object(members) = entry else {
        return Err(format!("dropped a {label} that is {}, not an object", type_of(entry)));
    };
    let name = match members.get("name") {
        Some(Value::String(name)) => name.clone(),
        other => {
            let about = members.get("description").or_else(|| members.get("title")).and_then(Value::as_str);
            let about = about.map(|about| format!(" (\"{}\")", one_line(about, 60))).unwrap_or_default();
            let problem = other.map_or("no name".to_owned(), |name| format!("{} as its name", type_of(name)));
            return Err(format!("dropped a {label}{about} with {problem}"));
        }
    };
    let mut members = members.clone();
    describe(&mut members);
    let remark = match kind {
        CatalogueKind::Tool => schema(&mut members).map_err(|problem| (label, problem)),
        CatalogueKind::Prompt => Ok(arguments(&mut members)),
    };
    match remark {
        Ok(remark) => {
            let remark = remark.map(|remark| format!("{label} `{}`: {remark}", one_line(&name, 64)));
            Ok((name, Value::Object(members), remark))
        }
        Err((label, problem)) => Err(format!("dropped {label} `{}`: {problem}", one_line(&name, 64))),
    }
}

/// Removes members that describe an entry and have the wrong type.
fn describe(members: &mut Map<String, Value>) {
    for name in TEXTS {
        keep(members, name, Value::is_string);
    }
    for name in OBJECTS {
        keep(members, name, Value::is_object);
    }
    if let Some(Value::Object(annotations)) = members.get_mut("annotations") {
        keep(annotations, "title", Value::is_string);
        for name in SWITCHES {
            keep(annotations, name, Value::is_boolean);
        }
    }
    if let Some(Value::Object(execution)) = members.get_mut("execution") {
        keep(execution, "taskSupport", Value::is_string);
    }
    keep(members, "icons", Value::is_array);
    if let Some(Value::Array(icons)) = members.get_mut("icons") {
        icons.retain(|icon| icon.get("src").is_some_and(Value::is_string));
    }
}

fn keep(members: &mut Map<String, Value>, name: &str, is_valid: impl Fn(&Value) -> bool) {
    if members.get(name).is_some_and(|value| !is_valid(value)) {
        members.remove(name);
    }
}

/// Repairs the schema of a tool's arguments.
fn schema(members: &mut Map<String, Value>) -> Result<Option<String>, String> {
    let any = || json!({ "type": "object" });
    let given = members.get("inputSchema").cloned().unwrap_or_default();
    let (schema, remark) = match given {
        Value::Object(_) => return Ok(None),
        // Tools without arguments often have no schema.
        Value::Null => (any(), None),
        Value::Bool(true) => (any(), Some("its `inputSchema` is `true`, so that it takes any arguments".to_owned())),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(schema @ Value::Object(_)) => (schema, Some("its `inputSchema` is the text of one".to_owned())),
            _ => return Err("its `inputSchema` is a string, not an object".to_owned()),
        },
        other => return Err(format!("its `inputSchema` is {}, not an object", type_of(&other))),
    };
    members.insert("inputSchema".to_owned(), schema);
    Ok(remark)
}

/// Removes the arguments of a prompt that cannot be used.
fn arguments(members: &mut Map<String, Value>) -> Option<String> {
    keep(members, "arguments", Value::is_array);
    let Some(Value::Array(arguments)) = members.get_mut("arguments") else { return None };
    let all = arguments.len();
    arguments.retain(|argument| argument.get("name").is_some_and(Value::is_string));
    for argument in arguments.iter_mut().filter_map(Value::as_object_mut) {
        keep(argument, "required", Value::is_boolean);
        for name in TEXTS {
            keep(argument, name, Value::is_string);
        }
    }
    let dropped = all - arguments.len();
    (dropped > 0).then(|| format!("{dropped} of its arguments have no name"))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "`true`",
        Value::Bool(false) => "`false`",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_of_another_form_is_repaired_or_costs_only_its_tool() {
        let schema = |schema: Value| read(CatalogueKind::Tool, &json!({ "name": "t", "inputSchema": schema }));
        let object = json!({ "type": "object" });
        for (given, remarks) in [(json!(null), false), (json!(true), true), (json!("{\"type\":\"object\"}"), true)] {
            let (name, definition, remark) = schema(given.clone()).unwrap();
            assert_eq!(
                (name.as_str(), &definition["inputSchema"], remark.is_some()),
                ("t", &object, remarks),
                "{given}"
            );
        }
        assert_eq!(read(CatalogueKind::Tool, &json!({ "name": "t" })).unwrap().1["inputSchema"], object);
        for given in [json!([]), json!(false), json!("x"), json!("[]"), json!(7)] {
            let problem = schema(given.clone()).unwrap_err();
            assert!(problem.starts_with("dropped tool `t`: its `inputSchema` is "), "{problem}");
        }
    }

    #[test]
    fn descriptions_of_the_wrong_type_are_left_out() {
        let odd = json!({
            "name": "t", "title": [], "description": 7, "icons": [{ "src": "x" }, 1, {}], "outputSchema": "x", "_meta": 1,
            "annotations": { "title": 1, "readOnlyHint": "yes", "destructiveHint": true }, "execution": { "taskSupport": 1 },
            "inputSchema": { "type": "object" }, "other": 1,
        });
        let plain = json!({
            "name": "t", "icons": [{ "src": "x" }], "annotations": { "destructiveHint": true }, "execution": {},
            "inputSchema": { "type": "object" }, "other": 1,
        });
        assert_eq!(read(CatalogueKind::Tool, &odd).unwrap(), ("t".to_owned(), plain, None));
        for (annotations, icons) in [(json!("x"), json!({})), (json!([]), json!(1))] {
            let odd = json!({ "name": "t", "annotations": annotations, "icons": icons, "inputSchema": {} });
            assert_eq!(read(CatalogueKind::Tool, &odd).unwrap().1, json!({ "name": "t", "inputSchema": {} }));
        }
    }

    #[test]
    fn entry_without_a_name_is_dropped_with_a_word() {
        for (entry, expected) in [
            (json!({}), "dropped a tool with no name"),
            (json!({ "name": 7, "description": "Adds." }), "dropped a tool (\"Adds.\") with a number as its name"),
            (json!({ "name": null }), "dropped a tool with null as its name"),
            (json!("t"), "dropped a tool that is a string, not an object"),
            (json!(null), "dropped a tool that is null, not an object"),
        ] {
            assert_eq!(read(CatalogueKind::Tool, &entry).unwrap_err(), expected);
        }
    }

    #[test]
    fn arguments_of_a_prompt_that_have_no_name_are_dropped_alone() {
        let prompt =
            json!({ "name": "p", "arguments": [{ "name": "a", "required": "yes", "description": 1 }, {}, "b"] });
        let (_, definition, remark) = read(CatalogueKind::Prompt, &prompt).unwrap();
        assert_eq!(definition, json!({ "name": "p", "arguments": [{ "name": "a" }] }));
        assert_eq!(remark.unwrap(), "prompt `p`: 2 of its arguments have no name");
        let (_, definition, _) = read(CatalogueKind::Prompt, &json!({ "name": "p", "arguments": { "a": 1 } })).unwrap();
        assert_eq!(definition, json!({ "name": "p" }));
    }
}
