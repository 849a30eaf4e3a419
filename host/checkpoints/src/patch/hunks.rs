//! Hunks of a unified diff between two texts, byte by byte: only `\n` ends a line.

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};
use std::io::{self, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Lines around a change.
const CONTEXT: usize = 3;
/// Time for the comparison of one file. After that, larger parts of it count as changed.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Writes the hunks that turn one text into another.
///
/// # Errors
/// The output fails.
pub(super) fn write_hunks(out: &mut dyn Write, old: &[u8], new: &[u8]) -> io::Result<()> {
    let (old, new) = (lines(old), lines(new));
    let deadline = Instant::now().checked_add(MAX_TIME);
    let changes = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
    for hunk in group_diff_ops(changes, CONTEXT) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let old_lines = first.old_range().start..last.old_range().end;
        let new_lines = first.new_range().start..last.new_range().end;
        writeln!(out, "@@ -{} +{} @@", position(&old_lines), position(&new_lines))?;
        for change in hunk {
            if let DiffOp::Equal { .. } = change {
                write_lines(out, b" ", &old[change.old_range()])?;
            } else {
                write_lines(out, b"-", &old[change.old_range()])?;
                write_lines(out, b"+", &new[change.new_range()])?;
            }
        }
    }
    Ok(())
}

/// Splits a text into its lines, each with its end.
pub(super) fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns the first line and the number of lines. An empty range is after the line that it names.
fn position(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        length => format!("{},{length}", range.start + 1),
    }
}

fn write_lines(out: &mut dyn Write, mark: &[u8], lines: &[&[u8]]) -> io::Result<()> {
    for line in lines {
        out.write_all(mark)?;
        out.write_all(line)?;
        if !line.ends_with(b"\n") {
            out.write_all(b"\n\\ No newline at end of file\n")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunks(old: &str, new: &str) -> String {
        let mut out = Vec::new();
        write_hunks(&mut out, old.as_bytes(), new.as_bytes()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn line_ends_are_part_of_the_lines() {
        assert_eq!(hunks("a\r\nb\n", "a\nb\n"), "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\n");
        assert_eq!(hunks("a\rb", "a\rc\n"), "@@ -1 +1 @@\n-a\rb\n\\ No newline at end of file\n+a\rc\n");
    }

    #[test]
    fn new_and_removed_texts_start_after_line_zero() {
        assert_eq!(hunks("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(hunks("a\n", ""), "@@ -1 +0,0 @@\n-a\n");
        assert_eq!(hunks("", ""), "");
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let old: String = (0..40).map(|line| format!("{line}\n")).collect();
        let new = old.replace("\n5\n", "\nfive\n").replace("\n30\n", "\n");
        let text = hunks(&old, &new);
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
        assert!(text.contains("@@ -3,7 +3,7 @@") && text.contains("@@ -28,7 +28,6 @@"), "{text}");
    }
}
