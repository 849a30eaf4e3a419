//! The part of the conversation that the mouse marks.
//!
//! A region is between two places in the transcript and not on the screen, so that it stays while the conversation grows or
//! scrolls. Its text has neither marks nor indentation, and lines that were wrapped are whole. So are lines of tables and of the
//! two sides of a diff, unless the region is within one row.

use crate::rows::{Copied, Row};
use crate::transcript::{RowPosition, Transcript};
use std::ops::Range;
use std::time::Duration;

/// A column of a row.
type Cell = (RowPosition, usize);

/// Text from where a button was pressed to where the mouse was moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    from: Cell,
    /// `None` until the mouse has moved.
    to: Option<Cell>,
}

impl Region {
    /// Returns the first and the last cell.
    fn ends(&self) -> Option<(Cell, Cell)> {
        let to = self.to?;
        Some((self.from.min(to), self.from.max(to)))
    }

    /// Returns the columns of the text of a row that are marked.
    pub(crate) fn columns(&self, place: RowPosition, row: &Row) -> Range<usize> {
        let Some((first, last)) = self.ends().filter(|(first, last)| (first.0..=last.0).contains(&place)) else {
            return 0..0;
        };
        let is_whole = row.copied.is_some() && first.0 != last.0;
        let from = if place == first.0 && !is_whole { first.1 } else { 0 };
        let to = if place == last.0 && !is_whole { last.1 + 1 } else { usize::MAX };
        from.max(row.lead)..to.min(row.width())
    }

    /// Returns the text of a row that is marked.
    fn text(&self, place: RowPosition, row: &Row) -> String {
        let columns = self.columns(place, row);
        match &row.copied {
            Some(copied) if columns == (row.lead..row.width()) => copied.line.to_string(),
            Some(copied) => {
                let parts = copied.cells.iter().map(|cell| cell.start.max(columns.start)..cell.end.min(columns.end));
                let texts = parts.filter(|part| !part.is_empty()).map(|part| row.text_in(&part).trim().to_owned());
                texts.collect::<Vec<_>>().join("\t")
            }
            None => row.text_in(&columns).trim_end().to_owned(),
        }
    }
}

impl Transcript {
    pub(crate) fn region(&self) -> Option<Region> {
        self.region
    }

    /// Begins a region.
    pub(crate) fn mark(&mut self, place: RowPosition, column: usize) {
        self.region = Some(Region { from: (place, column), to: None });
    }

    /// Moves the end of the region.
    pub(crate) fn mark_to(&mut self, place: RowPosition, column: usize) {
        self.region.iter_mut().for_each(|region| region.to = Some((place, column)));
    }

    /// Removes the marks.
    pub(crate) fn unmark(&mut self) {
        self.region = None;
    }

    /// Returns the text of the region; `None` if there is no region, or the mouse has not moved since its beginning.
    pub(crate) fn marked(&mut self, now: Duration) -> Option<String> {
        let region = self.region?;
        let (first, last) = region.ends()?;
        let mut text = String::new();
        let mut is_begun = false;
        let mut before: Option<Copied> = None;
        for item in first.0.item..=last.0.item.min(self.len().saturating_sub(1)) {
            let gap = self.gap(item);
            let empty = vec![Row::default(); gap];
            for (row, drawn) in empty.iter().chain(self.rows(item, now)).enumerate() {
                let place = RowPosition { item, row };
                if place < first.0 || place > last.0 {
                    continue;
                }
                let is_taken = |copied: &Copied| {
                    copied.cells.is_empty() || before.as_ref().is_some_and(|before| before.is_of_line(copied))
                };
                if drawn.copied.as_ref().is_some_and(is_taken) {
                    continue;
                }
                before.clone_from(&drawn.copied);
                match drawn.continues {
                    _ if !std::mem::replace(&mut is_begun, true) => {}
                    Some(blanks) => text.push_str(&" ".repeat(blanks)),
                    None => text.push('\n'),
                }
                text.push_str(&region.text(place, drawn));
            }
        }
        Some(text)
    }
}
