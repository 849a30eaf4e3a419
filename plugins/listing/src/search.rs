//! A search for tools by words.

use crate::clean;
use pinion_plugin_sdk::prelude::*;
use std::cmp::Reverse;

/// A tool, as the search sees it.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// The name that its owner gave it.
    pub name: &'a str,
    /// The name for people.
    pub label: &'a str,
    /// The description for the model.
    pub description: &'a str,
    /// The schema of its arguments.
    pub schema: &'a Value,
}

/// Returns the tools that match a query, the best first.
pub fn found<T>(query: &str, tools: impl Iterator<Item = T>, described: impl Fn(&T) -> Described<'_>) -> Vec<T> {
    let words = words(query);
    let scored = tools.map(|tool| (score(&words, &described(&tool)), tool));
    let mut found: Vec<(u32, T)> = scored.filter(|(score, _)| *score > 0).collect();
    found.sort_by_key(|(score, _)| Reverse(*score));
    found.into_iter().map(|(_, tool)| tool).collect()
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in text.chars().take(1_000) {
        if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns how well a tool matches: names count more than descriptions, and these more than names of arguments.
fn score(query: &[String], tool: &Described<'_>) -> u32 {
    let properties = tool.schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flat_map(|names| names.keys().flat_map(|name| words(name)));
    let fields = [
        (8, words(tool.name)),
        (4, words(tool.label)),
        (2, words(clean::head(tool.description, 2_000))),
        (1, properties.collect()),
    ];
    let of_word = |word: &String| {
        let of_field = |(weight, words): &(u32, Vec<String>)| {
            let is_equal = words.contains(word);
            let is_part = || {
                word.len() > 2
                    && words.iter().any(|known| {
                        known.starts_with(word.as_str()) || word.starts_with(known.as_str()) && known.len() > 3
                    })
            };
            if is_equal {
                2 * weight
            } else if is_part() {
                *weight
            } else {
                0
            }
        };
        fields.iter().map(of_field).sum::<u32>()
    };
    query.iter().map(of_word).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tool = (&'static str, &'static str, Value);

    fn described((name, description, schema): &Tool) -> Described<'_> {
        Described { name, label: "", description, schema }
    }

    #[test]
    fn names_count_more_than_descriptions() {
        let tool = |name, description| -> Tool { (name, description, json!({ "properties": { "city": {} } })) };
        let names = |query: &str| -> Vec<&str> {
            let tools = [
                tool("list_all", "Shows the forecast."),
                tool("getForecast", "For tomorrow."),
                tool("other", "Nothing."),
            ];
            found(query, tools.into_iter(), described).into_iter().map(|(name, ..)| name).collect()
        };
        assert_eq!(names("weather forecast"), ["getForecast", "list_all"]);
        assert_eq!(names("cities for tomorrow")[0], "getForecast");
        assert_eq!(names("city").len(), 3);
        assert_eq!(words("getHTTPForecast_v2"), ["get", "httpforecast", "v2"]);
    }
}
