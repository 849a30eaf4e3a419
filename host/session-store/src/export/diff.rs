//! Unified diffs as HTML.

use super::escape::EscapedText;
use pinion_protocol::diff::{DiffLine, lines};
use std::fmt::Write as _;

/// Renders a diff as HTML, with a class for each line.
pub(super) fn html(text: &str) -> String {
    let mut html = String::from("<pre class=\"diff\">");
    for (kind, line) in lines(text) {
        let class = match kind {
            DiffLine::Added => "add",
            DiffLine::Removed => "del",
            DiffLine::Hunk => "hunk",
            DiffLine::File => "file",
            DiffLine::Same => "same",
        };
        // Writing to a string does not fail.
        let _ =
            writeln!(html, "<span class=\"{class}\">{}", EscapedText(line)).and_then(|()| html.write_str("</span>"));
    }
    html.push_str("</pre>");
    html
}
