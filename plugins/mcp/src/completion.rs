//! Completion of the arguments of prompts, by the servers that have the prompts.
//!
//! A server learns the value that is typed last and those before it. Its answer is offered only if it can be entered
//! unchanged: a value that was cleaned would be another one.

use crate::catalog::Argument;
use crate::failed;
use crate::prompts::{assigned, read, takes_all, words};
use listing::clean;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::Map;
use pinion_plugin_sdk::{log, mcp};
use std::collections::HashSet;

/// Values that are offered; the protocol allows no more in an answer.
const MAX_VALUES: usize = 100;
/// Bytes of a value.
const MAX_VALUE: usize = 500;
/// Bytes of a text that is completed.
const MAX_TYPED: usize = 4 * 1024;

/// Completes the arguments of one prompt.
pub(crate) struct Completer {
    server: String,
    prompt: String,
    arguments: Vec<Argument>,
}

impl Completer {
    pub(crate) fn new(server: &str, prompt: &str, arguments: &[Argument]) -> Self {
        Self { server: server.to_owned(), prompt: prompt.to_owned(), arguments: arguments.to_vec() }
    }

    /// Asks the server for values of the argument that is typed last. Offers nothing if it fails, which only the log says.
    pub(crate) fn complete(&self, typed: &str) -> Vec<Completion> {
        let Some(last) = Last::of(&self.arguments, typed) else { return Vec::new() };
        let reference = json!({ "type": "ref/prompt", "name": self.prompt });
        match mcp::complete(&self.server, &reference, &last.request()) {
            Ok(result) => last.completions(&self.server, &result),
            Err(error) => {
                let problem = clean::line(&format!("{:?}", failed(&self.server, error)), 400);
                log::log(log::Level::Debug, &format!("no completion: {problem}"));
                Vec::new()
            }
        }
    }
}

/// The argument that is typed last.
#[derive(Debug)]
struct Last<'a> {
    arguments: &'a [Argument],
    /// The text before its word.
    before: &'a str,
    /// The values of the other arguments.
    others: Map<String, Value>,
    name: String,
    value: String,
    /// True if its word has its name.
    is_named: bool,
}

impl<'a> Last<'a> {
    /// Returns none if no argument can follow, or the text cannot be read.
    fn of(arguments: &'a [Argument], typed: &'a str) -> Option<Self> {
        if typed.len() > MAX_TYPED {
            return None;
        }
        let text = typed.trim_start();
        if let [only] = arguments
            && (text.is_empty() || takes_all(arguments, text.trim_end()))
        {
            let before = &typed[..typed.len() - text.len()];
            let (others, name, value) = (Map::new(), only.name.clone(), text.to_owned());
            return Some(Self { arguments, before, others, name, value, is_named: false });
        }
        let (start, quote) = last_word(typed);
        let (before, word) = typed.split_at(start);
        let mut others = read(arguments, before).ok()?;
        let closed = word.chars().chain(quote).collect::<String>();
        let word = words(&closed).ok()?.pop().unwrap_or_default();
        let (name, value) = assigned(arguments, &others, &word).ok()?;
        let (name, value, is_named) = (name.to_owned(), value.to_owned(), value.len() < word.len());
        others.remove(&name);
        Some(Self { arguments, before, others, name, value, is_named })
    }

    /// Returns the argument as the protocol has it, with the values of the others.
    fn request(&self) -> Value {
        let mut request = json!({ "name": self.name, "value": self.value });
        if !self.others.is_empty() {
            request["context"] = json!({ "arguments": self.others });
        }
        request
    }

    /// Converts the answer of a server.
    fn completions(&self, server: &str, result: &Value) -> Vec<Completion> {
        let values = result.pointer("/completion/values").and_then(Value::as_array);
        let values = values.into_iter().flatten().filter_map(Value::as_str);
        let mut seen = HashSet::new();
        let values = values.filter(|value| {
            !value.is_empty() && value.len() <= MAX_VALUE && clean::is_clean_line(value) && seen.insert(*value)
        });
        let about = clean::line(&format!("[MCP server {server}] {}", self.name), 100);
        let completion = |value| Some(Completion { value: self.entered(value)?, description: Some(about.clone()) });
        values.filter_map(completion).take(MAX_VALUES).collect()
    }

    /// Returns the text to enter for a value, after the text typed before it: in quotation marks or with the name of the
    /// argument where it needs them. None if no text is read as this value.
    fn entered(&self, value: &str) -> Option<String> {
        let mut wanted = self.others.clone();
        wanted.insert(self.name.clone(), json!(value));
        let quoted = ["", "\"", "'"].map(|mark| format!("{mark}{value}{mark}"));
        let named = quoted.each_ref().map(|text| format!("{}={text}", self.name));
        let forms = if self.is_named { [named, quoted] } else { [quoted, named] };
        let mut texts = forms.into_iter().flatten().map(|form| format!("{}{form}", self.before));
        texts.find(|text| read(self.arguments, text).is_ok_and(|values| values == wanted))
    }
}

/// Returns where the last word of a line begins, and the quotation mark that is open.
fn last_word(line: &str) -> (usize, Option<char>) {
    let (mut start, mut quote) = (None, None);
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c.is_whitespace() => start = None,
            _ => {
                start.get_or_insert(at);
                quote = quote.or(Some(c).filter(|c| matches!(c, '"' | '\'')));
            }
        }
    }
    (start.unwrap_or(line.len()), quote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arguments(names: &[&str]) -> Vec<Argument> {
        names.iter().map(|name| Argument { name: (*name).to_owned(), required: true }).collect()
    }

    #[test]
    fn last_argument_is_asked_for_with_those_before_it() {
        let two = arguments(&["city", "unit"]);
        let asked = |typed: &str| Last::of(&two, typed).map(|last| last.request());
        let alone = |name: &str, value: &str| Some(json!({ "name": name, "value": value }));
        let after = |name: &str, value: &str, others: Value| {
            Some(json!({ "name": name, "value": value, "context": { "arguments": others } }))
        };
        assert_eq!(asked(""), alone("city", ""));
        assert_eq!(asked(" Os"), alone("city", "Os"));
        assert_eq!(asked("unit=C"), alone("unit", "C"));
        assert_eq!(asked("'New Yo"), alone("city", "New Yo"));
        assert_eq!(asked("Oslo "), after("unit", "", json!({ "city": "Oslo" })));
        assert_eq!(asked("\"New York\" \"C"), after("unit", "C", json!({ "city": "New York" })));
        assert_eq!(asked("unit=C it"), after("city", "it", json!({ "unit": "C" })));
        assert_eq!(asked("Oslo C more"), None);
        assert_eq!(asked(&"x".repeat(MAX_TYPED + 1)), None);
        let one = arguments(&["text"]);
        let asked = |typed: &str| Last::of(&one, typed).map(|last| last.request());
        assert_eq!(asked(" it's all "), alone("text", "it's all "));
        assert_eq!(asked("text='a b"), alone("text", "a b"));
    }

    fn offered(names: &[&str], typed: &str, values: &[&str]) -> Vec<String> {
        let arguments = arguments(names);
        let last = Last::of(&arguments, typed).unwrap();
        let found = last.completions("docs", &json!({ "completion": { "values": values } }));
        found.into_iter().map(|completion| completion.value).collect()
    }

    #[test]
    fn values_are_entered_so_that_they_are_read_as_they_are() {
        let values = ["Oslo", "New York", "it's", "say \"a\"", "unit=x", "\" '"];
        assert_eq!(
            offered(&["city", "unit"], "", &values),
            ["Oslo", "\"New York\"", "\"it's\"", "'say \"a\"'", "city=unit=x"]
        );
        assert_eq!(offered(&["city", "unit"], "Oslo  C", &["Celsius", "a b"]), ["Oslo  Celsius", "Oslo  \"a b\""]);
        assert_eq!(offered(&["city", "unit"], "unit=", &["C", "a b"]), ["unit=C", "unit=\"a b\""]);
        assert_eq!(offered(&["text"], "a", &["a b 'c'", "text=x"]), ["a b 'c'", "text=text=x"]);
    }

    #[test]
    fn hostile_values_are_left_out() {
        let long = "x".repeat(MAX_VALUE + 1);
        let values = ["a\u{1b}[2Jb", "a\nb", "a\u{202e}b", "a\u{200b}b", "", &long, "fine", "fine"];
        assert_eq!(offered(&["a"], "", &values), ["fine"]);
        let many: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        assert_eq!(offered(&["a"], "", &many.iter().map(String::as_str).collect::<Vec<_>>()).len(), MAX_VALUES);
        let one = arguments(&["a\u{1b}[2J"]);
        let last = Last::of(&one, "").unwrap();
        for odd in [json!(null), json!({ "completion": [] }), json!({ "completion": { "values": [1, {}] } })] {
            assert_eq!(last.completions("s", &odd).len(), 0);
        }
        let found = last.completions("s\u{7}", &json!({ "completion": { "values": ["v"] } }));
        assert_eq!(found[0].description.as_deref(), Some("[MCP server s�] a�[2J"));
    }

    proptest! {
        #[test]
        fn any_text_and_value_is_read_back(typed in "[ab='\" ]{0,12}", value in "[ab='\" \\PC]{0,6}") {
            for names in [&["a"][..], &["a", "b"]] {
                let arguments = arguments(names);
                let Some(last) = Last::of(&arguments, &typed) else { continue };
                let Some(text) = last.entered(&value) else { continue };
                prop_assert!(text.starts_with(last.before));
                let values = read(&arguments, &text).unwrap();
                prop_assert_eq!(&values[&last.name], &json!(value));
            }
        }
    }
}
