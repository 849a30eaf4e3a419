//! The bytes of the inline form: rows that are final go to the terminal's own scrollback, the rest is drawn below them.
//!
//! The part that changes is called the live region. It ends the output and its place is known only relative to the
//! cursor, so that nothing depends on where a program before this one, or a new size, has left the cursor. A row that has
//! become final is not written again if the live region shows it: the region begins below it from then on.

use crate::cell_writer::{Pen, used};
use crate::links::Links;
use crate::screen::{Moved, moved};
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use std::cmp::Ordering;

/// The next output of the inline form.
#[derive(Debug)]
pub struct InlineFrame {
    /// Rows that have become final.
    pub settled: Buffer,
    /// Rows that begin with a mark, counted from the first settled one, with its sequence.
    pub marks: Vec<(usize, &'static str)>,
    /// The rows below them, at most as many as the terminal has.
    pub live: Buffer,
    /// Place of the cursor among them; `None` hides it.
    pub cursor: Option<(u16, u16)>,
    /// More rows are final.
    pub has_more: bool,
}

/// The live region on a terminal.
#[derive(Debug)]
pub struct Inline {
    front: Buffer,
    /// The row of the region with the terminal's cursor.
    y: usize,
    /// The place of the cursor in the region while it is shown.
    cursor: Option<(u16, u16)>,
    /// True while the content of the region is unknown.
    is_unknown: bool,
    /// True if the terminal wraps its rows again when its width changes.
    wraps_again: bool,
    /// True if the terminal may have got another width before it got the last frame.
    is_late: bool,
    has_marks: bool,
    pen: Pen,
}

impl Inline {
    /// Creates a region that begins in the row of the cursor, which has to be in the first column. `wraps_again` says that the
    /// terminal wraps its rows again when its width changes, as most do.
    pub fn new(wraps_again: bool) -> Self {
        let front = Buffer::empty(Rect::ZERO);
        Self {
            front,
            y: 0,
            cursor: None,
            is_unknown: true,
            wraps_again,
            is_late: false,
            has_marks: false,
            pen: Pen::default(),
        }
    }

    /// Marks the messages of the user, so that the terminal jumps between them.
    pub fn with_marks(mut self) -> Self {
        self.has_marks = true;
        self
    }

    /// Writes no links, for a terminal that would show their sequences.
    pub fn without_links(mut self) -> Self {
        self.pen.has_links = false;
        self
    }

    /// Makes the next frame draw everything in the region.
    pub fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// Notes that the terminal may have had its new size already when it got the last frame, which it then has not wrapped again.
    pub fn was_late(&mut self) {
        self.is_late = true;
    }

    /// Returns the number of rows of the region below the cursor.
    pub fn rows_below(&self) -> usize {
        self.height().saturating_sub(self.y + 1)
    }

    /// Returns the bytes that show the frame on a terminal of this many rows; empty if it is there already.
    pub fn draw(&mut self, next: &InlineFrame, links: &Links, rows: u16) -> &[u8] {
        let InlineFrame { settled, live, cursor, .. } = next;
        let marks = if self.has_marks { next.marks.as_slice() } else { &[] };
        let is_same = settled.area().height == 0 && self.front == *live && self.cursor == *cursor;
        if !self.is_unknown && is_same {
            return &[];
        }
        self.pen.begin();
        let is_resized = self.front.area().width != live.area().width || self.height() > rows.into();
        let total = settled.area().height + live.area().height;
        match is_resized || self.is_unknown || total > rows {
            true => {
                self.write(settled, live, marks, links, rows);
                self.pen.end_text();
            }
            false => {
                self.change(&joined(settled, live), links);
                self.pen.end_text();
                for (row, mark) in marks {
                    move_cursor(&mut self.pen, &mut self.y, 0, *row);
                    self.pen.write_bytes(mark);
                }
            }
        }
        let settled = usize::from(settled.area().height);
        if self.y < settled {
            move_cursor(&mut self.pen, &mut self.y, 0, settled);
        }
        self.y -= settled;
        self.front.clone_from(live);
        self.place_cursor(*cursor);
        (self.is_unknown, self.is_late) = (false, false);
        self.pen.end()
    }

    /// Returns the bytes that clear the region and leave the cursor at its beginning, where the next region begins.
    pub fn clear(&mut self) -> &[u8] {
        self.pen.begin();
        self.pen.write_bytes("\x1b[m");
        let height = self.height().max(1);
        move_cursor(&mut self.pen, &mut self.y, 0, height - 1);
        for row in 0..height {
            self.pen.write_bytes(if row == 0 { "\r\x1b[2K" } else { "\x1b[A\x1b[2K" });
        }
        if self.cursor.is_none() {
            self.pen.write_bytes("\x1b[?25h");
        }
        self.begin();
        self.pen.end()
    }

    /// Lets the region begin in the row of the cursor, which has to be in the first column.
    pub fn begin(&mut self) {
        let (pen, has_marks) = (std::mem::take(&mut self.pen), self.has_marks);
        *self = Self { pen, has_marks, ..Self::new(self.wraps_again) };
    }

    fn height(&self) -> usize {
        self.front.area().height.into()
    }

    fn place_cursor(&mut self, cursor: Option<(u16, u16)>) {
        let was_shown = self.cursor.is_some();
        match cursor {
            Some((x, y)) => {
                move_cursor(&mut self.pen, &mut self.y, x.into(), y.into());
                if !was_shown {
                    self.pen.write_bytes("\x1b[?25h");
                }
            }
            None => self.pen.write_bytes("\x1b[?25l"),
        }
        self.cursor = cursor;
    }

    /// Writes all rows from the beginning of the region. The overflow goes to the scrollback.
    fn write(&mut self, settled: &Buffer, live: &Buffer, marks: &[(usize, &'static str)], links: &Links, rows: u16) {
        let (columns, total) = (live.area().width, settled.area().height + live.area().height);
        let up = self.rows_above(columns);
        if up > 0 {
            self.pen.write_bytes(format!("\x1b[{up}A"));
        }
        // Everything is cleared from the second row: some terminals keep a screen that is cleared at once.
        let (clear_first, clear_others) = match self.wraps_again && total > 1 {
            // A row that continued the one above when the terminal wrapped it does so in Zellij until it is removed, and both
            // are joined at the next new width. So all rows are new ones.
            true => ("\x1b[L", format!("\x1b[{rows}M")),
            false => ("\x1b[K", "\x1b[J".to_owned()),
        };
        self.pen.write_bytes("\r\x1b[m");
        self.pen.write_bytes(clear_first);
        for (at, row) in rows_of(settled).chain(rows_of(live)).enumerate() {
            if at > 0 {
                self.pen.end_text();
                self.pen.write_bytes("\r\n");
            }
            if at == 1 {
                self.pen.write_bytes(&clear_others);
            }
            for (_, mark) in marks.iter().filter(|(row, _)| *row == at) {
                self.pen.write_bytes(mark);
            }
            self.pen.cells(&row[..used(row)], links, 0);
        }
        self.y = usize::from(total).saturating_sub(1);
    }

    /// Returns the number of rows between the beginning of the region and the cursor on a terminal of this width.
    fn rows_above(&self, columns: u16) -> usize {
        let (old, new) = (usize::from(self.front.area().width), usize::from(columns).max(1));
        // Rather too few, which leaves old rows where they are, than too many, which would overwrite the conversation.
        if !self.wraps_again || self.is_late || new >= old {
            return self.y;
        }
        let above: usize = rows_of(&self.front).take(self.y).map(|row| used(row).div_ceil(new).max(1)).sum();
        above + self.cursor.map_or(0, |(x, _)| usize::from(x) / new)
    }

    /// Changes the region to rows of the same width.
    fn change(&mut self, next: &Buffer, links: &Links) {
        self.resize(next);
        if let Some(Moved { first, bottom, by }) = moved(&self.front, next) {
            // Rows below the part that moves come back to their places.
            move_cursor(&mut self.pen, &mut self.y, 0, first);
            self.pen.write_bytes(format!("\x1b[{by}M"));
            if bottom < self.height() {
                move_cursor(&mut self.pen, &mut self.y, 0, bottom - by);
                self.pen.write_bytes(format!("\x1b[{by}L"));
            }
            let columns = usize::from(self.front.area().width);
            self.front.content[first * columns..bottom * columns].rotate_left(by * columns);
            self.front.content[(bottom - by) * columns..bottom * columns].iter_mut().for_each(Cell::reset);
        }
        for (y, (old, new)) in rows_of(&self.front).zip(rows_of(next)).enumerate() {
            self.pen.row(old, new, links, |pen, x| move_cursor(pen, &mut self.y, x, y));
        }
    }

    /// Gives the region as many rows as the next frame has, at the end that keeps most of its content in place on the
    /// screen.
    fn resize(&mut self, next: &Buffer) {
        let (old, new) = (self.height(), usize::from(next.area().height));
        let first = rows_of(&self.front).zip(rows_of(next)).take_while(|(a, b)| a == b).count();
        let columns = usize::from(next.area().width);
        let stay = |skip_old: usize, skip_new: usize| {
            let pairs = rows_of(&self.front).skip(first + skip_old).zip(rows_of(next).skip(first + skip_new));
            pairs.filter(|(a, b)| a == b).count()
        };
        if new > old {
            let by = new - old;
            let shifts = stay(0, by) > stay(0, 0);
            move_cursor(&mut self.pen, &mut self.y, 0, old.max(1) - 1);
            self.pen.write_bytes("\r\n".repeat(new - old.max(1)));
            self.y = new - 1;
            if shifts {
                move_cursor(&mut self.pen, &mut self.y, 0, first);
                self.pen.write_bytes(format!("\x1b[{by}L"));
            }
            let at = if shifts { first } else { old };
            self.front.content.splice(at * columns..at * columns, vec![Cell::default(); by * columns]);
        } else if new < old {
            let by = old - new;
            let shifts = stay(by, 0) > stay(0, 0);
            let at = if shifts { first } else { new };
            move_cursor(&mut self.pen, &mut self.y, 0, at);
            self.pen.write_bytes(format!("\x1b[{by}M"));
            self.front.content.drain(at * columns..(at + by) * columns);
        }
        self.front.area = *next.area();
    }
}

/// Moves from the row `at` of the region to a cell.
fn move_cursor(pen: &mut Pen, at: &mut usize, x: usize, y: usize) {
    match y.cmp(at) {
        Ordering::Less => pen.write_bytes(format!("\x1b[{}A", *at - y)),
        Ordering::Greater => pen.write_bytes(format!("\x1b[{}B", y - *at)),
        Ordering::Equal => {}
    }
    pen.write_bytes(if x == 0 { "\r".to_owned() } else { format!("\x1b[{}G", x + 1) });
    *at = y;
}

/// Returns the rows of a buffer.
fn rows_of(buffer: &Buffer) -> std::slice::Chunks<'_, Cell> {
    buffer.content.chunks(usize::from(buffer.area().width).max(1))
}

/// Returns a buffer with the rows of both, which have the same width.
fn joined(above: &Buffer, below: &Buffer) -> Buffer {
    let area = Rect { height: above.area().height + below.area().height, ..*below.area() };
    Buffer { area, content: above.content.iter().chain(&below.content).cloned().collect() }
}
