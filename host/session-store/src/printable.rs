//! Text from a model, a tool or a file, made fit for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text without anything that a terminal would act on: control characters (and with them every escape sequence)
/// and the marks that reorder text are shown instead. Newlines and tabs stay; a carriage return before a newline goes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\0'..='\x1f' | '\x7f' if is_unsafe(c) => shown.push(picture(c)),
            c if is_unsafe(c) => {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Line and paragraph separators; marks, embeddings, overrides and isolates of direction.
        '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// Unicode's picture of a control character, such as `␛`.
fn picture(c: char) -> char {
    let code = if c == '\x7f' { 0x2421 } else { 0x2400 + u32::from(c) };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_text_is_left_alone() {
        let text = "Grüße, 世界 👋\n\tok";
        assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn what_a_terminal_would_act_on_is_shown() {
        assert_eq!(printable("\x1b[2J\x07"), "␛[2J␇");
        assert_eq!(printable("a\r\nb\rc"), "a\nb␍c");
        assert_eq!(printable("\x7f\u{9b}31m\u{202e}txt"), "␡\\u{9b}31m\\u{202e}txt");
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_left_of_any_text(text: String) {
            prop_assert!(!printable(&text).contains(is_unsafe));
        }
    }
}
