//! The bytes that turn the shown frame of a terminal into the next one.
//!
//! Every frame is one synchronized update (DEC private mode 2026) that contains only the changes. Rows that moved are
//! scrolled by the terminal, so that a growing answer costs little more than its own bytes. Nothing here touches rows
//! that the terminal has scrolled away.

use crate::cell_writer::Pen;
use crate::links::Links;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Maximum scrolling of a region in one frame, in rows.
const MAX_SCROLL: usize = 40;

/// The cells that a terminal shows.
#[derive(Debug)]
pub struct Screen {
    front: Buffer,
    cursor: Option<(u16, u16)>,
    /// True while the content of the terminal is unknown.
    is_unknown: bool,
    pen: Pen,
}

impl Screen {
    /// Creates a screen of unknown content.
    pub fn new(columns: u16, rows: u16) -> Self {
        let front = Buffer::empty(Rect::new(0, 0, columns, rows));
        Self { front, cursor: None, is_unknown: true, pen: Pen::default() }
    }

    /// Writes no links, for a terminal that would show their sequences.
    pub fn without_links(mut self) -> Self {
        self.pen.has_links = false;
        self
    }

    /// Makes the next frame draw everything.
    pub fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// Returns the bytes that make the terminal show `next` and the cursor; empty if it does already.
    pub fn draw(&mut self, next: &Buffer, links: &Links, cursor: Option<(u16, u16)>) -> &[u8] {
        self.is_unknown |= self.front.area() != next.area();
        if !self.is_unknown && self.front == *next && self.cursor == cursor {
            return &[];
        }
        self.pen.begin();
        if self.is_unknown {
            self.front = Buffer::empty(*next.area());
            self.pen.write_bytes("\x1b[?25l\x1b[0m\x1b[2J");
            self.cursor = None;
        }
        self.scroll(next);
        let columns = usize::from(next.area().width);
        let rows = self.front.content.chunks(columns.max(1)).zip(next.content.chunks(columns.max(1)));
        for (y, (old, new)) in rows.enumerate() {
            self.pen.row(old, new, links, |pen, x| move_cursor(pen, x, y));
        }
        self.pen.end_text();
        self.place_cursor(cursor);
        self.front.clone_from(next);
        self.is_unknown = false;
        self.pen.end()
    }

    fn place_cursor(&mut self, cursor: Option<(u16, u16)>) {
        let was_shown = self.cursor.is_some();
        match cursor {
            Some((x, y)) => {
                move_cursor(&mut self.pen, x.into(), y.into());
                if !was_shown {
                    self.pen.write_bytes("\x1b[?25h");
                }
            }
            None if was_shown => self.pen.write_bytes("\x1b[?25l"),
            None => {}
        }
        self.cursor = cursor;
    }

    /// Lets the terminal move rows that the next frame shows elsewhere.
    fn scroll(&mut self, next: &Buffer) {
        let Some(Moved { first, bottom, by }) = moved(&self.front, next) else { return };
        self.pen.write_bytes(format!("\x1b[{};{bottom}r\x1b[{by}S\x1b[r", first + 1));
        let columns = usize::from(self.front.area().width);
        self.front.content[first * columns..bottom * columns].rotate_left(by * columns);
        self.front.content[(bottom - by) * columns..bottom * columns].iter_mut().for_each(Cell::reset);
    }
}

/// Moves to a cell, counted from 0.
fn move_cursor(pen: &mut Pen, x: usize, y: usize) {
    pen.write_bytes(format!("\x1b[{};{}H", y + 1, x + 1));
}

/// Rows that the next frame shows further up: those below the rows `first..first + by`, which vanish, and above the row
/// `bottom`.
pub(crate) struct Moved {
    pub(crate) first: usize,
    pub(crate) bottom: usize,
    pub(crate) by: usize,
}

/// Finds rows that moved up between two frames of the same size.
pub(crate) fn moved(old: &Buffer, new: &Buffer) -> Option<Moved> {
    let (old, new) = (hashes(old), hashes(new));
    let first = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let last = old.len() - old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let height = last.checked_sub(first).filter(|height| *height > 2)?;
    // The end of the region may stay, such as a line that only changes its text.
    let moved = |by: usize| (first..last - by).take_while(|y| new[*y] == old[*y + by]).count();
    let (by, count) = (1..height.min(MAX_SCROLL)).map(|by| (by, moved(by))).max_by_key(|(_, count)| *count)?;
    let stayed = (first..last).filter(|y| old[*y] == new[*y]).count();
    (count >= 3 && count > stayed).then_some(Moved { first, bottom: first + count + by, by })
}

/// Returns a hash of each row.
pub(crate) fn hashes(buffer: &Buffer) -> Vec<u64> {
    let columns = usize::from(buffer.area().width).max(1);
    let hash = |row: &[Cell]| {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        hasher.finish()
    };
    buffer.content.chunks(columns).map(hash).collect()
}
