//! Markdown for output that only grows: a terminal that shows lines, or one that is read aloud.

use crate::highlight::Highlights;
use crate::markdown::{self, Paper};
use crate::rows::{Piece, Row};
use crate::theme::Theme;
use crate::transcript::Segment;
use crate::view::PrintedRow;

/// The indentation of all rows. Only the host writes in the first columns.
const INDENT: &str = "  ";

/// Markdown that arrives in pieces. A block is shown once it is complete.
#[derive(Debug)]
pub struct Prose {
    columns: usize,
    theme: Theme,
    is_linear: bool,
    segment: Segment,
    /// The next block begins below another one.
    is_below: bool,
}

impl Prose {
    /// Creates a text for rows of this many columns. `is_linear` leaves out drawn lines, for screen readers.
    pub fn new(columns: usize, theme: Theme, is_linear: bool) -> Self {
        Self { columns, theme, is_linear, segment: Segment::default(), is_below: false }
    }

    /// Takes a piece and returns the rows of the blocks that it completes.
    pub fn push(&mut self, piece: &str) -> Vec<PrintedRow> {
        let mut rows = Vec::new();
        for next in self.segment.push(piece) {
            let segment = std::mem::replace(&mut self.segment, next);
            rows.extend(self.rows(&segment));
        }
        rows
    }

    /// Returns whether a part of the text was not shown yet.
    pub fn is_open(&self) -> bool {
        !self.segment.text().trim().is_empty()
    }

    /// Returns the rows of what was not shown yet, because something else follows. A code block goes on after it.
    pub fn flush(&mut self) -> Vec<PrintedRow> {
        let next = self.segment.rest();
        let segment = std::mem::replace(&mut self.segment, next);
        let rows = self.rows(&segment);
        self.is_below = false;
        rows
    }

    /// Ends the text and returns its last rows.
    pub fn end(&mut self) -> Vec<PrintedRow> {
        let rows = self.flush();
        self.segment = Segment::default();
        rows
    }

    fn rows(&mut self, segment: &Segment) -> Vec<PrintedRow> {
        let (highlights, lead) = (Highlights::default(), [Piece::new(INDENT, self.theme.text)]);
        let paper = Paper::new(&lead, &self.theme, &highlights);
        let (columns, is_linear, is_continued) = (self.columns, self.is_linear, segment.continues());
        let rows = markdown::rows(&segment.markdown(), Paper { columns, is_linear, is_continued, ..paper });
        if rows.is_empty() {
            return Vec::new();
        }
        let gap = (std::mem::replace(&mut self.is_below, true) && !is_continued).then(Row::default);
        gap.into_iter().chain(rows).map(PrintedRow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(rows: &[PrintedRow]) -> String {
        rows.iter().map(|row| row.plain() + "\n").collect()
    }

    #[test]
    fn blocks_are_shown_when_they_are_complete() {
        let mut prose = Prose::new(20, Theme::plain(), false);
        assert_eq!(plain(&prose.push("**One** para")), "");
        assert_eq!(plain(&prose.push("graph.\n\n```sh\nls\n```\n")), "  One paragraph.\n");
        assert_eq!(plain(&prose.push("\n| a |\n|---|\n")), "");
        assert_eq!(plain(&prose.end()), "\n    sh\n    ls\n\n  a\n  ─\n");
        assert!(!prose.is_open() && plain(&prose.end()).is_empty());
    }

    #[test]
    fn code_goes_on_after_something_else() {
        let mut prose = Prose::new(20, Theme::plain(), true);
        prose.push("```sh\n# a\n");
        assert_eq!(plain(&prose.flush()), "    sh\n    # a\n");
        prose.push("# b\n```\n");
        assert_eq!(plain(&prose.end()), "    # b\n");
    }
}
