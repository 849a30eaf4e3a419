//! Draws the UI into a buffer of cells.

use crate::links::Links;
use crate::rows::{Piece, Row};
use crate::status::Now;
use crate::update::App;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use std::time::Duration;

/// Maximum rows of queued messages and of completions.
const QUEUE_ROWS: usize = 4;
const POPUP_ROWS: usize = 8;
/// Rows of the transcript that dialogs leave.
const LEAST_TRANSCRIPT: usize = 2;

/// Rows at the bottom of the screen, and the place of the cursor among them.
#[derive(Default)]
struct Bottom {
    rows: Vec<Row>,
    cursor: Option<(usize, usize)>,
}

impl App {
    /// Draws into a buffer and returns the place of the cursor; `None` hides it.
    pub fn draw(&mut self, buffer: &mut Buffer, now: Duration) -> Option<(u16, u16)> {
        let area = *buffer.area();
        buffer.reset();
        let (columns, height) = (usize::from(area.width), usize::from(area.height));
        if columns == 0 || height == 0 {
            return None;
        }
        self.transcript.set_look(|look| look.columns = columns);
        let bottom = self.bottom(columns, height, now);
        let top = height.saturating_sub(bottom.rows.len());
        self.height = top.max(1);
        self.draw_transcript(buffer, top, now);
        self.draw_popup(buffer, columns, top);
        // A screen that is too low shows the end.
        let skipped = bottom.rows.len().saturating_sub(height);
        for (at, row) in bottom.rows.iter().skip(skipped).enumerate() {
            draw_row(buffer, top + at, row, area, &mut self.links);
        }
        let (row, column) = bottom.cursor?;
        let row = (top + row).checked_sub(skipped).filter(|row| *row < height)?;
        Some((u16::try_from(column.min(columns - 1)).ok()?, u16::try_from(row).ok()?))
    }

    /// Returns the links of the frames that were drawn.
    pub fn links(&self) -> &Links {
        &self.links
    }

    fn draw_transcript(&mut self, buffer: &mut Buffer, height: usize, now: Duration) {
        let area = *buffer.area();
        let selected = self.transcript.selected();
        let mark = self.settings.theme.selected;
        for (at, (item, row)) in self.transcript.visible(height, now).into_iter().enumerate() {
            draw_row(buffer, at, &row, area, &mut self.links);
            if selected == Some(item) && row.width() > 0 {
                let y = area.y + u16::try_from(at).unwrap_or(u16::MAX);
                buffer.set_style(Rect { x: area.x, y, width: 1.min(area.width), height: 1 }, mark);
            }
        }
    }

    /// Draws completions over the end of the transcript.
    fn draw_popup(&mut self, buffer: &mut Buffer, columns: usize, top: usize) {
        let has_dialog = self.approval.is_some() || self.dialog.is_some() || self.picker.is_some();
        let Some(popup) = self.popup.as_ref().filter(|_| !has_dialog) else {
            return;
        };
        let area = *buffer.area();
        let choices: Vec<_> = popup.choices.iter().collect();
        let height = POPUP_ROWS.min(top).min(choices.len());
        let rows = crate::dialog::picker::list(&choices, popup.selected, columns, height, &self.settings.theme);
        let first = top - rows.len();
        for (at, row) in rows.iter().enumerate() {
            let y = area.y + u16::try_from(first + at).unwrap_or(0);
            (area.x..area.right()).for_each(|x| buffer[(x, y)].reset());
            draw_row(buffer, first + at, row, area, &mut self.links);
        }
    }

    /// Lays out everything below the transcript.
    fn bottom(&mut self, columns: usize, height: usize, now: Duration) -> Bottom {
        let theme = self.settings.theme.clone();
        let mut bottom = Bottom::default();
        let is_moving = !self.settings.has_reduced_motion;
        let at = if is_moving { now } else { Duration::from_secs(now.as_secs()) };
        let is_asking = self.approval.is_some() || self.dialog.is_some();
        let working = self.status.working(columns, is_asking, &theme, at);
        let rule = Row::of([Piece::new(&"─".repeat(columns), theme.dim)]);
        if let Some(approval) = &mut self.approval {
            bottom.rows.extend(working.filter(|_| height >= 14));
            bottom.rows.push(rule);
            let room = height.saturating_sub(bottom.rows.len() + LEAST_TRANSCRIPT).max(height.min(6));
            bottom.dialog(approval.draw(columns, room, &theme, now));
            return bottom;
        }
        if let Some(dialog) = &mut self.dialog {
            bottom.rows.push(rule);
            let room = height.saturating_sub(1 + LEAST_TRANSCRIPT).max(height.min(6));
            bottom.dialog(dialog.draw(columns, room, &theme, now));
            return bottom;
        }
        if let Some(picker) = &self.picker {
            bottom.rows.push(rule);
            let room = height.saturating_sub(1 + LEAST_TRANSCRIPT).clamp(1, 16);
            bottom.dialog(picker.draw(columns, room, &theme));
            return bottom;
        }
        bottom.rows.extend(self.scrolled(columns));
        bottom.rows.extend(working);
        self.queue_rows(columns, &mut bottom.rows);
        bottom.rows.push(rule);
        self.editor(columns, height, &mut bottom);
        bottom.rows.push(self.last_row(columns));
        bottom
    }

    fn scrolled(&self, columns: usize) -> Option<Row> {
        let text = "scrolled up; ctrl+end returns to the end";
        let row = || Row::of([Piece::line(text, columns, self.settings.theme.warning)]);
        (!self.transcript.is_at_end()).then(row)
    }

    fn queue_rows(&self, columns: usize, rows: &mut Vec<Row>) {
        let theme = &self.settings.theme;
        for (at, text) in self.queue.iter().take(QUEUE_ROWS).enumerate() {
            let hint = if at == 0 && columns >= 60 { "  (enter sends now, ↑ edits)" } else { "" };
            let text = Piece::line(text, columns.saturating_sub(2 + hint.chars().count()), theme.text);
            rows.push(Row::of([Piece::new("◷ ", theme.accent), text, Piece::new(hint, theme.dim)]));
        }
        let more = self.queue.len().saturating_sub(QUEUE_ROWS);
        if more > 0 {
            rows.push(Row::of([Piece::line(&format!("  and {more} more"), columns, theme.dim)]));
        }
    }

    fn editor(&mut self, columns: usize, height: usize, bottom: &mut Bottom) {
        let theme = &self.settings.theme;
        if let Some(query) = &self.search {
            let label = Piece::new("search: ", theme.accent);
            let query = Piece::line(query, columns.saturating_sub(10), theme.text);
            let row = Row::of([label, query]);
            bottom.cursor = Some((bottom.rows.len(), row.width()));
            bottom.rows.push(row);
            return;
        }
        let room = (height / 2).saturating_sub(2).clamp(1, 12);
        let drawn = self.composer.draw(columns.saturating_sub(2), room, theme.text);
        let first = bottom.rows.len();
        for (at, row) in drawn.rows.iter().enumerate() {
            let mark = match (at, drawn.above) {
                (0, 0) if self.composer.text().starts_with('!') => Piece::new("$ ", theme.warning),
                (0, 0) if self.vi.is_normal => Piece::new("‹ ", theme.user),
                (0, 0) => Piece::new("› ", theme.user),
                (0, _) => Piece::new("↑ ", theme.dim),
                _ => Piece::new("  ", theme.text),
            };
            bottom.rows.push(Row::of(std::iter::once(mark).chain(row.pieces().iter().cloned())));
        }
        bottom.cursor = Some((first + drawn.cursor.0, 2 + drawn.cursor.1));
    }

    fn last_row(&self, columns: usize) -> Row {
        let theme = &self.settings.theme;
        match &self.hint {
            Some((hint, _)) => Row::of([Piece::line(hint, columns, theme.warning)]),
            None => {
                let (agents, is_planning) = (self.transcript.agents_at_work(), self.planning.is_on);
                self.status.line(&self.settings.status, Now { agents, is_planning }, columns, theme)
            }
        }
    }

    /// Returns the transcript as plain rows of at most `columns`, from its `latest` items.
    pub fn printed(&mut self, columns: usize, latest: usize, now: Duration) -> Vec<PrintedRow> {
        self.transcript.set_look(|look| look.columns = columns);
        let from = self.transcript.len().saturating_sub(latest);
        let mut printed = Vec::new();
        for at in from..self.transcript.len() {
            if at > from {
                printed.extend((0..self.transcript.gap(at)).map(|_| PrintedRow(Row::default())));
            }
            printed.extend(self.transcript.rows(at, now).iter().cloned().map(PrintedRow));
        }
        printed
    }
}

/// A row of the transcript for the main screen.
#[derive(Debug)]
pub struct PrintedRow(pub(crate) Row);

impl PrintedRow {
    /// Returns the text without styles.
    pub fn plain(&self) -> String {
        self.0.plain()
    }
}

impl Bottom {
    fn dialog(&mut self, (rows, cursor): (Vec<Row>, Option<(usize, usize)>)) {
        self.cursor = cursor.map(|(row, column)| (self.rows.len() + row, column));
        self.rows.extend(rows);
    }
}

/// Draws a row at a height of the buffer.
pub(crate) fn draw_row(buffer: &mut Buffer, at: usize, row: &Row, area: Rect, links: &mut Links) {
    let Ok(at) = u16::try_from(at) else { return };
    if at >= area.height {
        return;
    }
    let mut x = area.x;
    for piece in row.pieces() {
        let left = area.right().saturating_sub(x);
        if left == 0 {
            return;
        }
        let style = piece.link().map_or(piece.style(), |link| links.mark(piece.style(), link));
        (x, _) = buffer.set_stringn(x, area.y + at, piece.text(), usize::from(left), style);
    }
}

/// Returns a buffer as text, with trailing blanks removed, for tests.
pub fn text_of(buffer: &Buffer) -> String {
    let area = buffer.area();
    let row = |y: u16| {
        let mut text = String::new();
        let mut skip = 0;
        for x in area.x..area.right() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            skip = crate::rows::cluster_width(symbol).saturating_sub(1);
            text.push_str(symbol);
        }
        text.trim_end().to_owned()
    };
    (area.y..area.bottom()).map(row).collect::<Vec<_>>().join("\n")
}
