//! `/cost`: shows tokens and money spent.

use crate::complete::matching;
use crate::table::table;
use pinion_plugin_sdk::bindings::commands::exports::pinion::plugin::commands::OtherAction;
use pinion_plugin_sdk::catalog::{self, UsageInfo};
use pinion_plugin_sdk::prelude::*;

/// The arguments, which the application's action of the same name interprets.
const PARTS: [(&str, &str); 5] = [
    ("turn", "the cost of each of your turns"),
    ("why", "lost caches, the next request, and the largest parts"),
    ("tool", "the cost of the results of each tool"),
    ("server", "the cost of the results of each MCP server"),
    ("file", "the cost of each file that was read"),
];

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::new("cost", "Show tokens and money spent, by turn, tool, server or file, and why", |typed, _call| {
        let typed = typed.trim();
        let total = typed.is_empty().then(|| Action::Print(usage(&catalog::usage())));
        Ok(total.into_iter().chain([by_part(typed)]).collect())
    })
    .argument("[turn|why|tool|server|file]")
    .complete(|typed| matching(PARTS.iter().map(|(name, description)| (*name, Some(*description))), typed))
}

/// Returns the action that shows the cost of a part of the conversation.
fn by_part(typed: &str) -> Action {
    Action::Other(OtherAction { name: "cost".to_owned(), argument: Some(typed.to_owned()) })
}

/// Summarizes the spending of the session.
fn usage(usage: &UsageInfo) -> String {
    if usage.requests == 0 {
        return "Nothing spent in this session yet.".to_owned();
    }
    let cost = usage.cost.map_or_else(|| "unknown: no prices for this model".to_owned(), dollars);
    let rows = [
        ("requests", grouped(usage.requests)),
        ("input tokens", grouped(usage.input_tokens)),
        ("output tokens", grouped(usage.output_tokens)),
        ("tokens read from cache", grouped(usage.cache_read_tokens)),
        ("tokens written to cache", grouped(usage.cache_write_tokens)),
        ("cost", cost),
    ];
    table(["this session", "spent"], &rows.map(|(name, value)| [name.to_owned(), value]))
}

/// Formats US dollars, with more digits below one dollar because most sessions cost less.
fn dollars(amount: f64) -> String {
    if amount < 1.0 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// Formats a number with thousands separators.
fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_formatted_for_people() {
        let spent = UsageInfo {
            requests: 3,
            input_tokens: 1_234_567,
            output_tokens: 89,
            cache_read_tokens: 1_000,
            cache_write_tokens: 0,
            cost: Some(0.01234),
        };
        let text = usage(&spent);
        assert!(text.contains("| input tokens | 1,234,567 |"), "{text}");
        assert!(text.contains("| $0.0123 |"), "{text}");
        assert!(usage(&UsageInfo { cost: None, ..spent }).contains("unknown"));
        assert!(usage(&UsageInfo { requests: 0, ..spent }).starts_with("Nothing"));
    }
}
