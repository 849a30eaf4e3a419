//! The text for which a line of a session's file stands.
//!
//! A session has most of the bytes that its calls read and return, but not in the same form: texts are JSON strings,
//! and files have a number before each line. So a line stands for up to three texts, one after the other: its own bytes,
//! the same with the escapes of JSON resolved, and that text without the numbers. Writer and reader of a journal make
//! the same text from the same line, and the journal refers to positions in it. A change of this text is a new format.

/// Returns the text for which a line of a session's file stands.
pub(crate) fn text_of_line(line: &[u8]) -> Vec<u8> {
    let mut text = line.to_vec();
    if line.contains(&b'\\') {
        push_without_escapes(line, &mut text);
        let unescaped = line.len()..text.len();
        let numbered = text[unescaped].to_vec();
        push_without_numbers(&numbered, &mut text);
    }
    text
}

/// Appends a text in which escapes of JSON are the characters that they mean. Malformed escapes stay as they are.
fn push_without_escapes(mut line: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = line.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&line[..at]);
        let escape = &line[at..];
        let (meant, length) = match escape.get(1) {
            Some(b'n') => (Some('\n'), 2),
            Some(b't') => (Some('\t'), 2),
            Some(b'r') => (Some('\r'), 2),
            Some(b'b') => (Some('\u{8}'), 2),
            Some(b'f') => (Some('\u{c}'), 2),
            Some(sign @ (b'"' | b'\\' | b'/')) => (Some(char::from(*sign)), 2),
            Some(b'u') => character_of(escape),
            _ => (None, 1),
        };
        match meant {
            Some(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => out.extend_from_slice(&escape[..length]),
        }
        line = &escape[length..];
    }
    out.extend_from_slice(line);
}

/// Returns the character of an escape `\uXXXX`, which may be a pair, and the bytes of the escape.
fn character_of(escape: &[u8]) -> (Option<char>, usize) {
    let Some(first) = unit(escape) else { return (None, 1) };
    if let Some(character) = char::from_u32(first) {
        return (Some(character), 6);
    }
    let second = escape.get(6..).filter(|rest| rest.starts_with(b"\\u")).and_then(unit);
    let pair = [Some(first), second].map(|unit| unit.and_then(|unit| u16::try_from(unit).ok()));
    let pair = pair.into_iter().flatten();
    match char::decode_utf16(pair).next() {
        Some(Ok(character)) => (Some(character), 12),
        _ => (None, 6),
    }
}

fn unit(escape: &[u8]) -> Option<u32> {
    let digits = escape.get(2..6).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Appends a text without the number and the tab at the beginning of its lines; nothing if no line has a number.
fn push_without_numbers(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        out.extend_from_slice(&line[number_before(line)..]);
    }
    if out.len() - start == text.len() {
        out.truncate(start);
    }
}

/// Returns the bytes of the number before a line, with the blanks and the tab around it.
fn number_before(line: &[u8]) -> usize {
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    let digits = line[blanks..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let end = blanks + digits;
    if digits > 0 && line.get(end) == Some(&b'\t') { end + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> String {
        String::from_utf8(text_of_line(line.as_bytes())).unwrap()
    }

    #[test]
    fn line_without_escapes_stands_for_itself() {
        assert_eq!(text(r#"{"a":"b ä"}"#), r#"{"a":"b ä"}"#);
        assert_eq!(text(""), "");
    }

    #[test]
    fn escapes_are_resolved_after_the_line() {
        let line = r#""a\nb\t\"c\"\\ \/ \u00e4 \ud83d\ude00""#;
        assert_eq!(text(line), format!("{line}\"a\nb\t\"c\"\\ / ä 😀\""));
    }

    #[test]
    fn malformed_escapes_stay() {
        for line in [r"\x", r"\u12", r"\ud83d", r"\ud83d\u0041", r"\ude00", "\\"] {
            assert!(text(line).starts_with(line) && text(line).len() + 5 >= 2 * line.len(), "{line}");
        }
        assert_eq!(text(r"\x\ud83d!"), r"\x\ud83d!\x\ud83d!");
    }

    #[test]
    fn numbers_of_lines_are_left_out() {
        let line = r"f: lines 1-2\n     1\tone\n     2\t\n    10\tten 3\tx\n";
        let unescaped = "f: lines 1-2\n     1\tone\n     2\t\n    10\tten 3\tx\n";
        assert_eq!(text(line), format!("{line}{unescaped}f: lines 1-2\none\n\nten 3\tx\n"));
    }
}
