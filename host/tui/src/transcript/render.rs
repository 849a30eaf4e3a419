//! The rows of items.
//!
//! Everything from models, tools and plugins is indented by two columns; only marks of the host stand in the first
//! ones.

use crate::ansi::{self, without_colours};
use crate::diff;
use crate::highlight::Highlights;
use crate::markdown::{self, Paper};
use crate::rows::{Lead, Row, StyledPiece, wrap};
use crate::theme::Theme;
use crate::transcript::excerpt::{Excerpt, without_ending};
use crate::transcript::head::CallHead;
use crate::transcript::items::{AgentCall, CallItem, CallState, Folded, SubAgent, Thinking, Tone, TranscriptItem};
use crate::transcript::plan_rows::{answer_rows, plan_rows};
use crate::transcript::result_rows::{code_rows, drawing_rows};
use pinion_protocol::diff::counts;
use pinion_protocol::text::count;
use pinion_protocol::{Display, Ledger};
use ratatui_core::style::Style;
use std::borrow::Cow;
use std::time::Duration;

/// Columns of the marks.
pub(super) const MARKS: usize = 2;
/// Rows of a result that is folded: of a line of a failure, of a difference, and of one that is still growing.
const LINE_ROWS: usize = 3;
const CHANGED_ROWS: usize = 12;
const GROWING_ROWS: usize = 5;
/// Last lines of a program that succeeded.
const PROGRAM_LINES: usize = 3;
/// Bytes and lines of a message of the user that is shown whole, and rows of one that is not.
const LONG_MESSAGE: usize = 4_000;
const LONG_LINES: usize = 40;
const USER_ROWS: usize = 12;
/// Rows of reasoning while the model writes it.
const THINKING_ROWS: usize = 3;
/// Characters of a result that are rendered when it is unfolded.
const MAX_OUTPUT: usize = 400_000;
/// Time before a running call shows how long it has been running.
const SHOW_TIME: Duration = Duration::from_secs(1);
/// Frames of the mark of running work, and the duration of each.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
pub(crate) const FRAME: Duration = Duration::from_millis(100);

/// Returns the mark of running work.
pub(crate) fn spinner(now: Duration) -> &'static str {
    SPINNER[(now.as_millis() / FRAME.as_millis()) as usize % SPINNER.len()]
}

/// Renders an item.
pub(super) fn rows(item: &TranscriptItem, is_unfolded: bool, look: &Look, now: Duration) -> Vec<Row> {
    let theme = &look.theme;
    let blank = StyledPiece::new("  ", theme.text);
    match item {
        TranscriptItem::User(text) => {
            let lead = Lead::new(vec![StyledPiece::new("› ", theme.user)], vec![blank]);
            let mut rows = user_rows(text, is_unfolded, &lead, look);
            rows.first_mut().into_iter().for_each(|row| row.begins_prompt = true);
            rows.last_mut().into_iter().for_each(|row| row.ends_prompt = true);
            rows
        }
        TranscriptItem::Text(segment) => {
            let paper = Paper { is_continued: segment.continues(), is_growing: true, ..look.paper(&blank) };
            markdown::rows(&segment.markdown(), paper)
        }
        TranscriptItem::Plan(plan) => plan_rows(plan, look),
        TranscriptItem::Page(text) => markdown::rows(text, look.paper(&blank)),
        TranscriptItem::Folded(folded) => folded_rows(folded, is_unfolded, look),
        TranscriptItem::Thinking(thinking) => thinking_rows(thinking, is_unfolded, look),
        TranscriptItem::Note(tone, text) => {
            let (mark, style) = match tone {
                Tone::Plain => ("· ", theme.dim),
                Tone::Warning => ("! ", theme.warning),
                Tone::Error => ("✗ ", theme.error),
            };
            wrapped(text, style, &Lead::new(vec![StyledPiece::new(mark, style)], vec![blank]), look)
        }
        TranscriptItem::Call(call) => {
            answer_rows(call, is_unfolded, look).unwrap_or_else(|| call_rows(call, is_unfolded, look, now))
        }
        TranscriptItem::Agent(agent) => agent_rows(agent, is_unfolded, look),
    }
}

fn wrapped(text: &str, style: Style, lead: &Lead, look: &Look) -> Vec<Row> {
    let mut rows = Vec::new();
    let pieces = StyledPiece::new(text.trim_end(), style).with_links(Style::new());
    wrap(&pieces, look.columns, lead, &mut rows);
    rows
}

/// Renders the output of a program.
fn coloured(output: &str, lead: &Lead, look: &Look) -> Vec<Row> {
    let mut rows = Vec::new();
    wrap(&ansi::pieces(output.trim_end(), look.theme.dim, &look.theme), look.columns, lead, &mut rows);
    rows
}

/// Renders a message of the user; a long one, such as a pasted file, is cut off until it is unfolded.
fn user_rows(text: &str, is_unfolded: bool, lead: &Lead, look: &Look) -> Vec<Row> {
    let style = look.theme.strong;
    if is_unfolded || !is_long(text) {
        return wrapped(text, style, lead, look);
    }
    let beginning = &text[..text.floor_char_boundary(LONG_MESSAGE)];
    let mut rows =
        wrapped(beginning.lines().take(USER_ROWS).collect::<Vec<_>>().join("\n").as_str(), style, lead, look);
    rows.truncate(USER_ROWS);
    let lines = text.lines().count();
    let size = if lines > USER_ROWS { format!("{lines} lines") } else { format!("{} kB", text.len().div_ceil(1000)) };
    let size = StyledPiece::line(&format!("… {size} in all"), look.columns.saturating_sub(2), look.theme.dim);
    rows.push(Row::from_pieces([StyledPiece::new("  ", style), size]));
    rows
}

/// Returns whether a message of the user is cut off.
pub(super) fn is_long(text: &str) -> bool {
    text.len() > LONG_MESSAGE || text.lines().nth(LONG_LINES).is_some()
}

/// Renders the output of a program: a line for it, and its text below if it is unfolded.
fn folded_rows(folded: &Folded, is_unfolded: bool, look: &Look) -> Vec<Row> {
    let dim = look.theme.dim;
    let lead = Lead::new(vec![StyledPiece::new("· ", dim)], vec![StyledPiece::new("  ", dim)]);
    let mut rows = wrapped(&folded.label, dim, &lead, look);
    if is_unfolded {
        rows.extend(markdown::rows(&folded.text, look.paper(&StyledPiece::new("  │ ", dim))));
    }
    rows
}

fn thinking_rows(thinking: &Thinking, is_unfolded: bool, look: &Look) -> Vec<Row> {
    let dim = look.theme.dim;
    let lead = Lead::new(vec![StyledPiece::new("∴ ", dim)], vec![StyledPiece::new("  ", dim)]);
    let text = markdown::without_emphasis(&thinking.text);
    if look.has_thinking || is_unfolded {
        return wrapped(&text, dim, &lead, look);
    }
    if thinking.is_done {
        let first = text.trim().lines().next().unwrap_or_default();
        return vec![Row::from_pieces([
            StyledPiece::new("∴ ", dim),
            StyledPiece::line(&format!("thought: {first}"), look.columns.saturating_sub(2), dim),
        ])];
    }
    let rows = wrapped(&text, dim, &lead, look);
    let hidden = rows.len().saturating_sub(THINKING_ROWS);
    rows.into_iter().skip(hidden).collect()
}

fn call_rows(call: &CallItem, is_unfolded: bool, look: &Look, now: Duration) -> Vec<Row> {
    let theme = &look.theme;
    let (mark, style) = match call.state {
        CallState::Waiting => ("○", theme.dim),
        CallState::Asking => ("?", theme.warning),
        CallState::Running => (spinner(now), theme.accent),
        CallState::Done => ("✓", theme.good),
        CallState::Failed => ("✗", theme.error),
    };
    let status = status(call, is_unfolded, now);
    let mut head = Row::from_pieces([StyledPiece::new(mark, style), StyledPiece::new(" ", theme.text)]);
    head.push(StyledPiece::line(&call.tool, look.columns.saturating_sub(2).min(64), theme.strong));
    head.push(StyledPiece::new(" ", theme.text));
    let status = StyledPiece::line(&status, look.columns / 2, theme.dim);
    let room = look.columns.saturating_sub(head.width() + crate::rows::width(status.text()) + 2);
    let shown = match &call.drawn_call {
        Some(drawing) => StyledPiece::line(&format!("drawn by {}", drawing.plugin), room.max(8), theme.dim),
        None => CallHead::new(&call.arguments).line(room.max(8), theme.text),
    };
    let is_complete = call.has_diff() || call.drawn_call.is_none() && is_only_argument(shown.text(), &call.arguments);
    head.push(shown);
    if !status.text().is_empty() {
        head.push(StyledPiece::new("  ", theme.text));
        head.push(status);
    }
    let mut rows = vec![head];
    if is_unfolded && !call.is_own && !is_complete {
        rows.extend(argument_rows(call, look));
    }
    rows.extend(call.drawn_call.iter().flat_map(|drawing| drawing_rows(drawing, look)));
    match &call.drawn_result {
        Some(drawing) if !is_unfolded || call.output.is_empty() => {
            let by =
                StyledPiece::line(&format!("drawn by {}", drawing.plugin), look.columns.saturating_sub(4), theme.dim);
            rows.push(Row::from_pieces([StyledPiece::new("    ", theme.dim), by]));
            rows.extend(drawing_rows(drawing, look));
        }
        _ => rows.extend(output_rows(call, is_unfolded, look)),
    }
    if let Some(ledger) = &call.ledger {
        ledger_rows(ledger, &Lead::same(vec![StyledPiece::new("    ", theme.dim)]), look, &mut rows);
    }
    rows
}

/// Appends the resources that a call used, if it should be shown.
fn ledger_rows(ledger: &Ledger, lead: &Lead, look: &Look, rows: &mut Vec<Row>) {
    let grants = look.has_grants.then(|| ledger.grants());
    for text in std::iter::once(ledger.to_string()).chain(grants).filter(|_| look.has_ledgers) {
        wrap(&[StyledPiece::new(&text, look.theme.dim)], look.columns, lead, rows);
    }
}

/// Returns the text behind the arguments of a call: its duration while it runs, and the size of a hidden result.
fn status(call: &CallItem, is_unfolded: bool, now: Duration) -> String {
    match call.state {
        CallState::Waiting => String::new(),
        CallState::Asking => "waits for your answer".to_owned(),
        CallState::Running => {
            let time = call.started.map(|started| now.saturating_sub(started)).filter(|time| *time >= SHOW_TIME);
            let time = time.map(|time| format!("{} s", time.as_secs()));
            time.into_iter().chain(call.progress.clone()).collect::<Vec<_>>().join(" · ")
        }
        CallState::Done | CallState::Failed => {
            let size = match diff::is_diff(&call.output) {
                true => {
                    let (added, removed) = counts(&call.output);
                    Some(format!("+{added} −{removed}"))
                }
                false => size(call),
            };
            let took = call.took.filter(|took| *took >= SHOW_TIME).map(|took| format!("{:.1} s", took.as_secs_f64()));
            call.ending
                .clone()
                .into_iter()
                .chain(size.filter(|_| !is_unfolded))
                .chain(took)
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}

/// Returns the result of a call if it is a single line, and else the number of its lines.
fn size(call: &CallItem) -> Option<String> {
    let output = folded(call);
    let mut lines = output.lines();
    match (lines.next(), lines.count() as u64) {
        (None, _) => None,
        (Some(line), 0) if call.state == CallState::Done => Some(format!("→ {}", without_colours(line))),
        (Some(_), more) => Some(count(more + 1, "line")),
    }
}

/// Returns the result of a call as it is shown while it is folded, without the content of its head.
fn folded(call: &CallItem) -> Cow<'_, str> {
    let output = call.output.trim_end();
    if call.ending.is_some() { without_ending(output).into() } else { output.into() }
}

/// Returns whether the head of a call shows all of its arguments.
fn is_only_argument(shown: &str, arguments: &serde_json::Value) -> bool {
    let only = arguments.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.values().next());
    only.and_then(serde_json::Value::as_str) == Some(shown)
}

/// Renders the arguments of a call.
fn argument_rows(call: &CallItem, look: &Look) -> Vec<Row> {
    let theme = &look.theme;
    let serde_json::Value::Object(fields) = &call.arguments else { return Vec::new() };
    let lead = Lead::same(vec![StyledPiece::new("  │ ", theme.dim)]);
    let mut rows = Vec::new();
    for (name, value) in fields {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let pieces = [StyledPiece::new(&format!("{name}: "), theme.dim), StyledPiece::new(&value, theme.text)];
        wrap(&pieces, look.columns, &lead, &mut rows);
    }
    rows
}

fn output_rows(call: &CallItem, is_unfolded: bool, look: &Look) -> Vec<Row> {
    let theme = &look.theme;
    let lead = Lead::same(vec![StyledPiece::new("    ", theme.text)]);
    let output = &call.output[..call.output.floor_char_boundary(MAX_OUTPUT)];
    let is_diff = diff::is_diff(output) || call.display == Display::Diff;
    if is_unfolded {
        return match &call.display {
            _ if output.is_empty() => Vec::new(),
            _ if is_diff && look.has_sides => diff::sides(output, look.columns, &lead, theme),
            _ if is_diff => diff::rows(output, look.columns, &lead, theme),
            Display::Code(language) => code_rows(output, language, &lead, look),
            Display::Markdown => markdown::rows(output, look.paper(&StyledPiece::new("    ", theme.text))),
            _ => coloured(output, &lead, look),
        };
    }
    match call.state {
        CallState::Running => {
            let lines: Vec<&str> = output.lines().collect();
            let tail = lines[lines.len().saturating_sub(GROWING_ROWS)..].iter();
            tail.flat_map(|line| line_rows(line, 1, &lead, look)).collect()
        }
        CallState::Failed => failure(&folded(call), &lead, look),
        CallState::Done if is_diff => {
            beginning(diff::changes(output, look.columns, &lead, theme), CHANGED_ROWS, &lead, look)
        }
        CallState::Done if call.is_program && call.output.trim_end().contains('\n') => {
            let excerpt = Excerpt::new(&call.output, 0, PROGRAM_LINES);
            let lines = excerpt.first.iter().rev().take(PROGRAM_LINES).rev().chain(&excerpt.last);
            lines.flat_map(|line| line_rows(line, 1, &lead, look)).collect()
        }
        _ => Vec::new(),
    }
}

/// Renders a failure: its beginning, its end, and hints.
fn failure(output: &str, lead: &Lead, look: &Look) -> Vec<Row> {
    let excerpt = Excerpt::of_failure(output);
    let line = |line: &&str| match line.trim_start().starts_with("hint: ") {
        true => coloured(line, lead, look),
        false => line_rows(line, LINE_ROWS, lead, look),
    };
    let mut rows: Vec<Row> = excerpt.first.iter().flat_map(line).collect();
    if let Some(more) = excerpt.more() {
        rows.push(Row::from_pieces(
            lead.continuation_prefix().iter().cloned().chain([StyledPiece::new(&more, look.theme.dim)]),
        ));
    }
    rows.extend(excerpt.hints.iter().chain(&excerpt.last).flat_map(line));
    rows
}

/// Renders a line of a program's output in at most so many rows, with a mark where it is cut off.
fn line_rows(line: &str, most: usize, lead: &Lead, look: &Look) -> Vec<Row> {
    // No more fits, regardless of the characters.
    let fitting = &line[..line.floor_char_boundary(look.columns.saturating_mul(most).saturating_mul(16))];
    let mut rows = coloured(fitting, lead, look);
    if rows.len() > most {
        rows.truncate(most);
        if let Some(row) = rows.last_mut() {
            let room = look.columns.saturating_sub(row.width());
            row.push(StyledPiece::line("…", room, look.theme.dim));
        }
    }
    rows
}

/// Returns the first rows, and says how many are missing.
fn beginning(mut rows: Vec<Row>, most: usize, lead: &Lead, look: &Look) -> Vec<Row> {
    let hidden = rows.len().saturating_sub(most);
    if hidden > 0 {
        rows.truncate(most);
        let more = StyledPiece::new(&format!("… {}", count(hidden as u64, "more row")), look.theme.dim);
        rows.push(Row::from_pieces(lead.continuation_prefix().iter().cloned().chain([more])));
    }
    rows
}

fn agent_rows(agent: &SubAgent, is_unfolded: bool, look: &Look) -> Vec<Row> {
    let theme = &look.theme;
    let indent = "  ".repeat(agent.depth.min(8) + 1);
    let branch = match agent.depth.min(8) {
        0 => indent.clone(),
        depth => "  ".repeat(depth) + "└ ",
    };
    let mark = match (&agent.end, agent.is_done) {
        (None, _) => ("◇ ", theme.accent),
        (Some(_), true) => ("◆ ", theme.good),
        (Some(_), false) => ("✗ ", theme.error),
    };
    let room = look.columns.saturating_sub(indent.len() + 2);
    let name = match (agent.is_branch, agent.title.is_empty()) {
        // Branches differ in their models, and their task is the prompt above them.
        (true, _) if !agent.model.is_empty() => agent.model.clone(),
        (_, true) => agent.name.clone(),
        (_, false) => {
            let title = StyledPiece::line(&agent.title, room / 2, theme.text);
            format!("{} “{}”", agent.name, title.text())
        }
    };
    let name = if agent.is_kept { format!("{name} · kept") } else { name };
    let left = room.saturating_sub(crate::rows::width(StyledPiece::line(&name, room, theme.text).text()) + 3);
    let last = agent.calls.last().map(|call| call.label(left));
    let state = agent.end.clone().or(last).unwrap_or_else(|| "starting".to_owned());
    let text = format!("{name} · {state}");
    let mut rows = vec![Row::from_pieces([
        StyledPiece::new(&branch, theme.dim),
        StyledPiece::new(mark.0, mark.1),
        StyledPiece::line(&text, room, theme.text),
    ])];
    if !is_unfolded {
        return rows;
    }
    let room = room.saturating_sub(4);
    let model = StyledPiece::line(&agent.model, room, theme.dim);
    rows.push(Row::from_pieces([StyledPiece::new(&indent, theme.text), StyledPiece::new("│ ", theme.dim), model]));
    for call in &agent.calls {
        agent_call_rows(call, &indent, look, &mut rows);
    }
    let lead = Lead::same(vec![StyledPiece::new(&format!("{indent}│ "), theme.dim)]);
    if agent.end.is_some() && !agent.words.trim().is_empty() {
        wrap(&[StyledPiece::new(agent.words.trim(), theme.dim)], look.columns, &lead, &mut rows);
    }
    rows
}

/// Appends the row of a sub-agent's call, and below it parts of a failure and the resources it used.
fn agent_call_rows(call: &AgentCall, indent: &str, look: &Look, rows: &mut Vec<Row>) {
    let theme = &look.theme;
    let (mark, style) = match call.state {
        CallState::Failed => ("✗ ", theme.error),
        CallState::Done => ("✓ ", theme.good),
        _ => ("○ ", theme.accent),
    };
    let mut row = Row::from_pieces([
        StyledPiece::new(indent, theme.text),
        StyledPiece::new("├ ", theme.dim),
        StyledPiece::new(mark, style),
    ]);
    let room = look.columns.saturating_sub(row.width() + 2);
    row.push(StyledPiece::line(&call.label(room), room, theme.dim));
    rows.push(row);
    let lead = Lead::same(vec![StyledPiece::new(&format!("{indent}│   "), theme.dim)]);
    if !call.failure.is_empty() {
        rows.extend(failure(&call.failure, &lead, look));
    }
    if let Some(ledger) = &call.ledger {
        ledger_rows(ledger, &lead, look, rows);
    }
}

/// The way items are rendered.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) theme: Theme,
    pub(crate) columns: usize,
    /// Shows the model's reasoning completely.
    pub(crate) has_thinking: bool,
    /// Shows all results and sub-agents completely.
    pub(crate) is_unfolded: bool,
    /// Shows the resource use of each call.
    pub(crate) has_ledgers: bool,
    /// Also shows the grants of its plugin.
    pub(crate) has_grants: bool,
    /// Shows the old lines of a diff next to the new ones.
    pub(crate) has_sides: bool,
    pub(crate) highlights: Highlights,
}

impl Look {
    /// Returns whether items are rendered the same way.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let flags = |look: &Self| (look.columns, look.has_thinking, look.is_unfolded, look.has_ledgers, look.has_sides);
        flags(self) == flags(other) && self.theme == other.theme
    }

    /// Returns the place for Markdown whose rows begin with `lead`.
    pub(super) fn paper<'a>(&'a self, lead: &'a StyledPiece) -> Paper<'a> {
        let lead = std::slice::from_ref(lead);
        Paper { columns: self.columns, has_sides: self.has_sides, ..Paper::new(lead, &self.theme, &self.highlights) }
    }
}
