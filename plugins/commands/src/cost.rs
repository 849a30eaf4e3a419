//! `/cost`: shows tokens and money spent.

use crate::arguments::plain;
use crate::table::table;
use pinion_plugin_sdk::catalog::{self, UsageInfo};
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    plain("cost", "Show tokens and money spent", || Action::Print(usage(&catalog::usage())))
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
