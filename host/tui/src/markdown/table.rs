//! Layout of tables: columns as wide as their cells, and narrower ones with wrapped cells where the screen is narrow.

use crate::rows::{Lead, Piece, Row, wrap};
use crate::theme::Theme;
use pulldown_cmark::Alignment;
use ratatui_core::style::Style;

/// Columns between two cells.
const BETWEEN: usize = 3;
/// Minimum columns of a cell; with fewer, rows become lists.
const NARROWEST: usize = 4;

/// A table whose cells arrive one after another.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Piece>>>,
    row: Vec<Vec<Piece>>,
    is_list: bool,
}

impl Table {
    /// `is_list` makes a list of each row.
    pub(super) fn new(alignments: Vec<Alignment>, is_list: bool) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new(), is_list }
    }

    pub(super) fn cell(&mut self, pieces: Vec<Piece>) {
        self.row.push(pieces);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// Appends the rows of the table. The first one is its heading.
    pub(super) fn rows(mut self, columns: usize, lead: &Lead, theme: &Theme, rows: &mut Vec<Row>) {
        let begin = lead.rest().to_vec();
        let room = columns.saturating_sub(Row::of(begin.clone()).width());
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let heading = if self.rows.is_empty() { Vec::new() } else { self.rows.remove(0) };
        match widths(&heading, &self.rows, count, room).filter(|_| !self.is_list) {
            Some(widths) => {
                self.line(&heading, &widths, &begin, theme.strong, rows);
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                rows.push(with(&begin, [Piece::new(&rule.join("─┼─"), theme.dim)]));
                self.rows.iter().for_each(|row| self.line(row, &widths, &begin, theme.text, rows));
            }
            None => self.list(&heading, columns, lead, theme, rows),
        }
    }

    /// Appends the rows of one line of cells.
    fn line(&self, cells: &[Vec<Piece>], widths: &[usize], begin: &[Piece], style: Style, rows: &mut Vec<Row>) {
        let wrapped: Vec<Vec<Row>> = widths
            .iter()
            .enumerate()
            .map(|(at, width)| {
                let mut rows = Vec::new();
                wrap(cells.get(at).map_or(&[][..], Vec::as_slice), *width, &Lead::default(), &mut rows);
                rows
            })
            .collect();
        for number in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
            let mut row = Row::of(begin.to_vec());
            for (at, width) in widths.iter().enumerate() {
                if at > 0 {
                    row.push(Piece::new(" │ ", Style::new()));
                }
                let cell = wrapped[at].get(number).cloned().unwrap_or_default().patched(style);
                let blanks = width.saturating_sub(cell.width());
                let before = match self.alignments.get(at) {
                    Some(Alignment::Right) => blanks,
                    Some(Alignment::Center) => blanks / 2,
                    _ => 0,
                };
                let blank = |count: usize| Piece::new(&" ".repeat(count), Style::new());
                row.push(blank(before));
                cell.pieces().iter().for_each(|piece| row.push(piece.clone()));
                if at + 1 < widths.len() {
                    row.push(blank(blanks - before));
                }
            }
            rows.push(row);
        }
    }

    /// Appends the table as a list, for a screen that is too narrow for its columns.
    fn list(&self, heading: &[Vec<Piece>], columns: usize, lead: &Lead, theme: &Theme, rows: &mut Vec<Row>) {
        for row in &self.rows {
            for (at, cell) in row.iter().enumerate() {
                let mut pieces = heading.get(at).cloned().unwrap_or_default();
                pieces.push(Piece::new(": ", theme.dim));
                pieces.extend(cell.iter().cloned());
                wrap(&pieces, columns, lead, rows);
            }
            rows.push(Row::default());
        }
        rows.pop();
    }
}

fn with(begin: &[Piece], pieces: impl IntoIterator<Item = Piece>) -> Row {
    Row::of(begin.iter().cloned().chain(pieces))
}

/// Returns the widths of the columns; `None` if there is no room for them.
fn widths(heading: &[Vec<Piece>], rows: &[Vec<Vec<Piece>>], count: usize, room: usize) -> Option<Vec<usize>> {
    let room = room.checked_sub(BETWEEN * count.saturating_sub(1))?;
    let mut widths: Vec<usize> = (0..count)
        .map(|at| {
            let cells = std::iter::once(heading).chain(rows.iter().map(Vec::as_slice)).filter_map(|row| row.get(at));
            cells.map(|cell| Row::of(cell.clone()).width()).max().unwrap_or(0).max(1)
        })
        .collect();
    if room < NARROWEST * count {
        return Some(widths).filter(|widths| widths.iter().sum::<usize>() <= room);
    }
    // The widest columns give way first.
    while widths.iter().sum::<usize>() > room {
        let excess = widths.iter().sum::<usize>() - room;
        let widest = widths.iter().copied().max()?;
        let second = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(NARROWEST);
        let share = widths.iter().filter(|width| **width == widest).count();
        let cut = (widest - second).min(excess.div_ceil(share)).max(1);
        widths.iter_mut().filter(|width| **width == widest).for_each(|width| *width = (*width - cut).max(1));
    }
    Some(widths)
}
