//! Formatting of counts and sizes.

use std::borrow::Cow;

const KB: u64 = 1024;
const MB: u64 = 1024 * KB;

/// Formats a count with its noun: `1 line`, `2 lines`.
pub(crate) fn count(number: u64, singular: &str) -> String {
    if number == 1 { format!("1 {singular}") } else { format!("{number} {}", plural(singular)) }
}

fn plural(singular: &str) -> String {
    match singular.strip_suffix(['y']) {
        Some(stem) => format!("{stem}ies"),
        None if singular.ends_with("ch") => format!("{singular}es"),
        None => format!("{singular}s"),
    }
}

/// Formats a size: `812 bytes`, `1.2 KB`, `3.4 MB`; 1 KB is 1,024 bytes.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..KB => count(bytes, "byte"),
        KB..MB => tenths(bytes, KB, "KB"),
        _ => tenths(bytes, MB, "MB"),
    }
}

fn tenths(bytes: u64, unit: u64, name: &str) -> String {
    let tenths = (u128::from(bytes) * 10 / u128::from(unit)) as u64;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// Formats a path for a list of one path per line. One with control characters is quoted, with these escaped.
pub(crate) fn shown(path: &str) -> Cow<'_, str> {
    if path.contains(char::is_control) { Cow::Owned(format!("{path:?}")) } else { Cow::Borrowed(path) }
}

/// Returns the longest prefix of `text` of at most `limit` bytes that does not split a character.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Returns the number of lines; a final line ending does not start another line.
pub(crate) fn lines_in(text: &str) -> u64 {
    text.lines().count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_a_fitting_unit() {
        let formatted = [0, 1, 1023, 1024, 1_048_575, 1_048_576, u64::MAX].map(size);
        assert_eq!(
            formatted,
            ["0 bytes", "1 byte", "1023 bytes", "1.0 KB", "1023.9 KB", "1.0 MB", "17592186044415.9 MB"]
        );
    }

    #[test]
    fn path_with_a_newline_stays_one_line() {
        assert_eq!(shown("new\nline \u{1b}[1m"), r#""new\nline \u{1b}[1m""#);
        assert_eq!(shown("été \"x\""), "été \"x\"");
    }

    #[test]
    fn nouns_are_pluralized() {
        assert_eq!(count(1, "entry"), "1 entry");
        assert_eq!([count(2, "entry"), count(0, "match"), count(3, "line")], ["2 entries", "0 matches", "3 lines"]);
    }

    #[test]
    fn cut_does_not_split_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 9), "aé");
    }
}
