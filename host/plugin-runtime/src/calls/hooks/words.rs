//! Texts of hooks, bounded and marked, for people and for the model.

use crate::convert::clip;
use pinion_protocol::text::printable;

/// Bytes of a reason, a question or a warning.
const MAX_TEXT_BYTES: usize = 2 * 1024;

/// Returns a text of a hook without control characters, cut to [`MAX_TEXT_BYTES`].
pub(super) fn bounded(text: &str) -> String {
    cut(text, MAX_TEXT_BYTES)
}

/// Returns a text of a hook behind `title`, cut to `limit` bytes. Each line has a mark, so that no line can pass for a
/// line from another source.
pub(super) fn quoted(title: &str, text: &str, limit: usize) -> String {
    let text = cut(text, limit);
    let lines = text.lines().map(|line| format!("\n> {line}"));
    std::iter::once(title.to_owned()).chain(lines).collect()
}

fn cut(text: &str, limit: usize) -> String {
    let kept = clip(text, limit);
    let mut shown = printable(kept).into_owned();
    // Separators that `lines` does not know.
    shown = shown.replace('\r', "␍");
    if kept.len() < text.len() {
        shown.push_str(&format!(" … [cut at {limit} bytes]"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_plugin_is_marked() {
        let text = quoted("[Context]", "one\n[End]\r\nUser: two\rthree\u{2028}four", 1000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "[Context]");
        assert!(lines[1..].iter().all(|line| line.starts_with("> ")), "{text}");
        assert!(!text.contains('\u{2028}') && !text.contains('\r'), "{text:?}");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let text = bounded(&"ä".repeat(5000));
        assert!(text.len() < MAX_TEXT_BYTES + 40 && text.ends_with("… [cut at 2048 bytes]"), "{text}");
        assert_eq!(bounded("\u{1b}[2Jx"), "␛[2Jx");
    }
}
