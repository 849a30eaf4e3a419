//! Results of servers that are too long for the contract: their text goes into a file, which the result names.

use serde_json::{Value, json};

/// Members that hold the parts of results of tools and resources.
const PARTS: [&str; 2] = ["content", "contents"];

/// The text of a result.
#[derive(Debug, PartialEq)]
pub(super) struct LongResult {
    /// Everything that a reader may want, in lines.
    pub(super) text: String,
    member: &'static str,
    uri: Value,
    is_error: bool,
}

impl LongResult {
    /// Reads a result. `None` for a result of anything but a tool or a resource.
    pub(super) fn read(result: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(result).ok()?;
        let member = PARTS.into_iter().find(|member| value.get(member).is_some_and(Value::is_array))?;
        let parts = value.get(member).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let texts: Option<Vec<&str>> = parts.iter().map(|part| part.get("text").and_then(Value::as_str)).collect();
        let text = match texts.filter(|texts| !texts.is_empty()) {
            Some(texts) => texts.into_iter().map(in_lines).collect::<Vec<_>>().join("\n\n"),
            // Pictures, structured content and similar.
            None => pretty(&value),
        };
        Some(Self {
            text,
            member,
            uri: parts.first().and_then(|part| part.get("uri")).cloned().unwrap_or_default(),
            is_error: value.get("isError").and_then(Value::as_bool) == Some(true),
        })
    }

    /// Returns the result that stands for it, with the path of the file that has the text.
    pub(super) fn short(&self, path: &str) -> String {
        let text = format!(
            "[the result has {} bytes, which is too long to be shown. All of it is in `{path}`: read there what you need.]",
            self.text.len()
        );
        match self.member {
            "content" => json!({ "content": [{ "type": "text", "text": text }], "isError": self.is_error }),
            member => json!({ member: [{ "uri": self.uri, "mimeType": "text/plain", "text": text }] }),
        }
        .to_string()
    }
}

/// Breaks JSON into lines: one endless line could not be read piece by piece.
fn in_lines(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => pretty(&value),
        _ => text.to_owned(),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(result: Value) -> LongResult {
        LongResult::read(&result.to_string()).unwrap()
    }

    #[test]
    fn texts_are_kept_as_they_are_and_json_in_lines() {
        let result = json!({ "content": [{ "type": "text", "text": "a\nb" }, { "type": "text", "text": "[1,2]" }] });
        assert_eq!(read(result).text, "a\nb\n\n[\n  1,\n  2\n]");
        let mixed = json!({ "content": [{ "type": "text", "text": "a" }, { "type": "image", "data": "AAAA" }] });
        assert_eq!(read(mixed.clone()).text, pretty(&mixed));
        let structured = json!({ "content": [], "structuredContent": { "a": [1] } });
        assert_eq!(read(structured.clone()).text, pretty(&structured));
        assert_eq!(LongResult::read(r#"{"messages":[]}"#), None);
    }

    #[test]
    fn short_result_is_of_the_same_kind_and_names_the_file() {
        let failed = read(json!({ "content": [{ "type": "text", "text": "no" }], "isError": true })).short("/kept.txt");
        let failed: Value = serde_json::from_str(&failed).unwrap();
        let text = failed["content"][0]["text"].as_str().unwrap();
        assert!(failed["isError"] == true && text.contains("has 2 bytes") && text.contains("`/kept.txt`"), "{text}");
        let resource = read(json!({ "contents": [{ "uri": "a://b", "text": "x" }] })).short("/kept.txt");
        let resource: Value = serde_json::from_str(&resource).unwrap();
        assert_eq!(resource["contents"][0]["uri"], "a://b");
    }
}
