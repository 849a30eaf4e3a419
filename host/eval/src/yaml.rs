//! YAML as JSON, within bounds: aliases copy their targets, and a few lines of them could become gigabytes.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;

/// Nested collections.
const MAX_DEPTH: usize = 64;
/// Values of a document, with those that aliases copy.
const MAX_VALUES: usize = 1_000_000;

/// An open collection, and its anchor.
enum OpenCollection {
    List(Vec<Value>, usize),
    /// The entries, and the key whose value comes next.
    Map(Map<String, Value>, Option<String>, usize),
}

/// Reads a document.
///
/// # Errors
/// The text is not YAML, or exceeds a bound.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = YamlReader { open: Vec::new(), anchors: HashMap::new(), left: MAX_VALUES, root: None };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        let at = |problem: String| format!("{problem}, at line {}", span.start.line());
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                let value = if is_text { Value::String(text.into_owned()) } else { scalar(&text) };
                reader.add(value, anchor).map_err(at)?;
            }
            Event::SequenceStart(anchor, _) => reader.begin(OpenCollection::List(Vec::new(), anchor))?,
            Event::MappingStart(anchor, _) => reader.begin(OpenCollection::Map(Map::new(), None, anchor))?,
            Event::SequenceEnd | Event::MappingEnd => reader.end().map_err(at)?,
            Event::Alias(anchor) => {
                let value = reader.anchors.get(&anchor).cloned().ok_or("an alias stands for what contains it")?;
                reader.spend(count(&value))?;
                reader.add(value, 0)?;
            }
            Event::DocumentEnd if reader.root.is_some() => break,
            _ => {}
        }
    }
    reader.root.ok_or_else(|| "it is empty".to_owned())
}

struct YamlReader {
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Value>,
    left: usize,
    root: Option<Value>,
}

impl YamlReader {
    fn begin(&mut self, open: OpenCollection) -> Result<(), String> {
        if self.open.len() >= MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH}"));
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        match self.open.pop() {
            Some(OpenCollection::List(items, anchor)) => self.add(Value::Array(items), anchor),
            Some(OpenCollection::Map(fields, _, anchor)) => self.add(Value::Object(fields), anchor),
            None => Ok(()),
        }
    }

    fn add(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        self.spend(1)?;
        if anchor > 0 {
            // Copies count like aliases do.
            self.spend(count(&value))?;
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(OpenCollection::List(items, _)) => items.push(value),
            Some(OpenCollection::Map(fields, key, _)) => match key.take() {
                Some(key) if fields.contains_key(&key) => return Err(format!("the key `{key}` occurs twice")),
                Some(key) => drop(fields.insert(key, value)),
                None => *key = Some(name(value)?),
            },
        }
        Ok(())
    }

    fn spend(&mut self, values: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(values).ok_or(format!("it has more than {MAX_VALUES} values"))?;
        Ok(())
    }
}

/// Returns a key; keys of statuses, such as `200`, are written as numbers.
fn name(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Array(_) | Value::Object(_) => Err("a key is a collection".to_owned()),
        plain => Ok(plain.to_string()),
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Returns a plain scalar, by the core schema of YAML 1.2.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole && let Ok(number) = text.trim_start_matches('+').parse::<i64>() {
        return Some(number.into());
    }
    text.parse().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn scalars_and_collections_become_json() {
        let text =
            "# c\na: 1\nb: [x, \"2\", ~, true, 1.5, -3]\nc:\n  200: |\n    one\n    two\n  x: &n {y: z}\nd: *n\n";
        let expected = json!({ "a": 1, "b": ["x", "2", null, true, 1.5, -3], "c": { "200": "one\ntwo\n", "x": { "y": "z" } },
            "d": { "y": "z" } });
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn bombs_and_nests_are_refused() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..12 {
            let alias = vec![format!("*a{}", level - 1); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
        }
        assert!(parse(&bomb).unwrap_err().contains("values"));
        assert!(parse(&"[".repeat(10_000)).is_err());
        assert!(parse("a: &a [*a]").is_err());
        assert!(parse("").is_err());
        assert_eq!(parse("a: 1\nb: 2\na: 3\n").unwrap_err(), "the key `a` occurs twice, at line 3");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-c:\\-\\[\\]{}&*#\"'|> \n]{0,60}|\\PC{0,60}") {
            let _ = parse(&text);
        }
    }
}
