//! Layout of tables: columns as wide as their cells, and narrower ones with wrapped cells where the screen is narrow.

use crate::rows::{Copied, Lead, Row, StyledPiece, wrap};
use crate::theme::Theme;
use pulldown_cmark::Alignment;
use ratatui_core::style::Style;
use std::ops::Range;
use std::sync::Arc;

/// Columns between two cells.
const BETWEEN: usize = 3;
/// Minimum columns of a cell; with fewer, rows become lists.
const NARROWEST: usize = 4;

/// A table whose cells arrive one after another.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<StyledPiece>>>,
    row: Vec<Vec<StyledPiece>>,
    is_list: bool,
}

impl Table {
    /// `is_list` makes a list of each row.
    pub(super) fn new(alignments: Vec<Alignment>, is_list: bool) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new(), is_list }
    }

    pub(super) fn cell(&mut self, pieces: Vec<StyledPiece>) {
        self.row.push(pieces);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// Appends the rows of the table. The first one is its heading.
    pub(super) fn rows(mut self, columns: usize, lead: &Lead, theme: &Theme, rows: &mut Vec<Row>) {
        let begin = lead.continuation_prefix().to_vec();
        let room = columns.saturating_sub(Row::from_pieces(begin.clone()).width());
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let heading = if self.rows.is_empty() { Vec::new() } else { self.rows.remove(0) };
        match widths(&heading, &self.rows, count, room).filter(|_| !self.is_list) {
            Some(widths) => {
                let grid = Grid::new(&self.alignments, widths, begin);
                grid.line(&heading, theme.strong, rows);
                grid.rule(theme.dim, rows);
                self.rows.iter().for_each(|row| grid.line(row, theme.text, rows));
            }
            None => self.list(&heading, columns, lead, theme, rows),
        }
    }

    /// Appends the table as a list, for a screen that is too narrow for its columns.
    fn list(&self, heading: &[Vec<StyledPiece>], columns: usize, lead: &Lead, theme: &Theme, rows: &mut Vec<Row>) {
        for row in &self.rows {
            for (at, cell) in row.iter().enumerate() {
                let mut pieces = heading.get(at).cloned().unwrap_or_default();
                pieces.push(StyledPiece::new(": ", theme.dim));
                pieces.extend(cell.iter().cloned());
                wrap(&pieces, columns, lead, rows);
            }
            rows.push(Row::default());
        }
        rows.pop();
    }
}

/// The columns of a table.
struct Grid<'a> {
    alignments: &'a [Alignment],
    widths: Vec<usize>,
    /// The beginning of each row.
    begin: Vec<StyledPiece>,
    /// The columns of each cell.
    cells: Arc<[Range<usize>]>,
}

impl<'a> Grid<'a> {
    fn new(alignments: &'a [Alignment], widths: Vec<usize>, begin: Vec<StyledPiece>) -> Self {
        let mut next = Row::from_pieces(begin.clone()).width();
        let cell = |width: &usize| {
            let from = next;
            next += width + BETWEEN;
            from..from + width
        };
        let cells = widths.iter().map(cell).collect();
        Self { alignments, widths, begin, cells }
    }

    fn rule(&self, style: Style, rows: &mut Vec<Row>) {
        let rule: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
        let mut row = Row::bordered(&self.begin, Copied { line: "".into(), cells: Arc::default() });
        row.push(StyledPiece::new(&rule.join("─┼─"), style));
        rows.push(row);
    }

    /// Appends the rows of one line of cells.
    fn line(&self, cells: &[Vec<StyledPiece>], style: Style, rows: &mut Vec<Row>) {
        let cell = |at: usize| cells.get(at).map_or(&[][..], Vec::as_slice);
        let wrapped = |(at, width): (usize, &usize)| {
            let mut rows = Vec::new();
            wrap(cell(at), *width, &Lead::default(), &mut rows);
            rows
        };
        let wrapped: Vec<Vec<Row>> = self.widths.iter().enumerate().map(wrapped).collect();
        let text = |at: usize| cell(at).iter().map(StyledPiece::text).collect::<String>().replace(['\t', '\n'], " ");
        let texts: Vec<String> = (0..self.widths.len()).map(text).collect();
        let copied = Copied { line: texts.join("\t").into(), cells: self.cells.clone() };
        for number in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
            let mut row = Row::bordered(&self.begin, copied.clone());
            for (at, width) in self.widths.iter().enumerate() {
                if at > 0 {
                    row.push(StyledPiece::new(" │ ", Style::new()));
                }
                let cell = wrapped[at].get(number).cloned().unwrap_or_default().patched(style);
                let blanks = width.saturating_sub(cell.width());
                let before = match self.alignments.get(at) {
                    Some(Alignment::Right) => blanks,
                    Some(Alignment::Center) => blanks / 2,
                    _ => 0,
                };
                let blank = |count: usize| StyledPiece::new(&" ".repeat(count), Style::new());
                row.push(blank(before));
                cell.pieces().iter().for_each(|piece| row.push(piece.clone()));
                if at + 1 < self.widths.len() {
                    row.push(blank(blanks - before));
                }
            }
            rows.push(row);
        }
    }
}

/// Returns the widths of the columns; `None` if there is no room for them.
fn widths(
    heading: &[Vec<StyledPiece>],
    rows: &[Vec<Vec<StyledPiece>>],
    count: usize,
    room: usize,
) -> Option<Vec<usize>> {
    let room = room.checked_sub(BETWEEN * count.saturating_sub(1))?;
    let mut widths: Vec<usize> = (0..count)
        .map(|at| {
            let cells = std::iter::once(heading).chain(rows.iter().map(Vec::as_slice)).filter_map(|row| row.get(at));
            cells.map(|cell| Row::from_pieces(cell.clone()).width()).max().unwrap_or(0).max(1)
        })
        .collect();
    if room < NARROWEST * count {
        return Some(widths).filter(|widths| widths.iter().sum::<usize>() <= room);
    }
    // The widest columns shrink first.
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
