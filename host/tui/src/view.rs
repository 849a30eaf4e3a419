//! Draws the UI into a buffer of cells.

use crate::commands::is_message;
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
/// The keys of a search, behind the searched text, where there is more room and less.
const SEARCH_KEYS: [&str; 2] = ["   enter finds above · ↓ below · esc closes", "   esc closes"];
const VI_SEARCH_KEYS: [&str; 2] = ["   enter finds · n and N repeat · esc closes", "   esc closes"];
/// Rows of the transcript that dialogs leave.
const LEAST_TRANSCRIPT: usize = 2;
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
        let activity = match self.approval.is_some() || self.dialog.is_some() {
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
        if self.agents.is_listing() {
            for (at, row) in self.agent_rows(usize::from(area.width), height, now).iter().enumerate() {
                draw_row(buffer, at, row, area, &mut self.links);
            }
            return;
        }
        let selected = self.transcript.selected();
        let (mark, matched) = (self.settings.theme.selected, self.settings.theme.matched);
        let query = self.search.as_ref().map(|search| search.text().to_lowercase()).unwrap_or_default();
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
        let has_dialog = self.approval.is_some() || self.dialog.is_some() || self.picker.is_some();
        let Some(popup) = self.popup.as_ref().filter(|_| !has_dialog) else { return Vec::new() };
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
        let is_asking = self.approval.is_some() || self.dialog.is_some();
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
        let (asker, left) = (self.asker_row(columns), self.rows_above_question(height).unwrap_or(LEAST_TRANSCRIPT));
        if let Some(approval) = &mut self.approval {
            bottom.rows.extend(working.filter(|_| height >= 14));
            bottom.rows.push(above);
            bottom.rows.extend(asker);
            let room = height.saturating_sub(bottom.rows.len() + left).max(height.min(6));
            bottom.dialog(approval.draw(columns, room, &theme, now));
            return bottom;
        }
        if let Some(dialog) = &mut self.dialog {
            bottom.rows.push(above);
            let room = height.saturating_sub(1 + LEAST_TRANSCRIPT).max(height.min(6));
            bottom.dialog(dialog.draw(columns, room, &theme, now));
            return bottom;
        }
        if let Some(picker) = &self.picker {
            bottom.rows.push(above);
            let room = height.saturating_sub(1 + LEAST_TRANSCRIPT).clamp(1, 16);
            bottom.dialog(picker.draw(columns, room, &theme));
            return bottom;
        }
        if self.agents.is_listing() {
            bottom.rows.extend([above, self.agent_keys(columns), self.last_row(columns, now)]);
            return bottom;
        }
        bottom.rows.extend(self.read_agent_row(columns).or_else(|| self.scrolled(columns)));
        bottom.rows.extend(working);
        self.queue_rows(columns, &mut bottom.rows);
        bottom.rows.push(if is_inline { Row::default() } else { above });
        self.editor(columns, height, &mut bottom);
        bottom.rows.extend(is_inline.then(|| rule(columns)));
        bottom.rows.push(self.last_row(columns, now));
        bottom
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
        if let Some(query) = &self.search {
            let label = match self.vi_view.searching {
                Some(true) => "/",
                Some(false) => "?",
                None => "search: ",
            };
            let label = StyledPiece::new(label, theme.accent);
            let mut row = Row::from_pieces([label]);
            let left = row.width();
            let drawn = query.rows(columns.saturating_sub(left), 1, theme.text, None);
            drawn.rows.iter().flat_map(Row::pieces).for_each(|piece| row.push(piece.clone()));
            let room = columns.saturating_sub(row.width());
            let keys = if self.vi_view.searching.is_some() { VI_SEARCH_KEYS } else { SEARCH_KEYS };
            let keys = keys.into_iter().find(|keys| width(keys) < room);
            row.push(StyledPiece::new(keys.unwrap_or_default(), theme.dim));
            bottom.cursor = Some((bottom.rows.len(), left + drawn.cursor.1));
            bottom.rows.push(row);
            return;
        }
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
    fn dialog(&mut self, (rows, cursor): (Vec<Row>, Option<(usize, usize)>)) {
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
