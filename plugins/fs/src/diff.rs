//! Unified diffs that `patch` can apply.
//!
//! Lines end with a line feed; a lone carriage return is part of its line. The module uses Myers' algorithm directly,
//! because `similar::TextDiff` would add four other algorithms to the component.

use crate::text::{count, cut};
use similar::algorithms::{Capture, Replace, myers};
use similar::{DiffOp, DiffTag, group_diff_ops};
use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Unchanged lines around each change.
const CONTEXT: usize = 3;
/// Time limit; beyond it the diff may be longer than necessary.
const TIME: Duration = Duration::from_millis(500);

/// Maximum number of lines to compare, to bound memory.
const LINES: usize = 100_000;

/// The difference between two texts.
#[derive(Debug)]
pub(crate) struct Diff<'a> {
    /// Changed lines, with context on both sides.
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    /// Number of lines before those.
    before: usize,
    ops: Vec<DiffOp>,
}

/// Compares two lists of lines. Past the time limit, the result may be longer than necessary.
pub(crate) fn line_ops(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut found = Replace::new(Capture::new());
    let deadline = Instant::now() + TIME;
    // Cannot fail: `Capture` returns no errors.
    let _ = myers::diff_deadline_raw(&mut found, old, 0..old.len(), new, 0..new.len(), Some(deadline));
    found.into_inner().into_ops()
}

impl<'a> Diff<'a> {
    /// Compares two texts line by line. Returns `None` if the changed region is too large.
    pub(crate) fn new(old: &'a str, new: &'a str) -> Option<Self> {
        let start = start_of_changes(old, new);
        let end = end_of_changes(&old[start..], &new[start..]);
        let (changed_old, changed_new) = (&old[start..old.len() - end], &new[start..new.len() - end]);
        if changed_old.matches('\n').count() + changed_new.matches('\n').count() > LINES {
            return None;
        }
        let before = old[..start].matches('\n').count();
        let (old, new): (Vec<&str>, Vec<&str>) = (lines(changed_old).collect(), lines(changed_new).collect());
        let ops = line_ops(&old, &new);
        Some(Self { old, new, before, ops })
    }

    /// Returns the number of added lines.
    pub(crate) fn added(&self) -> usize {
        self.changes().map(|op| op.new_range().len()).sum()
    }

    /// Returns the number of removed lines.
    pub(crate) fn removed(&self) -> usize {
        self.changes().map(|op| op.old_range().len()).sum()
    }

    /// Returns the number of the first changed line in the new text, counted from 1.
    pub(crate) fn first_changed_line(&self) -> Option<usize> {
        self.changes().next().map(|op| self.before + op.new_range().start + 1)
    }

    /// Formats the diff. Beyond `bytes` it drops the remaining lines and counts them.
    pub(crate) fn unified(&self, name: &str, bytes: usize) -> String {
        let mut text = format!("--- {name}\n+++ {name}\n");
        for hunk in group_diff_ops(self.ops.clone(), CONTEXT) {
            self.write_hunk(&mut text, &hunk);
        }
        bounded(text, bytes)
    }

    fn changes(&self) -> impl Iterator<Item = &DiffOp> {
        self.ops.iter().filter(|op| op.tag() != DiffTag::Equal)
    }

    fn write_hunk(&self, text: &mut String, hunk: &[DiffOp]) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
        let old = place(self.before, first.old_range().start..last.old_range().end);
        let new = place(self.before, first.new_range().start..last.new_range().end);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "@@ -{old} +{new} @@");
        for op in hunk {
            if op.tag() == DiffTag::Equal {
                write_lines(text, ' ', &self.old[op.old_range()]);
            } else {
                write_lines(text, '-', &self.old[op.old_range()]);
                write_lines(text, '+', &self.new[op.new_range()]);
            }
        }
    }
}

/// Formats the range of a hunk header: first line from 1 and length; an empty range names the line before it.
fn place(before: usize, lines: Range<usize>) -> String {
    let start = before + lines.start;
    match lines.len() {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        many => format!("{},{many}", start + 1),
    }
}

fn lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split_inclusive('\n')
}

/// Returns the length in bytes of the common prefix, minus the lines that serve as context.
fn start_of_changes(old: &str, new: &str) -> usize {
    let equal = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let whole_lines = &old.as_bytes()[..memchr::memrchr(b'\n', &old.as_bytes()[..equal]).map_or(0, |at| at + 1)];
    let context: usize = whole_lines.split_inclusive(|byte| *byte == b'\n').rev().take(CONTEXT).map(<[u8]>::len).sum();
    whole_lines.len() - context
}

/// Returns the length in bytes of the common suffix, minus the lines that serve as context.
fn end_of_changes(old: &str, new: &str) -> usize {
    let equal = old.bytes().rev().zip(new.bytes().rev()).take_while(|(a, b)| a == b).count();
    let end = &old.as_bytes()[old.len() - equal..];
    let whole_lines = &end[memchr::memchr(b'\n', end).map_or(end.len(), |at| at + 1)..];
    let context: usize = whole_lines.split_inclusive(|byte| *byte == b'\n').take(CONTEXT).map(<[u8]>::len).sum();
    whole_lines.len() - context
}

fn write_lines(text: &mut String, tag: char, lines: &[&str]) {
    for line in lines {
        text.push(tag);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Cuts the text at a line boundary.
fn bounded(text: String, bytes: usize) -> String {
    if text.len() <= bytes {
        return text;
    }
    let kept = cut(&text, bytes);
    let kept = kept.rfind('\n').map_or("", |end| &kept[..=end]);
    let left_out = text[kept.len()..].matches('\n').count();
    format!("{kept}[{} of the diff left out]\n", count(left_out as u64, "line"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Applies a unified diff strictly, as `patch` does.
    fn patched(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut result, mut at, mut last) = (String::new(), 0, ' ');
        for line in diff.split_inclusive('\n').skip(2) {
            let (tag, text) = (line.chars().next().unwrap(), &line[1..]);
            match tag {
                '@' => {
                    let place = text.split(' ').nth(1).unwrap().trim_start_matches('-');
                    let start: usize = place.split(',').next().unwrap().parse().unwrap();
                    let start = if place.ends_with(",0") { start } else { start - 1 };
                    result.extend(old[at..start].iter().copied());
                    at = start;
                }
                '\\' if last != '-' => assert_eq!(result.pop(), Some('\n')),
                '\\' => {}
                '+' => result.push_str(text),
                _ => {
                    assert_eq!(old[at].trim_end_matches('\n'), text.trim_end_matches('\n'));
                    at += 1;
                    result.push_str(if tag == ' ' { text } else { "" });
                }
            }
            last = tag;
        }
        result.extend(old[at..].iter().copied());
        result
    }

    #[test]
    fn change_has_three_lines_of_context() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let diff = Diff::new(old, "1\n2\n3\n4\nfive\nmore\n6\n7\n8\n9\n").unwrap().unified("a.txt", 1_000);
        assert_eq!(diff, "--- a.txt\n+++ a.txt\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+more\n 6\n 7\n 8\n");
    }

    #[test]
    fn missing_final_newline_is_marked() {
        let diff = Diff::new("a", "b\n").unwrap().unified("f", 1_000);
        assert_eq!(diff, "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n");
    }

    #[test]
    fn changes_are_counted() {
        let diff = Diff::new("a\nb\nc\n", "a\nx\ny\nc\n").unwrap();
        assert_eq!((diff.added(), diff.removed(), diff.first_changed_line()), (2, 1, Some(2)));
        assert_eq!(Diff::new("a", "a").unwrap().first_changed_line(), None);
    }

    #[test]
    fn large_regions_are_not_compared() {
        let old = "\n".repeat(LINES);
        assert!(Diff::new(&old, &format!("{old}x")).is_some());
        assert!(Diff::new(&format!("a{old}b"), &format!("c{old}d")).is_none());
    }

    #[test]
    fn long_diff_is_cut_at_a_line_boundary() {
        let text = Diff::new("", &"0123456789\n".repeat(100)).unwrap().unified("f", 100);
        assert!(text.ends_with("+0123456789\n[95 lines of the diff left out]\n"), "{text}");
        assert!(text.len() < 150);
    }

    proptest! {
        #[test]
        fn diff_applies_cleanly(old in "([ab]{0,2}\r?\n){0,12}[ab]{0,2}", new in "([ab]{0,2}\r?\n){0,12}[ab]{0,2}") {
            prop_assert_eq!(patched(&old, &Diff::new(&old, &new).unwrap().unified("f", usize::MAX)), new);
        }

        #[test]
        fn small_change_in_a_long_text_is_one_hunk(lines in 8usize..200, at in 0usize..200, change in "[xy\n]{0,4}") {
            let old: Vec<String> = (0..lines).map(|i| format!("{}\n", i % 3)).collect();
            let mut new = old.clone();
            new[at % lines] = format!("<{change}>\n");
            let (old, new) = (old.concat(), new.concat());
            let diff = Diff::new(&old, &new).unwrap();
            prop_assert!(diff.old.len() <= 7);
            prop_assert_eq!(diff.first_changed_line(), Some(at % lines + 1));
            prop_assert_eq!(patched(&old, &diff.unified("f", usize::MAX)), new);
        }
    }
}
