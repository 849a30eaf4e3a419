//! Unified diffs, line by line.

/// The meaning of a line of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffLine {
    /// A line that only the new file has, after a `+`.
    Added,
    /// A line that only the old file has, after a `-`.
    Removed,
    /// The head of a hunk.
    Hunk,
    /// The names of the compared files.
    File,
    /// Any other line: context, or a remark.
    Same,
}

/// Returns whether a text is a unified diff: two file names in its first eight lines, and a hunk right after them.
pub fn is_diff(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("--- ")).take(3);
    let has = |line: Option<&str>, start: &str| line.is_some_and(|line| line.starts_with(start));
    let is_at_start = text.lines().take(8).any(|line| line.starts_with("--- "));
    is_at_start && has(lines.next(), "--- ") && has(lines.next(), "+++ ") && has(lines.next(), "@@ ")
}

/// Returns the lines of a diff with their meaning. Inside a hunk, whose head has its length, no line is a file name: there, `--- a`
/// removes the line `-- a`.
pub fn lines(text: &str) -> impl Iterator<Item = (DiffLine, &str)> {
    let mut left = (0_u64, 0_u64);
    text.lines().map(move |line| {
        let kind = kind(line, left);
        match kind {
            DiffLine::Hunk => left = lengths(line).unwrap_or_default(),
            DiffLine::Added => left.1 = left.1.saturating_sub(1),
            DiffLine::Removed => left.0 = left.0.saturating_sub(1),
            DiffLine::Same if !line.starts_with('\\') => left = (left.0.saturating_sub(1), left.1.saturating_sub(1)),
            DiffLine::Same | DiffLine::File => {}
        }
        (kind, line)
    })
}

/// Counts the lines that a diff adds and removes.
pub fn counts(text: &str) -> (usize, usize) {
    lines(text).fold((0, 0), |(added, removed), (line, _)| match line {
        DiffLine::Added => (added + 1, removed),
        DiffLine::Removed => (added, removed + 1),
        _ => (added, removed),
    })
}

fn kind(line: &str, (old, new): (u64, u64)) -> DiffLine {
    let is_outside = old == 0 && new == 0;
    match line.as_bytes().first() {
        _ if is_outside && (line.starts_with("--- ") || line.starts_with("+++ ")) => DiffLine::File,
        Some(b'+') => DiffLine::Added,
        Some(b'-') => DiffLine::Removed,
        Some(b'@') => DiffLine::Hunk,
        Some(b'd') if line.starts_with("diff ") => DiffLine::File,
        _ => DiffLine::Same,
    }
}

/// Reads the numbers of old and new lines from the head of a hunk: `@@ -1,2 +1 @@`.
fn lengths(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split(' ').skip(1);
    let mut length = || {
        let range = words.next()?;
        range.split_once(',').map_or(Some(1), |(_, length)| length.parse().ok())
    };
    Some((length()?, length()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a\n+++ b\n@@ -1,3 +1,2 @@\n one\n--- two\n-three\n+3\n--- c\n+++ d\n@@ -1 +1 @@\n-x\n+y\n";

    #[test]
    fn diff_is_recognized_by_its_start() {
        assert!(is_diff(DIFF));
        assert!(is_diff(&format!("diff --git a b\nindex 1..2\n{DIFF}")));
        for other in ["", "--- a\n+++ b\n", "- one\n+ two\n", "@@ -1 +1 @@\n", "text\n---\ntext"] {
            assert!(!is_diff(other), "{other}");
        }
    }

    #[test]
    fn removed_line_starting_with_dashes_is_not_a_file_name() {
        use DiffLine::{Added, File, Hunk, Removed, Same};
        let kinds: Vec<DiffLine> = lines(DIFF).map(|(line, _)| line).collect();
        let expected = [File, File, Hunk, Same, Removed, Removed, Added, File, File, Hunk, Removed, Added];
        assert_eq!(kinds, expected);
        assert_eq!(counts(DIFF), (2, 3));
    }
}
