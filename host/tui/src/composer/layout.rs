//! Soft wrap of the text that the user edits, with the place of the cursor.

use crate::composer::chips::Chips;
use crate::rows::width;
use pinion_protocol::text::printable;
use std::borrow::Cow;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation as _;

/// Blanks that stand for a tab.
const TAB: &str = "    ";
/// Stands for a cluster that is wider than the screen.
const TOO_WIDE: &str = "\u{fffd}";

/// The rows of a text. Each row is narrower than the screen, so that the cursor fits behind it.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    text: &'a str,
    chips: &'a Chips,
    columns: usize,
    pub(super) rows: Vec<Range<usize>>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(text: &'a str, chips: &'a Chips, columns: usize) -> Self {
        let mut layout = Self { text, chips, columns: columns.saturating_sub(1).max(1), rows: Vec::new() };
        let mut start = 0;
        for line in text.split('\n') {
            layout.wrap(start, line);
            start += line.len() + 1;
        }
        layout
    }

    fn wrap(&mut self, start: usize, line: &str) {
        let (mut row, mut used) = (start, 0);
        // The place behind the last blank of the row, and the columns up to there.
        let mut blank = None;
        for (at, cluster) in line.grapheme_indices(true) {
            let wide = self.wide(cluster);
            while used + wide > self.columns && start + at > row {
                let (end, columns) = blank.take().unwrap_or((start + at, used));
                self.rows.push(row..end);
                (row, used) = (end, used - columns);
            }
            used += wide;
            if cluster == " " || cluster == "\t" {
                blank = Some((start + at + cluster.len(), used));
            }
        }
        self.rows.push(row..start + line.len());
    }

    /// Returns the parts of a row as they are drawn, before, in and behind a range of the text, and which is in it.
    pub(super) fn parts(&self, row: usize, marked: &Range<usize>) -> [(String, bool); 3] {
        let Range { start, end } = self.rows.get(row).cloned().unwrap_or_default();
        let (from, to) = (marked.start.clamp(start, end), marked.end.clamp(start, end));
        let shown = |range: Range<usize>| self.text[range].graphemes(true).map(|cluster| self.shown(cluster)).collect();
        [(shown(start..from), false), (shown(from..to), true), (shown(to..end), false)]
    }

    /// Returns the row and column of an offset.
    pub(super) fn position_of(&self, at: usize) -> (usize, usize) {
        let row = self.rows.iter().rposition(|row| row.start <= at).unwrap_or(0);
        let range = self.rows.get(row).cloned().unwrap_or_default();
        let before = &self.text[range.start..at.clamp(range.start, range.end)];
        (row, before.graphemes(true).map(|cluster| self.wide(cluster)).sum())
    }

    /// Returns the offset at a row, at this column or before it.
    pub(super) fn at(&self, row: usize, column: usize) -> usize {
        let Some(range) = self.rows.get(row).cloned() else { return self.text.len() };
        let is_last_of_line = self.text[range.end..].is_empty() || self.text[range.end..].starts_with('\n');
        let mut used = 0;
        let mut at = range.start;
        for (offset, cluster) in self.text[range.clone()].grapheme_indices(true) {
            used += self.wide(cluster);
            let end = range.start + offset + cluster.len();
            // The end of a wrapped row is the beginning of the next one.
            if used > column || end == range.end && !is_last_of_line {
                break;
            }
            at = end;
        }
        at
    }

    fn wide(&self, cluster: &str) -> usize {
        width(&self.shown(cluster)).min(self.columns)
    }

    /// Returns the drawn text of a cluster.
    fn shown<'b>(&'b self, cluster: &'b str) -> Cow<'b, str> {
        match cluster {
            "\t" => TAB.into(),
            cluster => match self.chips.label(cluster) {
                Some(label) => label.chars().take(self.columns).collect::<String>().into(),
                None => {
                    Some(printable(cluster)).filter(|shown| width(shown) <= self.columns).unwrap_or(TOO_WIDE.into())
                }
            },
        }
    }
}
