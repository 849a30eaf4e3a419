//! The search for words in the conversation.

use crate::transcript::Transcript;
use crate::transcript::window::Position;
use std::time::Duration;

/// Rows above a match that the window shows.
const ABOVE: usize = 2;

impl Transcript {
    /// Begins another search, from the place of the window.
    pub(crate) fn begin_search(&mut self) {
        self.found = None;
    }

    /// Shows the next row above or below with these words, in any case. What is folded around it is unfolded.
    pub(crate) fn find(&mut self, query: &str, is_down: bool, now: Duration) -> bool {
        let query = query.to_lowercase();
        if query.is_empty() {
            return false;
        }
        let begin = self.found.map(|(item, _)| item).filter(|item| *item < self.len());
        let top = begin.or_else(|| self.top()).unwrap_or(self.len());
        // The item of the last match may have another one.
        let items: Vec<usize> = match (is_down, begin) {
            (true, Some(item)) => (item..self.len()).collect(),
            (true, None) => (top + 1..self.len()).collect(),
            (false, Some(item)) => (0..=item).rev().collect(),
            (false, None) => (0..top.min(self.len())).rev().collect(),
        };
        let found = items.into_iter().find_map(|item| {
            let after = self.found.filter(|(found, _)| *found == item).map(|(_, row)| row);
            self.row_with(&query, item, after, is_down, now).map(|row| (item, row))
        });
        let Some((item, row)) = found else { return false };
        self.found = found;
        let row = self.gap(item) + row.saturating_sub(ABOVE);
        self.position = Position::Top { item, row };
        true
    }

    /// Returns the first row of an item with the query, or the last one; with `after`, beyond that row.
    fn row_with(
        &mut self,
        query: &str,
        item: usize,
        after: Option<usize>,
        is_down: bool,
        now: Duration,
    ) -> Option<usize> {
        if !self.entries[item].item.haystack().to_lowercase().contains(query) {
            return None;
        }
        if self.is_foldable(item) && self.entries[item].is_unfolded != Some(true) {
            (self.entries[item].is_unfolded, self.entries[item].rows) = (Some(true), None);
        }
        let rows = self.rows(item, now).iter().enumerate();
        let mut matches: Vec<usize> = rows.filter(|(_, row)| !row.places(query).is_empty()).map(|(at, _)| at).collect();
        if matches.is_empty() {
            // The words are parted by the end of a row, or are not shown.
            matches.push(0);
        }
        let mut matches = matches.into_iter().filter(|at| match (after, is_down) {
            (Some(after), true) => *at > after,
            (Some(after), false) => *at < after,
            (None, _) => true,
        });
        if is_down { matches.next() } else { matches.next_back() }
    }
}
