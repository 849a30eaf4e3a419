//! Rows of a unified diff, with the changed part of paired lines marked.

use crate::rows::{Lead, Piece, Row, wrap};
use crate::theme::Theme;
use ratatui_core::style::Style;

/// Columns between two sides.
const BETWEEN: usize = 3;
/// Minimum columns of a side.
const NARROWEST: usize = 20;

/// Returns whether a text is a unified diff.
pub(crate) fn is_diff(text: &str) -> bool {
    text.starts_with("--- ") && text.lines().take(8).any(|line| line.starts_with("@@ "))
}

/// Returns the numbers of added and removed lines of a unified diff.
pub(crate) fn counts(diff: &str) -> (usize, usize) {
    let count = |sign: char, head: &str| diff.lines().filter(|l| l.starts_with(sign) && !l.starts_with(head)).count();
    (count('+', "+++ "), count('-', "--- "))
}

/// Renders a unified diff with the old lines beside the new ones.
pub(crate) fn sides(diff: &str, columns: usize, lead: &Lead, theme: &Theme) -> Vec<Row> {
    let indent = Row::of(lead.rest().to_vec());
    let half = columns.saturating_sub(indent.width() + BETWEEN) / 2;
    if half < NARROWEST {
        return rows(diff, columns, lead, theme, false);
    }
    let sides = Sides { half, lead, theme };
    let mut rows = Vec::new();
    let lines: Vec<&str> = diff.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let removed = run(&lines[at..], '-', "--- ");
        let added = run(&lines[at + removed..], '+', "+++ ");
        if removed + added == 0 {
            let is_heading = lines[at].starts_with("@@");
            match lines[at].starts_with(' ') {
                true => {
                    let pieces = [Piece::new(lines[at], theme.text)];
                    sides.put(&pieces, &pieces, &mut rows);
                }
                false => {
                    let style = if is_heading { theme.accent } else { theme.dim };
                    wrap(&[Piece::new(lines[at], style)], columns, lead, &mut rows);
                }
            }
            at += 1;
            continue;
        }
        let (old, new) = (&lines[at..at + removed], &lines[at + removed..at + removed + added]);
        for number in 0..removed.max(added) {
            let (old, new) = (old.get(number).copied(), new.get(number).copied());
            let pieces = |line: Option<&str>, other: Option<&str>, style| {
                line.map(|line| marked(line, other.unwrap_or_default(), style, theme)).unwrap_or_default()
            };
            sides.put(&pieces(old, new, theme.removed), &pieces(new, old, theme.added), &mut rows);
        }
        at += removed + added;
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
    fn put(&self, old: &[Piece], new: &[Piece], rows: &mut Vec<Row>) {
        let wrapped = |pieces: &[Piece]| {
            let mut rows = Vec::new();
            wrap(pieces, self.half, &Lead::default(), &mut rows);
            rows
        };
        let (old, new) = (wrapped(old), wrapped(new));
        for at in 0..old.len().max(new.len()) {
            let (old, new) = (old.get(at).cloned().unwrap_or_default(), new.get(at).cloned().unwrap_or_default());
            let mut row = Row::of(self.lead.rest().to_vec());
            let blank = " ".repeat(self.half.saturating_sub(old.width()));
            old.pieces().iter().for_each(|piece| row.push(piece.clone()));
            row.push(Piece::new(&format!("{blank} │ "), self.theme.dim));
            new.pieces().iter().for_each(|piece| row.push(piece.clone()));
            rows.push(row);
        }
    }
}

/// Renders a unified diff. `changes_only` leaves out the context and the headings.
pub(crate) fn rows(diff: &str, columns: usize, lead: &Lead, theme: &Theme, changes_only: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let lines: Vec<&str> = diff.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let removed = run(&lines[at..], '-', "--- ");
        let added = run(&lines[at + removed..], '+', "+++ ");
        if removed + added == 0 {
            if !changes_only {
                let style = if lines[at].starts_with("@@") { theme.accent } else { theme.dim };
                wrap(&[Piece::new(lines[at], style)], columns, &below_code(lines[at], lead, columns), &mut rows);
            }
            at += 1;
            continue;
        }
        let (old, new) = (&lines[at..at + removed], &lines[at + removed..at + removed + added]);
        let is_paired = removed == added;
        for (number, line) in old.iter().enumerate() {
            let other = if is_paired { new[number] } else { "" };
            wrap(&marked(line, other, theme.removed, theme), columns, &below_code(line, lead, columns), &mut rows);
        }
        for (number, line) in new.iter().enumerate() {
            let other = if is_paired { old[number] } else { "" };
            wrap(&marked(line, other, theme.added, theme), columns, &below_code(line, lead, columns), &mut rows);
        }
        at += removed + added;
    }
    rows
}

/// Returns the lead of a line, whose further rows stand below its code.
fn below_code(line: &str, lead: &Lead, columns: usize) -> Lead {
    match line.chars().next() {
        Some('+' | '-' | ' ') => lead.of_code(&line[..1], &line[1..], columns),
        _ => lead.clone(),
    }
}

/// Returns how many lines begin with a sign and not with the heading of a file.
fn run(lines: &[&str], sign: char, heading: &str) -> usize {
    lines.iter().take_while(|line| line.starts_with(sign) && !line.starts_with(heading)).count()
}

/// Splits a changed line into what it shares with its counterpart and what differs.
fn marked(line: &str, other: &str, style: Style, theme: &Theme) -> Vec<Piece> {
    let (Some(body), Some(other)) = (line.get(1..), other.get(1..)) else { return vec![Piece::new(line, style)] };
    let before: usize = body.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (body_rest, other_rest) = (&body[before..], &other[before..]);
    let pairs = body_rest.chars().rev().zip(other_rest.chars().rev());
    let after: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    // A line of which little remains is easier to read without marks.
    if (before + after) * 2 < body.len() {
        return vec![Piece::new(line, style)];
    }
    let end = body.len() - after;
    vec![
        Piece::new(&line[..=before], style),
        Piece::new(&body[before..end], style.patch(theme.changed)),
        Piece::new(&body[end..], style),
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
        let rows = rows(DIFF, 80, &Lead::default(), &theme, true);
        assert_eq!(rows.iter().map(Row::plain).collect::<Vec<_>>(), ["-let total = a - b;", "+let total = a + b;"]);
        let marked = rows[0].pieces().iter().find(|piece| piece.style() == theme.changed);
        assert_eq!(marked.map(Piece::text), Some("-"));
        assert!(is_diff(DIFF) && !is_diff("--- a heading\n\ntext"));
        assert_eq!(counts(DIFF), (1, 1));
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
            prop_assert!(rows(&text, columns, &Lead::default(), &Theme::plain(), false).iter().all(|row| row.width() <= columns));
        }
    }
}
