//! Texts of servers, made safe for lists, prompts and results.
//!
//! A list with an invisible character is refused as a whole by the host, so these functions let less through than the host
//! does. They never fail: removed text leaves `U+FFFD`, so that a reader sees that something was there.

use std::borrow::Cow;

/// Combining marks in a row that are kept.
const MAX_MARKS: usize = 2;

/// Returns a text of several lines, at most `bytes` long, without anything that is invisible or moves the cursor.
pub fn text(text: &str, bytes: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(bytes));
    let (mut marks, mut was_replaced) = (0, false);
    let text = text.replace("\r\n", "\n");
    for c in text.chars() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        let shown = if is_plain(c) && marks <= MAX_MARKS { c } else { char::REPLACEMENT_CHARACTER };
        let is_replaced = shown == char::REPLACEMENT_CHARACTER;
        // One for a whole sequence.
        if is_replaced && was_replaced {
            continue;
        }
        was_replaced = is_replaced;
        if clean.len() + shown.len_utf8() > bytes.saturating_sub('…'.len_utf8()) {
            clean.push('…');
            break;
        }
        clean.push(shown);
    }
    clean
}

/// Returns one line, at most `bytes` long, like [`text`].
pub fn line(text: &str, bytes: usize) -> String {
    let begin: String = text.chars().take(bytes).collect();
    let words: Vec<&str> = begin.split_whitespace().collect();
    self::text(&words.join(" "), bytes)
}

/// Returns whether a text would pass as one line unchanged.
pub fn is_clean_line(text: &str) -> bool {
    !text.contains(['\n', '\t']) && self::text(text, usize::MAX) == text
}

/// Returns a text of several lines as a quotation: no line of it can pass for one of the text around it.
pub fn quoted(text: &str, bytes: usize) -> String {
    self::text(text.trim(), bytes).lines().map(|line| format!("> {line}\n")).collect()
}

/// Returns a result for the model: only what draws on terminals, or turns text around, is replaced.
pub fn result(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| match c {
        '\n' | '\t' | '\r' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    };
    // Texts of ASCII need no look at each character.
    if is_plain_ascii(text) || !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns whether a text is nothing but printable ASCII, blanks and line breaks. Looks at eight bytes at once: most results
/// are such texts, and their length decides the cost of a call.
fn is_plain_ascii(text: &str) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let is_plain = |byte: &u8| matches!(byte, b'\n' | b'\t' | b'\r' | b' '..=b'~');
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let is_plain_chunk = |chunk: &[u8; 8]| {
        let bytes = u64::from_le_bytes(*chunk);
        // The high bit of a byte is set if it is no ASCII, below the space, or 0x7f; and of some others after such a one.
        let odd = bytes | bytes.wrapping_sub(ONES * 0x20) | (bytes ^ (ONES * 0x7f)).wrapping_sub(ONES);
        odd & (ONES * 0x80) == 0 || chunk.iter().all(is_plain)
    };
    chunks.iter().all(is_plain_chunk) && rest.iter().all(is_plain)
}

/// Returns the first `bytes` of a text, cut at the end of a character.
pub fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn is_plain(c: char) -> bool {
    match c {
        '\n' | '\t' | ' '..='~' => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{70f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => false,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => false,
        '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => false,
        '\u{fdd0}'..='\u{fdef}' | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' => false,
        '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => false,
        c => !c.is_control() && u32::from(c) & 0xfffe != 0xfffe,
    }
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{302a}'..='\u{302f}' | '\u{3099}' | '\u{309a}'
        | '\u{fe20}'..='\u{fe2f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hidden_characters_leave_a_sign() {
        assert_eq!(text("a\u{1b}[31mb\u{202e}c\u{200b}\u{200b}d\r\n\te", 100), "a�[31mb�c�d\n\te");
        assert_eq!(line("  a\n b\t\u{7}c ", 100), "a b �c");
        assert_eq!(text(&format!("a{}", "\u{301}".repeat(9)), 100), "a\u{301}\u{301}�");
        assert_eq!(result("a\u{1b}[2Jé👨\u{200d}👩\u{2066}"), "a�[2Jé👨\u{200d}👩�");
    }

    #[test]
    fn plain_ascii_is_recognized_in_every_place() {
        for (byte, place) in (0..0x80_u8).flat_map(|byte| (0..19).map(move |place| (byte, place))) {
            let mut text = [b'a'; 19];
            text[place] = byte;
            let is_plain = matches!(byte, b'\n' | b'\t' | b'\r' | b' '..=b'~');
            assert_eq!(is_plain_ascii(std::str::from_utf8(&text).unwrap()), is_plain, "{byte:#x} at {place}");
        }
        assert!(is_plain_ascii("") && !is_plain_ascii("abcdefgé") && !is_plain_ascii("abcdefghé"));
    }

    #[test]
    fn quotation_marks_every_line() {
        assert_eq!(quoted("a\n# System\n\nb\r\nc\u{2028}d", 100), "> a\n> # System\n> \n> b\n> c�d\n");
    }

    proptest! {
        #[test]
        fn texts_are_bounded_and_stay_clean(any in "\\PC*|[\\s\\S]{0,300}", bytes in 3_usize..200) {
            let (text, line) = (text(&any, bytes), line(&any, bytes));
            prop_assert!(text.len() <= bytes && line.len() <= bytes, "{} {}", text.len(), line.len());
            prop_assert!(is_clean_line(&line) && text.chars().all(is_plain));
            prop_assert!(head(&any, bytes).len() <= bytes);
            prop_assert!(quoted(&any, 500).lines().all(|line| line.starts_with("> ")));
        }
    }
}
