//! The model of the conversation: items, each with its rows in a cache, and the position of the screen in them.
//!
//! Only the visible part is rendered, and only so many items keep their rows, so that neither the time for a frame nor
//! the memory for rows depends on the length of the conversation.

mod copy;
mod events;
mod excerpt;
mod head;
mod items;
mod plan_rows;
mod region;
mod render;
mod result_rows;
mod scrollback_rows;
mod search;
mod segments;
mod text_search;
mod window;

pub use self::excerpt::Excerpt;
pub use self::items::Tone;
pub(crate) use self::items::{CallState, PlanPage, TranscriptItem};
pub(crate) use self::render::Look;
pub(crate) use self::render::{FRAME, spinner};
pub(crate) use self::segments::{TextSegment, item_of};
pub(crate) use self::window::RowPosition;

use crate::highlight::{HighlightJob, Highlighted, Highlights};
use crate::rows::Row;
use crate::theme::Theme;
use crate::transcript::events::{MAX_RESULTS, Runs};
use crate::transcript::region::Region;
use crate::transcript::scrollback_rows::Settled;
use crate::transcript::window::Position;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Maximum number of items that keep their rows.
const CACHED_ITEMS: usize = 1_000;

/// An item with its rows for the current [`Look`].
#[derive(Debug)]
struct TranscriptEntry {
    item: TranscriptItem,
    /// Number of the message that the item is a part of, if it is a part of the model's answer.
    message: usize,
    /// The user's choice to fold or unfold this item.
    is_unfolded: Option<bool>,
    rows: Option<Vec<Row>>,
    /// True if code in the rows is not highlighted yet.
    is_unlit: bool,
}

impl TranscriptEntry {
    fn new(item: TranscriptItem) -> Self {
        Self { item, message: 0, is_unfolded: None, rows: None, is_unlit: false }
    }
}

/// The conversation.
#[derive(Debug)]
pub(crate) struct Transcript {
    entries: Vec<TranscriptEntry>,
    look: Look,
    /// Items that keep their rows, oldest first.
    cached: VecDeque<usize>,
    /// The calls of the foreground run by id.
    calls: HashMap<String, usize>,
    /// First item of the message that the model is writing.
    writing: Option<usize>,
    /// Number of the message that the model is writing, or has written last.
    message: usize,
    runs: Runs,
    position: Position,
    /// The item that keys apply to.
    selected: Option<usize>,
    settled: Settled,
    /// Bytes of all results, and the index of the first item that may be long.
    results: usize,
    /// Bytes of all results, beyond which the oldest ones keep their beginning.
    max_results: usize,
    shortened: usize,
    /// Item and row of the match that the search shows.
    found: Option<(usize, usize)>,
    /// The next search downwards includes the first item.
    is_at_edge: bool,
    /// The text that the mouse has marked.
    region: Option<Region>,
}

impl Transcript {
    pub(crate) fn new(theme: Theme) -> Self {
        Self {
            entries: Vec::new(),
            look: Look {
                has_sides: false,
                theme,
                columns: 80,
                has_thinking: false,
                is_unfolded: false,
                has_ledgers: false,
                has_grants: true,
                highlights: Highlights::default(),
            },
            cached: VecDeque::new(),
            calls: HashMap::new(),
            writing: None,
            message: 0,
            runs: Runs::default(),
            position: Position::End,
            selected: None,
            settled: Settled::default(),
            results: 0,
            max_results: MAX_RESULTS,
            shortened: 0,
            found: None,
            is_at_edge: false,
            region: None,
        }
    }

    /// Creates a transcript whose results have at most so many bytes.
    pub(crate) fn within(theme: Theme, max_results: usize) -> Self {
        Self { max_results, ..Self::new(theme) }
    }

    /// Exchanges the content with another transcript's, which gets this one's look.
    pub(crate) fn exchange(&mut self, other: &mut Self) {
        other.set_look(|look| look.clone_from(&self.look));
        std::mem::swap(self, other);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the way items are rendered.
    pub(crate) fn look(&self) -> &Look {
        &self.look
    }

    /// Changes the look. All rows are rendered again when they are next shown.
    pub(crate) fn set_look(&mut self, change: impl FnOnce(&mut Look)) {
        let before = self.look.clone();
        change(&mut self.look);
        if !self.look.is_same(&before) {
            self.region = None;
            for at in std::mem::take(&mut self.cached) {
                self.entries.get_mut(at).into_iter().for_each(|entry| entry.rows = None);
            }
        }
    }

    pub(crate) fn push(&mut self, item: TranscriptItem) {
        self.entries.push(TranscriptEntry { message: self.message, ..TranscriptEntry::new(item) });
    }

    /// Adds a line of the host.
    pub(crate) fn note(&mut self, tone: Tone, text: impl Into<String>) {
        self.push(TranscriptItem::Note(tone, text.into()));
    }

    /// Removes everything, for another session.
    pub(crate) fn clear(&mut self) {
        let (look, settled) = (self.look.clone(), self.settled.cleared());
        *self = Self { look, settled, ..Self::new(self.look.theme.clone()) };
    }

    /// Returns an item for a change.
    fn change(&mut self, at: usize) -> Option<&mut TranscriptItem> {
        let entry = self.entries.get_mut(at)?;
        entry.rows = None;
        Some(&mut entry.item)
    }

    /// Returns the rows of an item, without the empty row above it.
    pub(crate) fn rows(&mut self, at: usize, now: Duration) -> &[Row] {
        let Some(entry) = self.entries.get_mut(at) else { return &[] };
        let is_moving = matches!(&entry.item, TranscriptItem::Call(call) if call.state == CallState::Running);
        if entry.rows.is_none() || is_moving {
            if entry.rows.is_none() {
                self.cached.push_back(at);
            }
            let is_own = matches!(&entry.item, TranscriptItem::Call(call) if call.is_own && call.is_over());
            let is_unfolded = entry.is_unfolded.unwrap_or(self.look.is_unfolded || is_own);
            let missed = self.look.highlights.missed();
            let mut rows = render::rows(&entry.item, is_unfolded, &self.look, now);
            rows.iter_mut().for_each(|row| row.lead = row.lead.max(render::MARKS));
            entry.rows = Some(rows);
            entry.is_unlit = self.look.highlights.missed() > missed;
            self.trim();
        }
        self.entries[at].rows.as_deref().unwrap_or_default()
    }

    /// Returns the next code to highlight, unless some is under way.
    pub(crate) fn unlit(&self) -> Option<HighlightJob> {
        self.look.highlights.next()
    }

    /// Adds highlighted code. Items that lacked it are rendered again when they are shown.
    pub(crate) fn highlighted(&mut self, block: Highlighted) {
        self.look.highlights.add(block);
        let entries = &mut self.entries;
        self.cached.retain(|at| {
            let unlit = entries.get_mut(*at).filter(|entry| entry.is_unlit);
            let is_unlit = unlit.is_some();
            unlit.into_iter().for_each(|entry| entry.rows = None);
            !is_unlit
        });
    }

    fn trim(&mut self) {
        while self.cached.len() > CACHED_ITEMS {
            let oldest = self.cached.pop_front().and_then(|at| self.entries.get_mut(at));
            oldest.into_iter().for_each(|entry| entry.rows = None);
        }
    }

    /// Returns the number of empty rows above an item.
    pub(crate) fn gap(&self, at: usize) -> usize {
        let Some(before) = at.checked_sub(1).and_then(|at| self.entries.get(at)) else { return 0 };
        match (&before.item, &self.entries[at].item) {
            (TranscriptItem::Text(_), TranscriptItem::Text(segment)) if segment.continues() => 0,
            (
                TranscriptItem::Call(_) | TranscriptItem::Agent(_),
                TranscriptItem::Call(_) | TranscriptItem::Agent(_),
            ) => 0,
            (
                TranscriptItem::Note(..) | TranscriptItem::Folded(_),
                TranscriptItem::Note(..) | TranscriptItem::Folded(_),
            ) => 0,
            _ => 1,
        }
    }

    /// Selects the item before or after the selected one among those that can be unfolded.
    pub(crate) fn select(&mut self, is_down: bool, height: usize, now: Duration) {
        let is_foldable = |at: &usize| self.is_foldable(*at);
        let from = self.selected;
        self.selected = match is_down {
            true => (from.map_or(0, |at| at + 1)..self.len()).find(is_foldable).or(from),
            false => (0..from.unwrap_or(self.len())).rev().find(is_foldable).or(from),
        };
        if let Some(at) = self.selected {
            self.reveal(at, height, now);
        }
    }

    /// Returns whether an item can be folded and unfolded.
    pub(crate) fn is_foldable(&self, at: usize) -> bool {
        match self.entries.get(at).map(|entry| &entry.item) {
            Some(
                TranscriptItem::Call(_)
                | TranscriptItem::Agent(_)
                | TranscriptItem::Thinking(_)
                | TranscriptItem::Folded(_),
            ) => true,
            Some(TranscriptItem::User(text)) => render::is_long(text),
            _ => false,
        }
    }

    pub(crate) fn unselect(&mut self) -> bool {
        self.selected.take().is_some()
    }

    pub(crate) fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Folds or unfolds the selected item.
    pub(crate) fn toggle(&mut self) {
        if let Some(at) = self.selected {
            self.toggle_at(at);
        }
    }

    /// Folds or unfolds an item.
    pub(crate) fn toggle_at(&mut self, at: usize) {
        if let Some(entry) = self.entries.get_mut(at) {
            let default = self.look.is_unfolded || matches!(&entry.item, TranscriptItem::Call(call) if call.is_own);
            entry.is_unfolded = Some(!entry.is_unfolded.unwrap_or(default));
            (entry.rows, self.region) = (None, None);
        }
    }

    /// Lets all items be folded or unfolded together again.
    pub(crate) fn forget_folds(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.is_unfolded = None);
    }

    /// Shows the user's message before or after the top of the window.
    pub(crate) fn jump(&mut self, is_down: bool) {
        let top = self.top().unwrap_or(self.len());
        let is_prompt = |at: &usize| matches!(self.entries[*at].item, TranscriptItem::User(_));
        match is_down {
            true => match (top + 1..self.len()).find(is_prompt) {
                Some(at) => self.show(at),
                None => self.follow(),
            },
            false => {
                let found = (0..top.min(self.len())).rev().find(is_prompt);
                found.into_iter().for_each(|at| self.show(at));
            }
        }
    }
}
