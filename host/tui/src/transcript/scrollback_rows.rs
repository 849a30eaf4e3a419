//! The rows that the inline form has given to the terminal's scrollback.

use crate::rows::{Row, StyledPiece};
use crate::transcript::{Transcript, TranscriptItem};
use std::time::Duration;

/// Items of an earlier conversation that are shown when it is continued.
const HISTORY_ITEMS: usize = 1_000;

/// The end of the rows that were given away.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settled {
    item: usize,
    /// Rows of this item that were given away, with the empty one above it.
    row: usize,
    /// The first item that waits until its code is highlighted.
    lit_from: usize,
    /// True if another conversation is above.
    is_below: bool,
    /// Number of items that are left out, until the row that says so.
    skipped: Option<usize>,
}

impl Settled {
    /// Returns the state after all items were removed.
    pub(super) fn cleared(self) -> Self {
        Self { is_below: self.is_below || self.item > 0, ..Self::default() }
    }

    /// Follows the removal of an item.
    pub(super) fn remove(&mut self, at: usize) {
        match at < self.item {
            true => self.item -= 1,
            false if at == self.item => self.row = 0,
            false => {}
        }
    }
}

impl Transcript {
    /// Leaves out the beginning of an earlier conversation; of one that continues another on the screen, everything before
    /// the last message of the user.
    pub(crate) fn settle_history(&mut self) {
        let from = match self.settled.is_below {
            true => self
                .entries
                .iter()
                .rposition(|entry| matches!(entry.item, TranscriptItem::User(_)))
                .unwrap_or(self.len()),
            false => self.len().saturating_sub(HISTORY_ITEMS),
        };
        let skipped = (from > 0).then_some(from);
        self.settled = Settled { item: from, lit_from: self.len(), skipped, ..self.settled };
    }

    /// Returns the next rows that will not change any more, at most `most`, and whether there are more.
    pub(crate) fn settle(&mut self, most: usize, now: Duration) -> (Vec<Row>, bool) {
        let mut rows = Vec::new();
        if let Some(skipped) = self.settled.skipped.take() {
            let text = format!("… {skipped} earlier blocks; scroll up with the keyboard to read them");
            rows.push(Row::from_pieces([StyledPiece::line(&text, self.look.columns, self.look.theme.dim)]));
        }
        while self.settled.item < self.len() && self.is_final(self.settled.item) {
            let at = self.settled.item;
            let rest = self.unsettled_rows(at, now);
            let waits = at >= self.settled.lit_from && self.entries[at].is_unlit;
            if waits && !self.look.highlights.is_idle() {
                break;
            }
            let room = most.saturating_sub(rows.len());
            if rest.len() > room {
                self.settled.row += room;
                rows.extend(rest.into_iter().take(room));
                return (rows, true);
            }
            rows.extend(rest);
            (self.settled.item, self.settled.row) = (at + 1, 0);
        }
        (rows, false)
    }

    /// Returns the last of the rows that were not given away, at most `most`.
    pub(crate) fn unsettled(&mut self, most: usize, now: Duration) -> Vec<Row> {
        let mut parts = Vec::new();
        let mut left = most;
        for at in (self.settled.item..self.len()).rev() {
            let mut rows = self.unsettled_rows(at, now);
            rows.drain(..rows.len().saturating_sub(left));
            left -= rows.len();
            parts.push(rows);
            if left == 0 {
                break;
            }
        }
        parts.into_iter().rev().flatten().collect()
    }

    /// Returns the rows of an item that were not given away, with the empty one above it.
    fn unsettled_rows(&mut self, at: usize, now: Duration) -> Vec<Row> {
        let gap = if at == 0 { usize::from(self.settled.is_below) } else { self.gap(at) };
        let skip = if at == self.settled.item { self.settled.row } else { 0 };
        let gaps = std::iter::repeat_n(Row::default(), gap);
        gaps.chain(self.rows(at, now).iter().cloned()).skip(skip).collect()
    }

    /// Returns whether an item cannot change any more, except in the way it is rendered.
    fn is_final(&self, at: usize) -> bool {
        if self.runs.waits_for_prompt(at) {
            return false;
        }
        match &self.entries[at].item {
            TranscriptItem::User(_)
            | TranscriptItem::Folded(_)
            | TranscriptItem::Page(_)
            | TranscriptItem::Plan(_)
            | TranscriptItem::Note(..) => true,
            TranscriptItem::Thinking(thinking) => thinking.is_done || !self.is_written(at),
            TranscriptItem::Text(_) => !self.is_written(at),
            TranscriptItem::Call(call) => call.is_over() || !self.calls.values().any(|call| *call == at),
            // One of the branches will be kept.
            TranscriptItem::Agent(agent) => {
                agent.end.is_some() && !agent.is_branch || !self.runs.items().any(|run| run == at)
            }
        }
    }

    /// Returns whether the model may append to an item.
    fn is_written(&self, at: usize) -> bool {
        let is_last = || {
            self.entries[at + 1..]
                .iter()
                .all(|entry| !matches!(entry.item, TranscriptItem::Text(_) | TranscriptItem::Thinking(_)))
        };
        self.writing.is_some_and(|from| at >= from) && is_last()
    }
}
