//! The part of the transcript that the screen shows.

use crate::rows::Row;
use crate::transcript::Transcript;
use std::time::Duration;

/// A row of an item, counted with the empty ones above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowPosition {
    pub(crate) item: usize,
    pub(crate) row: usize,
}

/// The place of the window in the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// The end, also when it grows.
    End,
    /// A row of an item at the top, counted with the empty row above the item.
    Top { item: usize, row: usize },
}

impl Position {
    /// Returns the item at the top for a change.
    pub(super) fn item(&mut self) -> Option<&mut usize> {
        match self {
            Self::End => None,
            Self::Top { item, .. } => Some(item),
        }
    }
}

impl Transcript {
    /// Returns the rows of the window with their places, at most `height`.
    pub(crate) fn visible(&mut self, height: usize, now: Duration) -> Vec<(RowPosition, Row)> {
        let (item, row) = match self.position {
            Position::End => self.last_page(height, now),
            Position::Top { item, row } => {
                // After a change above, or on a larger screen, the end may be reached.
                let last = self.last_page(height, now);
                let length = self.length(item, now).max(1);
                let wanted = (item, row.min(length - 1));
                if wanted >= last {
                    self.position = Position::End;
                    last
                } else {
                    wanted
                }
            }
        };
        let mut shown = Vec::with_capacity(height);
        let mut skip = row;
        for item in item..self.len() {
            let gap = self.gap(item);
            shown.extend((skip..gap).map(|row| (RowPosition { item, row }, Row::default())));
            let rows = self.rows(item, now).iter().enumerate().skip(skip.saturating_sub(gap)).take(height);
            shown.extend(rows.map(|(at, row)| (RowPosition { item, row: gap + at }, row.clone())));
            skip = 0;
            if shown.len() >= height {
                break;
            }
        }
        shown.truncate(height);
        shown
    }

    /// Returns the item at the top; `None` if the window is at the end.
    pub(super) fn top(&self) -> Option<usize> {
        match self.position {
            Position::End => None,
            Position::Top { item, .. } => Some(item),
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position == Position::End
    }

    /// Shows the end from now on.
    pub(crate) fn follow(&mut self) {
        self.position = Position::End;
    }

    /// Shows the beginning.
    pub(crate) fn rewind(&mut self) {
        self.position = Position::Top { item: 0, row: 0 };
    }

    /// Shows an item at the top.
    pub(super) fn show(&mut self, item: usize) {
        let row = self.gap(item);
        self.position = Position::Top { item, row };
    }

    /// Shows the last item from its beginning. The next frame shows the end if the window has room for all of it.
    pub(crate) fn show_last(&mut self) {
        self.show(self.len().saturating_sub(1));
    }

    /// Shows the beginning of the last item, if the window is at the end and too low for all of it.
    pub(crate) fn begin_last(&mut self, height: usize, now: Duration) {
        let last = self.len().saturating_sub(1);
        if self.is_at_end() && self.length(last, now) > height {
            self.show(last);
        }
    }

    /// Moves the window so that an item is in it.
    pub(crate) fn reveal(&mut self, item: usize, height: usize, now: Duration) {
        let shown: Vec<usize> = self.visible(height, now).into_iter().map(|(at, _)| at.item).collect();
        if !shown.contains(&item) {
            self.show(item);
        }
    }

    /// Moves the window by rows, negative ones up.
    pub(crate) fn scroll(&mut self, by: isize, height: usize, now: Duration) {
        let (mut item, mut row) = match self.position {
            Position::End if by >= 0 => return,
            Position::End => self.last_page(height, now),
            Position::Top { item, row } => (item, row),
        };
        if by < 0 {
            let mut left = by.unsigned_abs();
            while left > row && item > 0 {
                left -= row + 1;
                item -= 1;
                row = self.length(item, now).saturating_sub(1);
            }
            row = row.saturating_sub(left);
        } else {
            let mut left = by.unsigned_abs();
            while item < self.len() {
                let rest = self.length(item, now).saturating_sub(row);
                if left < rest {
                    break;
                }
                left -= rest;
                (item, row) = (item + 1, 0);
            }
            row += left;
        }
        self.position = if item >= self.len() { Position::End } else { Position::Top { item, row } };
        // Settles at the end if there is nothing more below.
        self.visible(height, now);
    }

    /// Returns the rows of an item with the empty ones above it.
    pub(super) fn length(&mut self, item: usize, now: Duration) -> usize {
        if item >= self.len() {
            return 0;
        }
        self.gap(item) + self.rows(item, now).len()
    }

    /// Returns the item and row at the top of a window at the end.
    fn last_page(&mut self, height: usize, now: Duration) -> (usize, usize) {
        let mut left = height;
        for item in (0..self.len()).rev() {
            let length = self.length(item, now);
            if length >= left {
                return (item, length - left);
            }
            left -= length;
        }
        (0, 0)
    }
}
