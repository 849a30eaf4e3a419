//! Draws the UI into a buffer of cells.

use crate::commands::is_message;
use crate::dialog::screen_view::{ScreenView, ViewFrame, ViewLayer, ViewRows};
use crate::inline::InlineFrame;
use crate::keys::Action;
use crate::links::Links;
use crate::rows::{Row, StyledPiece, width};
use crate::status::Now;
use crate::terminal_indicators::{Activity, OUTPUT, PROMPT};
use crate::update::App;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use std::time::Duration;

/// Maximum rows of sent and queued messages, and of completions.
const QUEUE_ROWS: usize = 4;
const POPUP_ROWS: usize = 8;
/// The remark behind the first message that the agent reads as soon as it can.
const SENT: &str = "  (sent, the agent reads it next)";
/// Least columns between the status and a remark.
const GAP: usize = 3;
/// Rows of the transcript that views leave.
const LEAST_TRANSCRIPT: usize = 2;
/// Maximum rows of a list, and least rows of another view.
const LIST_ROWS: usize = 16;
const LEAST_ROWS: usize = 6;
/// Columns of the rule above a question in the inline form. A terminal may wrap longer rows again when its width changes, and
/// how far the cursor is below the first row is certain only while the rows above it are short (see
/// [`Inline`](crate::Inline)).
const INLINE_RULE: usize = 8;
/// Rows that one frame of the inline form gives to the terminal's scrollback.
const MAX_SETTLED: usize = 500;

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
        self.draw_transcript(buffer, top, self.moving(now));
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

    /// Draws a frame of the inline form for a terminal of this size, which must not be empty.
    pub fn draw_inline(&mut self, columns: u16, height: u16, now: Duration) -> InlineFrame {
        let (width, height) = (usize::from(columns), usize::from(height));
        self.transcript.set_look(|look| look.columns = width);
        let bottom = self.bottom(width, height, now);
        let top = height.saturating_sub(bottom.rows.len());
        self.height = top.max(1);
        let popup = self.popup_rows(width, top);
        let (settled, has_more) = self.transcript.settle(MAX_SETTLED, self.moving(now));
        let mut live = self.transcript.unsettled(top - popup.len(), self.moving(now));
        live.extend(popup);
        let above = live.len();
        live.extend(bottom.rows);
        // A screen that is too low shows the end.
        let skipped = live.len().saturating_sub(height);
        let cursor = bottom.cursor.and_then(|(row, column)| {
            let row = (above + row).checked_sub(skipped)?;
            Some((u16::try_from(column.min(width.checked_sub(1)?)).ok()?, u16::try_from(row).ok()?))
        });
        let begins = |(at, row): (usize, &Row)| row.begins_prompt.then_some((at, PROMPT));
        let ends = |(at, row): (usize, &Row)| row.ends_prompt.then_some((at + 1, OUTPUT));
        let mut marks: Vec<_> = settled.iter().enumerate().filter_map(begins).collect();
        marks.extend(settled.iter().enumerate().filter_map(ends));
        marks.sort_unstable();
        let settled = drawn(columns, &settled, &mut self.links);
        InlineFrame { settled, marks, live: drawn(columns, &live[skipped..], &mut self.links), cursor, has_more }
    }

    /// Returns the activity and the directory, for the surroundings of the screen.
    pub fn activity(&self) -> (Activity, &str) {
        let activity = match self.views.is_asking() {
            true => Activity::Asking,
            false if self.status.is_busy() => Activity::Working,
            false => Activity::Idle,
        };
        (activity, &self.status.facts.directory)
    }

    /// Returns the links of the frames that were drawn.
    pub fn links(&self) -> &Links {
        &self.links
    }

    fn draw_transcript(&mut self, buffer: &mut Buffer, height: usize, now: Duration) {
        let area = *buffer.area();
        let page = self.views.iter_from_top().find_map(|view| view.draw_page(self, area.width.into(), height, now));
        if let Some(page) = page {
            page.iter().enumerate().for_each(|(at, row)| draw_row(buffer, at, row, area, &mut self.links));
            return;
        }
        let selected = self.transcript.selected();
        let (mark, matched) = (self.settings.theme.selected, self.settings.theme.matched);
        let query = self.views.iter_from_top().find_map(ScreenView::marked_text).unwrap_or_default().to_lowercase();
        let region = self.transcript.region();
        for (at, (place, row)) in self.transcript.visible(height, now).into_iter().enumerate() {
            draw_row(buffer, at, &row, area, &mut self.links);
            let y = area.y + u16::try_from(at).unwrap_or(u16::MAX);
            let marked = region.map(|region| (region.columns(place, &row), mark));
            let found = if query.is_empty() { Vec::new() } else { row.places(&query) };
            for (columns, style) in found.into_iter().map(|columns| (columns, matched)).chain(marked) {
                let column = |at: usize| u16::try_from(at).unwrap_or(u16::MAX).min(area.width);
                let (x, end) = (column(columns.start), column(columns.end));
                buffer.set_style(Rect { x: area.x + x, y, width: end.saturating_sub(x), height: 1 }, style);
            }
            if selected == Some(place.item) && row.width() > 0 {
                buffer.set_style(Rect { x: area.x, y, width: 1.min(area.width), height: 1 }, mark);
            }
        }
    }

    /// Draws completions over the end of the transcript.
    fn draw_popup(&mut self, buffer: &mut Buffer, columns: usize, top: usize) {
        let area = *buffer.area();
        let rows = self.popup_rows(columns, top);
        let first = top - rows.len();
        for (at, row) in rows.iter().enumerate() {
            let y = area.y + u16::try_from(first + at).unwrap_or(0);
            (area.x..area.right()).for_each(|x| buffer[(x, y)].reset());
            draw_row(buffer, first + at, row, area, &mut self.links);
        }
    }

    fn popup_rows(&self, columns: usize, most: usize) -> Vec<Row> {
        let Some(popup) = self.popup.as_ref().filter(|_| !self.views.covers_editor()) else { return Vec::new() };
        let choices: Vec<_> = popup.choices.iter().collect();
        let theme = &self.settings.theme;
        let remark = self.popup_remark().filter(|_| most > 1);
        let lead = StyledPiece::new("  ", theme.text);
        let height = POPUP_ROWS.min(most).saturating_sub(usize::from(remark.is_some())).min(choices.len());
        let mut rows = crate::dialog::picker::list(&choices, popup.selected, columns, height, theme);
        let more = choices.len().saturating_sub(height);
        let remark = match remark {
            Some(text) => Some(text.to_owned()),
            // The row comes on top of the others.
            None if more > 0 && rows.len() < most => Some(format!("… {more} more; type to narrow the list")),
            None => None,
        };
        rows.extend(
            remark.map(|text| Row::from_pieces([lead, StyledPiece::line(&text, columns.saturating_sub(2), theme.dim)])),
        );
        rows
    }

    /// Returns the time for marks that move: with reduced motion, the time of the last frame with the marks at their
    /// beginning.
    fn moving(&self, now: Duration) -> Duration {
        if self.settings.has_reduced_motion { Duration::from_secs(now.as_secs()) } else { now }
    }

    /// Lays out everything below the transcript.
    fn bottom(&mut self, columns: usize, height: usize, now: Duration) -> Bottom {
        let theme = self.settings.theme.clone();
        let mut bottom = Bottom::default();
        let is_asking = self.views.is_asking();
        let interrupts = self.settings.keys.says(Action::Interrupt, "", "interrupts");
        let working = self.status.working(columns, is_asking, &interrupts, &theme, self.moving(now));
        let border = match (self.planning_label(), self.status.is_executing()) {
            (Some(_), _) => theme.accent,
            (None, true) => theme.good,
            (None, false) => theme.dim,
        };
        let rule = |columns: usize| Row::from_pieces([StyledPiece::new(&"─".repeat(columns), border)]);
        let is_inline = self.settings.is_inline;
        let above = rule(if is_inline { columns.min(INLINE_RULE) } else { columns });
        if let Some(layer) = self.views.top_layer().filter(|layer| *layer != ViewLayer::Line) {
            if layer == ViewLayer::Question {
                bottom.rows.extend(working.filter(|_| height >= 14));
                bottom.rows.extend([Some(above), self.asker_row(columns)].into_iter().flatten());
            } else {
                bottom.rows.push(above);
            }
            let room = height.saturating_sub(bottom.rows.len() + self.rows_above(layer, height));
            let room = match layer {
                ViewLayer::List => room.clamp(1, LIST_ROWS),
                _ => room.max(height.min(LEAST_ROWS)),
            };
            self.views.top_mut().into_iter().for_each(|view| {
                bottom.view(view.draw_rows(ViewFrame { columns, height: room, theme: &theme, now }));
            });
            bottom.rows.extend((layer == ViewLayer::Page).then(|| self.last_row(columns, now)));
            return bottom;
        }
        bottom.rows.extend(self.read_agent_row(columns).or_else(|| self.scrolled(columns)));
        bottom.rows.extend(working);
        self.queue_rows(columns, &mut bottom.rows);
        bottom.rows.push(if is_inline { Row::default() } else { above });
        match self.views.top_mut() {
            Some(line) => bottom.view(line.draw_rows(ViewFrame { columns, height: 1, theme: &theme, now })),
            None => self.editor(columns, height, &mut bottom),
        }
        bottom.rows.extend(is_inline.then(|| rule(columns)));
        bottom.rows.push(self.last_row(columns, now));
        bottom
    }

    /// Returns the rows that a view leaves above it.
    fn rows_above(&self, layer: ViewLayer, height: usize) -> usize {
        let page = self.views.iter_from_top().find_map(|view| view.page_rows(self, height));
        page.filter(|_| layer == ViewLayer::Question).unwrap_or(LEAST_TRANSCRIPT)
    }

    fn scrolled(&self, columns: usize) -> Option<Row> {
        let keys = &self.settings.keys;
        let text = match (self.is_viewing, self.transcript.is_at_end()) {
            (true, _) => format!("the whole conversation{}", keys.says(Action::Interrupt, "; ", "returns")),
            _ if self.transcript.selected().is_some() => {
                let (returns, folds) =
                    (keys.says(Action::Interrupt, "; ", "unselects"), keys.says(Action::Toggle, ", ", "unfolds"));
                format!("a block is selected{returns}{folds}{}", keys.says(Action::Copy, ", ", "copies"))
            }
            (false, true) => return None,
            (false, false) => format!("scrolled up{}", keys.says(Action::Bottom, "; ", "returns to the end")),
        };
        Some(Row::from_pieces([StyledPiece::line(&text, columns, self.settings.theme.warning)]))
    }

    fn queue_rows(&self, columns: usize, rows: &mut Vec<Row>) {
        let theme = &self.settings.theme;
        let mut add = |mark: &str, text: &str, hint: &str| {
            let text = StyledPiece::line(text, columns.saturating_sub(2 + hint.chars().count()), theme.text);
            rows.push(Row::from_pieces([
                StyledPiece::new(mark, theme.accent),
                text,
                StyledPiece::new(hint, theme.dim),
            ]));
        };
        let has_hint = |at: usize| at == 0 && columns >= 60;
        let sent = self.queue.sent();
        for (at, text) in sent.iter().take(QUEUE_ROWS).enumerate() {
            add("→ ", text, &if has_hint(at) { self.sent_hint() } else { String::new() });
        }
        for (at, text) in self.queue.texts().take(QUEUE_ROWS.saturating_sub(sent.len())).enumerate() {
            add("◷ ", text, &if has_hint(at) { self.queue_hint(text) } else { String::new() });
        }
        let more = (sent.len() + self.queue.len()).saturating_sub(QUEUE_ROWS);
        if more > 0 {
            rows.push(Row::from_pieces([StyledPiece::line(&format!("  and {more} more"), columns, theme.dim)]));
        }
    }

    /// Says behind the first message that the agent has not read when it does, and names the keys that act on it.
    fn sent_hint(&self) -> String {
        let keys = &self.settings.keys;
        match self.queue.is_urgent() {
            true => SENT.to_owned(),
            false => {
                let edits = if self.queue.is_empty() { keys.says(Action::Up, ", ", "edits") } else { String::new() };
                let interrupts = keys.says(Action::Interrupt, "; ", &self.interrupts());
                format!("  (next{interrupts}{edits})")
            }
        }
    }

    /// Names behind the first waiting text the keys that act on it.
    fn queue_hint(&self, first: &str) -> String {
        let keys = &self.settings.keys;
        let sends = if is_message(first) { keys.says(Action::Send, "", "sends it sooner") } else { String::new() };
        let (action, does) = if self.queue.len() == 1 { (Action::Up, "edits") } else { (Action::Queue, "lists all") };
        let hint = keys.says(action, if sends.is_empty() { "" } else { ", " }, does);
        if sends.is_empty() && hint.is_empty() { String::new() } else { format!("  ({sends}{hint})") }
    }

    fn editor(&mut self, columns: usize, height: usize, bottom: &mut Bottom) {
        let theme = &self.settings.theme;
        let room = (height / 2).saturating_sub(2).clamp(1, 12);
        let marked = self.vi.selected(&self.composer).map(|range| (range, theme.selected));
        let drawn = self.composer.draw(columns.saturating_sub(2), room, theme.text, marked);
        let first = bottom.rows.len();
        let is_command_line = self.vi_view.has_command_line();
        for (at, row) in drawn.rows.iter().enumerate() {
            let mark = match (at, drawn.above) {
                (0, 0) if is_command_line => StyledPiece::new(": ", theme.user),
                (0, 0) if self.composer.text().starts_with('!') => StyledPiece::new("$ ", theme.warning),
                (0, 0) if !self.vi.inserts() => StyledPiece::new("‹ ", theme.user),
                (0, 0) => StyledPiece::new("› ", theme.user),
                (0, _) => StyledPiece::new("↑ ", theme.dim),
                _ => StyledPiece::new("  ", theme.text),
            };
            let mut pieces = row.pieces().to_vec();
            // The mark stands for the slash.
            if let Some(first) = pieces
                .iter_mut()
                .find(|piece| !piece.text().is_empty())
                .filter(|_| is_command_line && (at, drawn.above) == (0, 0))
            {
                *first = StyledPiece::new(first.text().strip_prefix('/').unwrap_or(first.text()), theme.text);
            }
            bottom.rows.push(Row::from_pieces(std::iter::once(mark).chain(pieces)));
        }
        if let (Some(hint), Some(row)) = (self.argument_hint(), bottom.rows.last_mut()) {
            row.push(StyledPiece::line(hint, columns.saturating_sub(row.width()), theme.dim));
        }
        let hidden = usize::from(is_command_line && (drawn.cursor.0, drawn.above) == (0, 0));
        bottom.cursor = Some((first + drawn.cursor.0, 2 + drawn.cursor.1.saturating_sub(hidden)));
    }

    fn last_row(&self, columns: usize, time: Duration) -> Row {
        let theme = &self.settings.theme;
        let (agents, planning) = (self.agents.tree.at_work(), self.planning_label());
        let vi = self.vi_label();
        let now = Now { agents, planning, vi: vi.as_deref(), time };
        let mut status = self.status.line(&self.settings.status, now, columns, theme);
        let Some((hint, _)) = &self.hint else { return status };
        let hint = StyledPiece::line(hint, columns, theme.warning);
        // To the right of the status where there is room for both.
        let between = columns.saturating_sub(status.width() + width(hint.text()));
        if between < GAP || status.width() == 0 {
            return Row::from_pieces([hint]);
        }
        status.push(StyledPiece::new(&" ".repeat(between), theme.text));
        status.push(hint);
        status
    }

    /// Returns the rows of at most `columns` that have become final in the inline form since they were last asked for.
    pub fn settled(&mut self, columns: usize, now: Duration) -> Vec<PrintedRow> {
        self.transcript.set_look(|look| look.columns = columns);
        self.transcript.settle(usize::MAX, now).0.into_iter().map(PrintedRow).collect()
    }

    /// Returns the transcript as plain rows of at most `columns`, from its `latest` items; in the inline form, the rows
    /// that are not in the terminal's scrollback yet.
    pub fn printed(&mut self, columns: usize, latest: usize, now: Duration) -> Vec<PrintedRow> {
        self.close_agents();
        self.transcript.set_look(|look| look.columns = columns);
        if self.settings.is_inline {
            let (settled, _) = self.transcript.settle(usize::MAX, now);
            let rest = self.transcript.unsettled(usize::MAX, now);
            return settled.into_iter().chain(rest).map(PrintedRow).collect();
        }
        let from = self.transcript.len().saturating_sub(latest);
        let mut printed = Vec::new();
        if from > 0 {
            let text = format!("… {from} earlier blocks, which the session keeps");
            let theme = self.settings.theme.dim;
            printed.extend([
                PrintedRow(Row::from_pieces([StyledPiece::line(&text, columns, theme)])),
                PrintedRow(Row::default()),
            ]);
        }
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
    fn view(&mut self, (rows, cursor): ViewRows) {
        self.cursor = cursor.map(|(row, column)| (self.rows.len() + row, column));
        self.rows.extend(rows);
    }
}

/// Draws rows into a buffer of their number.
fn drawn(columns: u16, rows: &[Row], links: &mut Links) -> Buffer {
    let area = Rect::new(0, 0, columns, u16::try_from(rows.len()).unwrap_or(u16::MAX));
    let mut buffer = Buffer::empty(area);
    rows.iter().enumerate().for_each(|(at, row)| draw_row(&mut buffer, at, row, area, links));
    buffer
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
