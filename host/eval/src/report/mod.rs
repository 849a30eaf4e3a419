//! Formats of results for other programs and for people.

pub mod atif;
mod html;
mod junit;
mod markdown;
mod plot;

pub use self::html::{comparison_page, result_page};
pub use self::junit::junit;
pub use self::markdown::{comparison_table, result_summary};

use crate::compare::{CaseComparison, PassChange};
use std::fmt::Write as _;

/// Escapes a text for XML and HTML. Characters that XML 1.0 does not allow are replaced.
fn escape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => {
                // Writing to a string does not fail.
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Returns the name of a case with its model.
fn case_label(case: &str, model: Option<&str>) -> String {
    model.map_or_else(|| case.to_owned(), |model| format!("{case} [{model}]"))
}

fn cost_label(cost: Option<f64>) -> String {
    cost.map_or_else(|| "unknown".to_owned(), |cost| format!("${cost:.4}"))
}

/// Returns the texts of a comparison: its change, pass rates, costs and tokens.
fn comparison_cells(case: &CaseComparison) -> [String; 4] {
    fn pair(values: (Option<f64>, Option<f64>), shown: impl Fn(f64) -> String) -> String {
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), &shown);
        format!("{} → {}", shown(values.0), shown(values.1))
    }
    let mut change = match case.change {
        PassChange::Better => "better",
        PassChange::Worse => "worse",
        PassChange::Same => "same",
        PassChange::Added => "added",
        PassChange::Removed => "removed",
    }
    .to_owned();
    for (is_so, word) in [(case.is_dearer, ", dearer"), (case.is_cheaper, ", cheaper"), (case.is_certain, " (certain)")]
    {
        if is_so {
            change.push_str(word);
        }
    }
    [
        change,
        pair(case.pass_rate, |rate| format!("{rate:.2}")),
        pair(case.cost, |cost| format!("${cost:.4}")),
        pair(case.tokens, |tokens| format!("{tokens:.0}")),
    ]
}
