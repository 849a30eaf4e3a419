//! Results in other forms than the protocol has, whose meaning is clear. A part that cannot be used does not affect the
//! others.

use serde_json::{Map, Value, json};

use crate::request::Request;

/// Returns the result of a request, with the parts that can be repaired in the form of the protocol.
pub(super) fn repaired(request: &Request, result: Value) -> Value {
    let list = match request {
        Request::CallTool { .. } => return tool_result(result),
        Request::GetPrompt { .. } => return prompt(result),
        Request::ReadResource { uri } => return resource(result, uri),
        Request::ListResources { .. } => "resources",
        Request::ListResourceTemplates { .. } => "resourceTemplates",
        _ => return result,
    };
    let mut result = result;
    if let Some(Value::Array(entries)) = result.get_mut(list) {
        entries.retain(Value::is_object);
    }
    result
}

/// Returns a prompt whose messages each have one content.
fn prompt(mut result: Value) -> Value {
    let Some(messages) = result.get_mut("messages") else { return result };
    let given = match messages.take() {
        Value::Array(messages) => messages,
        other => vec![other],
    };
    *messages = given.into_iter().flat_map(of_message).collect();
    result
}

fn of_message(message: Value) -> Vec<Value> {
    let mut message = match message {
        Value::Object(message) => message,
        other => Map::from_iter([("content".to_owned(), other)]),
    };
    let role = message.get("role").and_then(Value::as_str).unwrap_or("user").to_owned();
    let contents = parts(message.remove("content").unwrap_or_default());
    contents.into_iter().map(|content| json!({ "role": role, "content": content })).collect()
}

/// Returns the contents of a resource as a list of objects.
fn resource(mut result: Value, uri: &str) -> Value {
    let Some(contents) = result.get_mut("contents") else { return result };
    let given = match contents.take() {
        Value::Array(contents) => contents,
        other => vec![other],
    };
    let content = |content: Value| match content {
        Value::Object(_) => Some(content),
        Value::String(text) => Some(json!({ "uri": uri, "text": text })),
        _ => None,
    };
    *contents = given.into_iter().filter_map(content).collect();
    result
}

/// Returns the result of a call in the form of the protocol: `content` is a list of objects.
///
/// A text, or an object, counts as a list of it. `toolResult` is how protocol 2024-10-07 named the result.
pub(super) fn tool_result(result: Value) -> Value {
    let mut members = match result {
        Value::Object(members) => members,
        other => return json!({ "content": parts(other) }),
    };
    if let Some(old) = members.remove("toolResult")
        && !members.contains_key("content")
    {
        members.extend(of_old(old));
    }
    if let Some(content) = members.remove("content") {
        members.insert("content".to_owned(), Value::Array(parts(content)));
    }
    if let Some(Value::String(text)) = members.get("isError") {
        let is_error = text == "true";
        members.insert("isError".to_owned(), Value::Bool(is_error));
    }
    Value::Object(members)
}

fn of_old(old: Value) -> Map<String, Value> {
    match old {
        Value::Object(members) if members.contains_key("content") => members,
        Value::String(_) => Map::from_iter([("content".to_owned(), old)]),
        other => Map::from_iter([("structuredContent".to_owned(), other)]),
    }
}

fn parts(content: Value) -> Vec<Value> {
    let text = |text: String| json!({ "type": "text", "text": text });
    let part = |part: Value| match part {
        Value::Null => None,
        // Without a type, a text is meant.
        Value::Object(mut members)
            if !members.contains_key("type") && members.get("text").is_some_and(Value::is_string) =>
        {
            members.insert("type".to_owned(), Value::String("text".to_owned()));
            Some(Value::Object(members))
        }
        Value::Object(members) => Some(Value::Object(members)),
        Value::String(string) => Some(text(string)),
        other => Some(text(other.to_string())),
    };
    match content {
        Value::Array(content) => content.into_iter().filter_map(part).collect(),
        other => part(other).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_results_are_repaired_part_by_part() {
        let prompt = Request::GetPrompt { name: "p".to_owned(), arguments: String::new() };
        let text = json!({ "type": "text", "text": "x" });
        let messages = json!({ "messages": [
            { "role": "assistant", "content": "x" }, "x", null, { "content": [text, { "type": "image" }] },
        ] });
        let expected = json!({ "messages": [
            { "role": "assistant", "content": text }, { "role": "user", "content": text },
            { "role": "user", "content": text }, { "role": "user", "content": { "type": "image" } },
        ] });
        assert_eq!(repaired(&prompt, messages), expected);
        let read = Request::ReadResource { uri: "a://b".to_owned() };
        for contents in [json!("x"), json!(["x", null]), json!({ "uri": "a://b", "text": "x" })] {
            let result = repaired(&read, json!({ "contents": contents }));
            assert_eq!(result, json!({ "contents": [{ "uri": "a://b", "text": "x" }] }));
        }
        let list = Request::ListResources { cursor: None };
        let page = repaired(&list, json!({ "resources": [1, { "uri": 7 }, null], "nextCursor": "n" }));
        assert_eq!(page, json!({ "resources": [{ "uri": 7 }], "nextCursor": "n" }));
    }

    #[test]
    fn content_of_another_form_becomes_a_list_of_parts() {
        let text = json!({ "type": "text", "text": "x" });
        for (result, content) in [
            (json!({ "content": "x" }), json!([text])),
            (json!({ "content": text }), json!([text])),
            (json!({ "content": { "text": "x" } }), json!([text])),
            (json!({ "content": ["x", null, 7, text] }), json!([text, { "type": "text", "text": "7" }, text])),
            (json!({ "content": null }), json!([])),
            (json!({ "toolResult": "x" }), json!([text])),
            (json!({ "toolResult": { "content": "x" } }), json!([text])),
            (json!("x"), json!([text])),
            (json!(["x"]), json!([text])),
            (json!(null), json!([])),
        ] {
            assert_eq!(tool_result(result.clone())["content"], content, "{result}");
        }
        let old = tool_result(json!({ "toolResult": { "rows": 1 } }));
        assert_eq!(old, json!({ "structuredContent": { "rows": 1 } }));
        let error = tool_result(json!({ "content": [], "isError": "true" }));
        assert_eq!(error, json!({ "content": [], "isError": true }));
    }
}
