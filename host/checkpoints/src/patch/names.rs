//! Names of files in a patch, quoted as git quotes them.

use std::fmt::Write as _;

/// Returns a name after a prefix such as `a/`: as it is, or in quotes if it has bytes that are not printable ASCII.
pub(super) fn quoted(prefix: &str, name: &[u8]) -> String {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let mut text = String::from(prefix);
    if name.iter().all(is_plain) {
        text.push_str(&String::from_utf8_lossy(name));
        return text;
    }
    text.insert(0, '"');
    for byte in name {
        match byte {
            b'\x07' => text.push_str("\\a"),
            b'\x08' => text.push_str("\\b"),
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            b'\x0b' => text.push_str("\\v"),
            b'\x0c' => text.push_str("\\f"),
            b'\r' => text.push_str("\\r"),
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => drop(write!(text, "\\{byte:03o}")),
        }
    }
    text.push('"');
    text
}

/// Returns a name as it stands after `---` or `+++`. A tab ends a name with spaces, because a time could follow it.
pub(super) fn quoted_in_header(prefix: &str, name: &[u8]) -> String {
    let mut text = quoted(prefix, name);
    if !text.starts_with('"') && text.contains(' ') {
        text.push('\t');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_quoted_as_in_c() {
        assert_eq!(quoted("a/", b"src/main.rs"), "a/src/main.rs");
        assert_eq!(quoted("a/", b"two words"), "a/two words");
        assert_eq!(quoted_in_header("b/", b"two words"), "b/two words\t");
        assert_eq!(quoted("b/", "caf\u{e9}".as_bytes()), r#""b/caf\303\251""#);
        assert_eq!(quoted("", b"a\"b\\c\td\ne\x01\x7f\xff"), r#""a\"b\\c\td\ne\001\177\377""#);
        assert_eq!(quoted_in_header("a/", b"a\tb c"), r#""a/a\tb c""#);
    }
}
