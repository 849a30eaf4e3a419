//! Text, numbers and diffs in HTML.

use pinion_protocol::diff::{DiffLine, lines};
use pinion_protocol::text::printable;
use std::fmt::{self, Write as _};

/// Text that a browser shows as it is, in content and in quoted attributes. No character of it is markup, and control
/// characters and direction marks are visible and have no effect.
pub(super) struct EscapedText<'a>(pub(super) &'a str);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = printable(self.0);
        let mut rest = &*text;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (before, special) = rest.split_at(at);
            f.write_str(before)?;
            match special.as_bytes()[0] {
                b'&' => f.write_str("&amp;")?,
                b'<' => f.write_str("&lt;")?,
                b'>' => f.write_str("&gt;")?,
                b'"' => f.write_str("&quot;")?,
                _ => f.write_str("&#39;")?,
            }
            rest = &special[1..];
        }
        f.write_str(rest)
    }
}

/// Formats a number with a comma at every thousand.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Renders a diff as HTML, with a class for each line.
pub(super) fn diff_html(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        assert_eq!(
            EscapedText("<a href=\"x\">'&amp;'\u{202e}\0").to_string(),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;&#39;\\u{202e}␀"
        );
        assert_eq!(EscapedText("plain").to_string(), "plain");
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }
}
