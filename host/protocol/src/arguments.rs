//! The arguments of a call in one line, for people.

use serde_json::Value;

/// Arguments that identify the purpose of a call, the most telling first. They are visible however narrow the row is.
const TELLING: [&str; 8] = ["command", "path", "file", "query", "pattern", "url", "name", "task"];

/// Depth of a beginning of arguments that is read, and bytes of an escape such as `\u00e9`.
const MAX_DEPTH: usize = 32;
const UNICODE_ESCAPE: usize = 6;

/// Returns the arguments of a call in one line: first those that identify its purpose, then the others in the model's
/// order. These have names if they are not text or if there are many, so that a number behind a command is not read as
/// a part of it. Edits are counted, because the result shows them. The text is the model's own.
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
    let mut line = String::new();
    let mut was_named = false;
    for (name, value) in telling.chain(others) {
        let (is_text, value) = match value {
            Value::String(text) => (true, text.clone()),
            Value::Array(edits) if name == "edits" => match edits.len() {
                1 => (true, "1 edit".to_owned()),
                n => (true, format!("{n} edits")),
            },
            other => (false, other.to_string()),
        };
        let is_named = !is_telling(name) && (has_names || !is_text);
        if !line.is_empty() {
            line.push_str(if is_named || was_named { " · " } else { "  " });
        }
        line.push_str(&if is_named { format!("{name}: {value}") } else { value });
        was_named = is_named;
    }
    line
}

/// Returns the value of the argument that says most about a call, in one line.
pub fn telling(arguments: &Value) -> Option<&str> {
    TELLING.iter().find_map(|name| arguments.get(name)?.as_str())
}

/// Returns the arguments that the beginning of a JSON object contains. A text that is cut off is kept up to the cut.
/// `None` if the text is not such a beginning.
pub fn of_beginning(text: &str) -> Option<Value> {
    let mut open = Vec::new();
    let (mut is_text, mut is_escaped, mut last_escape) = (false, false, 0);
    // The last offset where the text can end, and the brackets open there.
    let mut end: Option<(usize, Vec<char>)> = None;
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => (is_escaped, last_escape) = (true, at),
            '"' => is_text = !is_text,
            _ if is_text => {}
            '{' | '[' if open.len() == MAX_DEPTH => return None,
            '{' | '[' => {
                open.push(if character == '{' { '}' } else { ']' });
                end = Some((at + 1, open.clone()));
            }
            '}' | ']' => {
                open.pop().filter(|expected| *expected == character)?;
                end = Some((at + 1, open.clone()));
            }
            ',' => end = Some((at, open.clone())),
            _ => {}
        }
    }
    let closed = |text: &str, quote: &str, open: &[char]| {
        let complete = format!("{text}{quote}{}", open.iter().rev().collect::<String>());
        serde_json::from_str(&complete).ok().filter(Value::is_object)
    };
    // An escape with a missing part is removed together with its backslash.
    let escape = &text[last_escape..];
    let is_cut = is_escaped || escape.starts_with("\\u") && escape.len() < UNICODE_ESCAPE;
    let whole = if is_text && is_cut { &text[..last_escape] } else { text };
    closed(whole, if is_text { "\"" } else { "" }, &open).or_else(|| {
        let (at, open) = end?;
        closed(&text[..at], "", &open)
    })
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
            (json!({ "command": "rm -rf x", "timeout": 5 }), "rm -rf x · timeout: 5"),
            (json!({ "b": 1, "a": "x" }), "b: 1 · x"),
            (json!({ "limit": 3, "regex": true, "path": "src", "pattern": "fn" }), "src  fn · limit: 3 · regex: true"),
            (json!("text"), "text"),
            (json!([1]), "[1]"),
            (json!({}), ""),
        ] {
            assert_eq!(summary(&arguments), shown);
        }
    }
    #[test]
    fn beginnings_have_the_arguments_so_far() {
        for (beginning, expected) in [
            (r#"{"path":"src/ma"#, Some(json!({ "path": "src/ma" }))),
            (r#"{"path":"a.rs","conte"#, Some(json!({ "path": "a.rs" }))),
            (r#"{"path":"a.rs","content":"#, Some(json!({ "path": "a.rs" }))),
            (r#"{"path":"a.rs","content":"x\"#, Some(json!({ "path": "a.rs", "content": "x" }))),
            (r#"{"path":"a.rs","content":"\u00"#, Some(json!({ "path": "a.rs", "content": "" }))),
            (
                r#"{"edits":[{"old":"a","new":"b"},{"old":"c\""#,
                Some(json!({ "edits": [{ "old": "a", "new": "b" }, { "old": "c\"" }] })),
            ),
            (r#"{"path":"a","limit":1"#, Some(json!({ "path": "a", "limit": 1 }))),
            (r#"{"path":"a","deep":tr"#, Some(json!({ "path": "a" }))),
            ("{", Some(json!({}))),
            ("", None),
            ("[1", None),
            ("{path: 1}", None),
            (r#"{"a":[1}"#, None),
        ] {
            assert_eq!(of_beginning(beginning), expected, "{beginning}");
        }
        assert_eq!(of_beginning(&"[".repeat(100_000)), None);
    }

    proptest::proptest! {
        #[test]
        fn any_beginning_of_arguments_is_read(text in "\\PC{0,20}", at in 0_usize..200) {
            let arguments = json!({ "path": text, "edits": [{ "old": text, "n": 1 }, null], "deep": true }).to_string();
            let at = arguments.floor_char_boundary(at.min(arguments.len()));
            let read = of_beginning(&arguments[..at]);
            proptest::prop_assert_eq!(read.is_some(), at > 0);
            if at == arguments.len() {
                proptest::prop_assert_eq!(read.unwrap().to_string(), arguments);
            }
        }
    }
}
