//! The search for words in the conversation.

use crate::rows::Row;
use crate::transcript::Transcript;
use crate::transcript::text_search::{DisplayForm, Needle};
use crate::transcript::window::Position;
use std::time::Duration;

/// Rows above a match that the window shows.
const ABOVE: usize = 2;

impl Transcript {
    /// Begins another search, from the place of the window.
    pub(crate) fn begin_search(&mut self) {
        self.found = None;
    }

    /// Begins another search, from the beginning of the conversation or from its end.
    pub(crate) fn search_from_edge(&mut self, is_down: bool) {
        self.found = None;
        self.is_at_edge = is_down;
        if !is_down {
            self.follow();
        }
    }

    /// Shows the next row above or below with these words, in any case. Folded blocks around it are unfolded.
    pub(crate) fn find(&mut self, query: &str, is_down: bool, now: Duration) -> bool {
        if query.is_empty() {
            return false;
        }
        let needle = Needle::new(query);
        let begin = self.found.map(|(item, _)| item).filter(|item| *item < self.len());
        let is_at_edge = std::mem::take(&mut self.is_at_edge);
        let top = begin.or_else(|| self.top()).unwrap_or(self.len());
        // The item of the last match may have another one.
        let items: Vec<usize> = match (is_down, begin) {
            (true, Some(item)) => (item..self.len()).collect(),
            (true, None) if is_at_edge => (0..self.len()).collect(),
            (true, None) => (top + 1..self.len()).collect(),
            (false, Some(item)) => (0..=item).rev().collect(),
            (false, None) => (0..top.min(self.len())).rev().collect(),
        };
        let found = items.into_iter().find_map(|item| {
            let after = self.found.filter(|(found, _)| *found == item).map(|(_, row)| row);
            self.row_with(&needle, item, after, is_down, now).map(|row| (item, row))
        });
        let Some((item, row)) = found else { return false };
        self.found = found;
        let row = self.gap(item) + row.saturating_sub(ABOVE);
        self.position = Position::Top { item, row };
        true
    }

    /// Returns the first row of an item with the text, or the last one; with `after`, beyond that row.
    fn row_with(
        &mut self,
        needle: &Needle,
        item: usize,
        after: Option<usize>,
        is_down: bool,
        now: Duration,
    ) -> Option<usize> {
        let is_unfolded = Some(needle.form_of(&self.entries[item].item)? == DisplayForm::Unfolded);
        if self.is_foldable(item) && self.entries[item].is_unfolded != is_unfolded {
            (self.entries[item].is_unfolded, self.entries[item].rows) = (is_unfolded, None);
        }
        let mut matches = begins(self.rows(item, now), needle.text());
        if matches.is_empty() {
            // The words are not shown.
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

/// Returns the rows where a text in small letters begins. It may continue in the rows below.
fn begins(rows: &[Row], text: &str) -> Vec<usize> {
    let (mut whole, mut starts) = (String::new(), Vec::new());
    for row in rows {
        let blanks = if starts.is_empty() { 0 } else { row.continues.unwrap_or(1) };
        whole.extend(std::iter::repeat_n(' ', blanks));
        starts.push(whole.len());
        whole.push_str(&row.text_in(&(row.lead..usize::MAX)).to_lowercase());
    }
    let row = |at: usize| starts.partition_point(|start| *start <= at).saturating_sub(1);
    let mut found: Vec<usize> = whole.match_indices(text).map(|(at, _)| row(at)).collect();
    found.dedup();
    found
}
