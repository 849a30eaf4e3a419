//! Rows of a unified diff, with the changed part of paired lines marked.

use crate::rows::{Copied, Lead, Row, StyledPiece, wrap};
use crate::theme::Theme;
use pinion_protocol::diff::{DiffLine, lines};
use ratatui_core::style::Style;

/// Columns between two sides.
const BETWEEN: usize = 3;
/// Minimum columns for numbers of lines.
const NUMBERED: usize = 40;
/// Minimum columns of a side.
const NARROWEST: usize = 20;

/// Returns whether a text is a unified diff.
pub(crate) fn is_diff(text: &str) -> bool {
    text.starts_with("--- ") && pinion_protocol::diff::is_diff(text)
}

/// Renders a unified diff with the old lines next to the new ones.
pub(crate) fn sides(diff: &str, columns: usize, lead: &Lead, theme: &Theme) -> Vec<Row> {
    let indent = Row::from_pieces(lead.continuation_prefix().to_vec());
    let half = columns.saturating_sub(indent.width() + BETWEEN) / 2;
    if half < NARROWEST {
        return rows(diff, columns, lead, theme);
    }
    let sides = Sides { half, lead, theme };
    let mut rows = Vec::new();
    for part in parts(diff) {
        let (old, new) = match part {
            DiffPart::Changed { old, new } => (old, new),
            DiffPart::Line(DiffLine::Same, line) if line.starts_with(' ') => {
                let pieces = [StyledPiece::new(line, theme.text)];
                sides.push_rows(&pieces, &pieces, &mut rows);
                continue;
            }
            DiffPart::Line(kind, line) => {
                wrap(&[StyledPiece::new(line, beside(kind, theme))], columns, lead, &mut rows);
                continue;
            }
        };
        for number in 0..old.len().max(new.len()) {
            let (old, new) = (old.get(number).copied(), new.get(number).copied());
            let pieces = |line: Option<&str>, other: Option<&str>, style| {
                line.map(|line| marked(line, other.unwrap_or_default(), style, theme)).unwrap_or_default()
            };
            sides.push_rows(&pieces(old, new, theme.removed), &pieces(new, old, theme.added), &mut rows);
        }
    }
    rows
}

/// Two columns of lines.
struct Sides<'a> {
    /// Columns of each.
    half: usize,
    lead: &'a Lead,
    theme: &'a Theme,
}

impl Sides<'_> {
    fn push_rows(&self, old: &[StyledPiece], new: &[StyledPiece], rows: &mut Vec<Row>) {
        let wrapped = |pieces: &[StyledPiece]| {
            let mut rows = Vec::new();
            wrap(pieces, self.half, &Lead::default(), &mut rows);
            rows
        };
        let line: String = if new.is_empty() { old } else { new }.iter().map(StyledPiece::text).collect();
        let lead = Row::from_pieces(self.lead.continuation_prefix().to_vec()).width();
        let cells = [lead, lead + self.half + BETWEEN].map(|from| from..from + self.half);
        let copied = Copied { line: line.trim_end().into(), cells: cells.into() };
        let (old, new) = (wrapped(old), wrapped(new));
        for at in 0..old.len().max(new.len()) {
            let (old, new) = (old.get(at).cloned().unwrap_or_default(), new.get(at).cloned().unwrap_or_default());
            let mut row = Row::bordered(self.lead.continuation_prefix(), copied.clone());
            let blank = " ".repeat(self.half.saturating_sub(old.width()));
            old.pieces().iter().for_each(|piece| row.push(piece.clone()));
            row.push(StyledPiece::new(&format!("{blank} │ "), self.theme.dim));
            new.pieces().iter().for_each(|piece| row.push(piece.clone()));
            rows.push(row);
        }
    }
}

/// Renders a unified diff with its context and headings.
pub(crate) fn rows(diff: &str, columns: usize, lead: &Lead, theme: &Theme) -> Vec<Row> {
    let mut rows = Vec::new();
    for part in parts(diff) {
        let (old, new) = match part {
            DiffPart::Changed { old, new } => (old, new),
            DiffPart::Line(kind, line) => {
                let style = beside(kind, theme);
                wrap(&[StyledPiece::new(line, style)], columns, &below_code(line, lead, columns), &mut rows);
                continue;
            }
        };
        for (line, other, style) in changed(&old, &new, theme) {
            wrap(&marked(line, other, style, theme), columns, &below_code(line, lead, columns), &mut rows);
        }
    }
    rows
}

/// Renders the changed lines of a unified diff, with their numbers in the old and in the new file where there is room.
pub(crate) fn changes(diff: &str, columns: usize, lead: &Lead, theme: &Theme) -> Vec<Row> {
    let (mut old_at, mut new_at) = (0_u64, 0_u64);
    let mut lines = Vec::new();
    for part in parts(diff) {
        match part {
            DiffPart::Line(DiffLine::Hunk, head) => (old_at, new_at) = starts(head).unwrap_or_default(),
            DiffPart::Line(DiffLine::Same, line) if !line.starts_with('\\') => {
                (old_at, new_at) = (old_at.saturating_add(1), new_at.saturating_add(1));
            }
            DiffPart::Line(..) => {}
            DiffPart::Changed { old, new } => {
                let numbers = (old_at..).take(old.len()).chain((new_at..).take(new.len()));
                lines.extend(numbers.zip(changed(&old, &new, theme)));
                old_at = old_at.saturating_add(old.len() as u64);
                new_at = new_at.saturating_add(new.len() as u64);
            }
        }
    }
    let width = lines.iter().map(|(number, _)| number.to_string().len()).max().unwrap_or(0);
    let mut rows = Vec::new();
    for (number, (line, other, style)) in lines {
        let lead =
            if columns < NUMBERED { lead.clone() } else { lead.with_aside(&format!("{number:>width$} "), theme.dim) };
        wrap(&marked(line, other, style, theme), columns, &below_code(line, &lead, columns), &mut rows);
    }
    rows
}

/// Returns the removed lines and then the added ones, each with its counterpart and its style.
fn changed<'a>(old: &[&'a str], new: &[&'a str], theme: &Theme) -> Vec<(&'a str, &'a str, Style)> {
    let is_paired = old.len() == new.len();
    let side = |lines: &[&'a str], others: &[&'a str], style| -> Vec<(&'a str, &'a str, Style)> {
        let other = |at: usize| others.get(at).copied().filter(|_| is_paired).unwrap_or_default();
        lines.iter().enumerate().map(|(at, line)| (*line, other(at), style)).collect()
    };
    [side(old, new, theme.removed), side(new, old, theme.added)].concat()
}

/// Reads the numbers of the first old and the first new line from the head of a hunk: `@@ -1,2 +1 @@`.
fn starts(head: &str) -> Option<(u64, u64)> {
    let mut words = head.split(' ').skip(1);
    let mut start = |mark: char| words.next()?.strip_prefix(mark)?.split(',').next()?.parse().ok();
    Some((start('-')?, start('+')?))
}

/// Returns the lead of a line, whose further rows stand below its code.
fn below_code(line: &str, lead: &Lead, columns: usize) -> Lead {
    match line.chars().next() {
        Some('+' | '-' | ' ') => lead.of_code(&line[..1], &line[1..], columns),
        _ => lead.clone(),
    }
}

/// A part of a diff.
enum DiffPart<'a> {
    /// Lines that were removed, and those that stand in their place.
    Changed { old: Vec<&'a str>, new: Vec<&'a str> },
    /// One other line.
    Line(DiffLine, &'a str),
}

/// Splits a diff into its changes and the lines between them.
fn parts(diff: &str) -> Vec<DiffPart<'_>> {
    let mut parts = Vec::new();
    for (kind, line) in lines(diff) {
        match (kind, parts.last_mut()) {
            (DiffLine::Removed, Some(DiffPart::Changed { old, new })) if new.is_empty() => old.push(line),
            (DiffLine::Added, Some(DiffPart::Changed { new, .. })) => new.push(line),
            (DiffLine::Removed, _) => parts.push(DiffPart::Changed { old: vec![line], new: Vec::new() }),
            (DiffLine::Added, _) => parts.push(DiffPart::Changed { old: Vec::new(), new: vec![line] }),
            (DiffLine::Hunk | DiffLine::File | DiffLine::Same, _) => parts.push(DiffPart::Line(kind, line)),
        }
    }
    parts
}

/// Returns the style of a line between changes.
fn beside(kind: DiffLine, theme: &Theme) -> Style {
    if kind == DiffLine::Hunk { theme.accent } else { theme.dim }
}

/// Splits a changed line into the parts that it shares with its counterpart and the parts that differ.
fn marked(line: &str, other: &str, style: Style, theme: &Theme) -> Vec<StyledPiece> {
    let (Some(body), Some(other)) = (line.get(1..), other.get(1..)) else { return vec![StyledPiece::new(line, style)] };
    let before: usize = body.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (body_rest, other_rest) = (&body[before..], &other[before..]);
    let pairs = body_rest.chars().rev().zip(other_rest.chars().rev());
    let after: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    // A mostly changed line is easier to read without marks.
    if (before + after) * 2 < body.len() {
        return vec![StyledPiece::new(line, style)];
    }
    let end = body.len() - after;
    vec![
        StyledPiece::new(&line[..=before], style),
        StyledPiece::new(&body[before..end], style.patch(theme.changed)),
        StyledPiece::new(&body[end..], style),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DIFF: &str = "--- a\n+++ a\n@@ -1,3 +1,3 @@\n same\n-let total = a - b;\n+let total = a + b;\n end";

    #[test]
    fn changed_part_of_paired_lines_is_marked() {
        let theme = Theme::plain();
        let rows = changes(DIFF, 80, &Lead::default(), &theme);
        assert_eq!(rows.iter().map(Row::plain).collect::<Vec<_>>(), ["2 -let total = a - b;", "2 +let total = a + b;"]);
        let marked = rows[0].pieces().iter().find(|piece| piece.style() == theme.changed);
        assert_eq!(marked.map(StyledPiece::text), Some("-"));
        assert!(is_diff(DIFF) && !is_diff("--- a heading\n\ntext"));
    }

    #[test]
    fn removed_comment_of_two_dashes_is_a_change() {
        let diff = "--- a.sql\n+++ a.sql\n@@ -1,3 +1,3 @@\n one;\n--- a comment\n+++ counter;\n two;";
        let theme = Theme::plain();
        let changed = changes(diff, 80, &Lead::default(), &theme);
        assert_eq!(changed.iter().map(Row::plain).collect::<Vec<_>>(), ["2 --- a comment", "2 +++ counter;"]);
        let beside = sides(diff, 63, &Lead::default(), &theme);
        assert_eq!(beside[4].plain(), "--- a comment                  │ +++ counter;");
    }

    #[test]
    fn changes_have_the_numbers_of_their_lines() {
        let diff =
            "--- a\n+++ a\n@@ -8,4 +8,5 @@\n same\n-nine\n+NINE\n+ten\n same\n-eleven\n+11\n@@ -90 +91 @@\n-x\n+y";
        let shown = |columns| -> Vec<String> {
            changes(diff, columns, &Lead::default(), &Theme::plain()).iter().map(Row::plain).collect()
        };
        let expected = [" 9 -nine", " 9 +NINE", "10 +ten", "11 -eleven", "12 +11", "90 -x", "91 +y"];
        assert_eq!(shown(40), expected);
        assert_eq!(shown(39), ["-nine", "+NINE", "+ten", "-eleven", "+11", "-x", "+y"]);
    }

    #[test]
    fn numbers_of_lines_are_not_copied() {
        let rows = changes(DIFF, 80, &Lead::default(), &Theme::plain());
        let copied: Vec<String> = rows.iter().map(|row| row.plain().chars().skip(row.lead).collect()).collect();
        assert_eq!(copied, ["-let total = a - b;", "+let total = a + b;"]);
    }

    #[test]
    fn old_lines_stand_beside_the_new_ones() {
        let theme = Theme::plain();
        let shown = |columns| -> Vec<String> {
            sides(DIFF, columns, &Lead::default(), &theme).iter().map(Row::plain).collect()
        };
        let wide = shown(63);
        let expected =
            [" same                          │  same", "-let total = a - b;            │ +let total = a + b;"];
        assert_eq!((&wide[2], &wide[3..5]), (&"@@ -1,3 +1,3 @@".to_owned(), &expected.map(str::to_owned)[..]));
        assert!(shown(30).contains(&"-let total = a - b;".to_owned()));
        let rows = sides(DIFF, 63, &Lead::default(), &theme);
        assert_eq!(rows[4].pieces().iter().filter(|piece| piece.style() == theme.changed).count(), 2);
    }

    proptest! {
        #[test]
        fn any_text_is_rendered_in_sides(text in "([-+@ ]{0,3}\\PC{0,40}\n){0,12}", columns in 1_usize..90) {
            prop_assert!(sides(&text, columns, &Lead::default(), &Theme::plain()).iter().all(|row| row.width() <= columns));
        }

        #[test]
        fn any_text_is_rendered(text in "([-+@ ]{0,3}\\PC{0,12}\n){0,12}", columns in 1_usize..40) {
            prop_assert!(rows(&text, columns, &Lead::default(), &Theme::plain()).iter().all(|row| row.width() <= columns));
        }

        #[test]
        fn changes_of_any_text_are_rendered(text in "(@@ -[0-9]{0,20} \\+[0-9]{0,20} @@\n)?([-+@ ]{0,3}\\PC{0,12}\n){0,12}", columns in 1_usize..90) {
            prop_assert!(changes(&text, columns, &Lead::default(), &Theme::plain()).iter().all(|row| row.width() <= columns));
        }
    }
}
