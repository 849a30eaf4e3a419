//! Markdown for output that only grows: a terminal that shows lines, or one that is read aloud.

use crate::highlight::Highlights;
use crate::markdown::{self, Paper};
use crate::rows::{Row, StyledPiece};
use crate::theme::Theme;
use crate::transcript::{TextSegment, item_of};
use crate::view::PrintedRow;

/// The indentation of all rows. Only the host writes in the first columns.
const INDENT: &str = "  ";

/// Markdown that arrives in pieces. A block, or an item of a list, is shown once it is complete.
#[derive(Debug)]
pub struct Prose {
    columns: usize,
    theme: Theme,
    is_linear: bool,
    segment: TextSegment,
    /// Bytes of the segment that were shown.
    shown: usize,
    /// The part that was shown last; `None` at the beginning.
    last: Option<ProsePart>,
}

/// A part that was shown.
#[derive(Debug, Clone, Copy)]
struct ProsePart {
    is_item: bool,
    ends_blank: bool,
}

impl Prose {
    /// Creates a text for rows of this many columns. `is_linear` leaves out drawn lines, for screen readers.
    pub fn new(columns: usize, theme: Theme, is_linear: bool) -> Self {
        Self { columns, theme, is_linear, segment: TextSegment::default(), shown: 0, last: None }
    }

    /// Takes a piece and returns the rows that it completes.
    pub fn push(&mut self, piece: &str) -> Vec<PrintedRow> {
        let mut rows = Vec::new();
        for next in self.segment.push(piece) {
            rows.extend(self.items());
            rows.extend(self.rest_of_segment());
            self.segment = next;
        }
        rows.extend(self.items());
        rows
    }

    /// Returns whether a part of the text was not shown yet.
    pub fn is_open(&self) -> bool {
        !self.segment.text()[self.shown..].trim().is_empty()
    }

    /// Returns the rows that were not shown yet, because something else follows. A code block continues after it.
    pub fn flush(&mut self) -> Vec<PrintedRow> {
        let next = self.segment.following_segment();
        let rows = self.rest_of_segment();
        (self.segment, self.last) = (next, None);
        rows
    }

    /// Ends the text and returns its last rows.
    pub fn end(&mut self) -> Vec<PrintedRow> {
        let rows = self.flush();
        self.segment = TextSegment::default();
        rows
    }

    /// Shows the text above the last item of a list.
    fn items(&mut self) -> Vec<PrintedRow> {
        let mut rows = Vec::new();
        while let Some(end) = self.segment.next_item(self.shown) {
            let part = self.segment.slice_markdown(self.shown..end).into_owned();
            let is_continued = self.segment.continues() && self.shown == 0;
            rows.extend(self.rows(&part, is_continued));
            self.shown = end;
        }
        rows
    }

    /// Shows the rest of the segment that was not shown yet.
    fn rest_of_segment(&mut self) -> Vec<PrintedRow> {
        let segment = std::mem::take(&mut self.segment);
        let shown = std::mem::take(&mut self.shown);
        self.rows(&segment.slice_markdown(shown..segment.text().len()), segment.continues() && shown == 0)
    }

    fn rows(&mut self, markdown: &str, is_continued: bool) -> Vec<PrintedRow> {
        let (highlights, lead) = (Highlights::default(), [StyledPiece::new(INDENT, self.theme.text)]);
        let paper = Paper::new(&lead, &self.theme, &highlights);
        let (columns, is_linear) = (self.columns, self.is_linear);
        let rows = markdown::rows(markdown, Paper { columns, is_linear, is_continued, ..paper });
        if rows.is_empty() {
            return Vec::new();
        }
        let ends_blank = markdown.lines().next_back().is_some_and(|line| line.trim().is_empty());
        let part = ProsePart { is_item: item_of(markdown).is_some(), ends_blank };
        // Items stand apart if their author wrote them so.
        let above = self.last.replace(part).filter(|_| !is_continued);
        let gap = above.is_some_and(|above| !(above.is_item && part.is_item) || above.ends_blank);
        gap.then(Row::default).into_iter().chain(rows).map(PrintedRow).collect()
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
    fn items_are_shown_one_after_another() {
        let mut prose = Prose::new(20, Theme::plain(), false);
        assert_eq!(plain(&prose.push("Steps:\n1. one\n   more")), "  Steps:\n");
        assert_eq!(plain(&prose.push("\n2.")), "");
        assert_eq!(
            plain(&prose.push(" two\n   - below\n\n3. three\n")),
            "\n  1. one\n     more\n  2. two\n     • below\n"
        );
        assert_eq!(plain(&prose.push("\nEnd.\n\n- last")), "\n  3. three\n\n  End.\n");
        assert_eq!(plain(&prose.end()), "\n  • last\n");
    }

    #[test]
    fn items_look_alike_in_pieces_and_as_a_whole() {
        let text = "Intro\n\n- a\n- b **c**\n  1. d\n\n     e\n- f\n\n  ```sh\n  - g\n  ```\n\nText\n1. h\n2. i\n";
        let whole = |text: &str| {
            let mut prose = Prose::new(40, Theme::plain(), false);
            let rows = prose.push(text).into_iter().chain(prose.end()).collect::<Vec<_>>();
            plain(&rows)
        };
        let mut prose = Prose::new(40, Theme::plain(), false);
        let pieces: Vec<PrintedRow> = text.chars().flat_map(|c| prose.push(c.encode_utf8(&mut [0; 4]))).collect();
        assert_eq!(plain(&pieces) + &plain(&prose.end()), whole(text));
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
