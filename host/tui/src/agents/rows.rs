//! The tree on the screen.
//!
//! Each node is a row: name, state, task, turns, tokens, cost and time. A narrow screen keeps name, state, task and cost.
//! A row below an active node names its activity, while there is room; a node that waits for an answer always has it.
//! The rows at the end are about the selected node.

use crate::agents::node::{AgentNode, NodeKind, NodeState};
use crate::agents::tree::AgentTree;
use crate::rows::{Row, StyledPiece, width};
use crate::shorten::{short, without_middle};
use crate::theme::Theme;
use pinion_protocol::text::{count, one_line};
use ratatui_core::style::Style;
use std::time::Duration;

/// Columns from which a row has all numbers, and from which it also has the model.
const MEDIUM: usize = 60;
const WIDE: usize = 110;
/// Rows from which there is a head with the names of the columns.
const HEAD_ROWS: usize = 12;
/// Rows about the selected node, where there is room.
const DETAIL_ROWS: usize = 2;
/// Least rows for details besides the list.
const LEAST_ROWS: usize = 5;

/// The widths of the columns; 0 leaves a column out.
struct TreeColumns {
    name: usize,
    task: usize,
    model: usize,
    turns: usize,
    tokens: usize,
    cost: usize,
    time: usize,
}

/// Columns of the mark before a name, and of the state.
const MARK: usize = 2;
const STATE: usize = 6;
/// Generations that are indented.
const MAX_INDENT: usize = 3;
/// Characters of a name, and columns at its end that remain if it is cut.
const MAX_NAME: usize = 100;
const NUMBER: usize = 3;

impl TreeColumns {
    fn new(columns: usize) -> Self {
        let (name, model, turns, tokens, cost, time) = match columns {
            ..MEDIUM => (12, 0, 0, 0, 6, 0),
            MEDIUM..WIDE => (16, 0, 5, 6, 7, 7),
            _ => (20, 24, 5, 7, 8, 8),
        };
        let behind = [model, turns, tokens, cost, time].into_iter().filter(|width| *width > 0);
        let used = MARK + name + 1 + STATE + 1 + behind.map(|width| width + 1).sum::<usize>();
        Self { name, task: columns.saturating_sub(used), model, turns, tokens, cost, time }
    }
}

impl AgentTree {
    /// Draws the tree into at most `height` rows, with one node selected.
    pub(crate) fn rows(
        &self,
        columns: usize,
        height: usize,
        selected: usize,
        now: Duration,
        theme: &Theme,
    ) -> Vec<Row> {
        let order = self.order();
        let mut rows = vec![Row::from_pieces([StyledPiece::line(&self.summary(), columns, theme.heading)])];
        if height >= HEAD_ROWS {
            rows.push(head(&TreeColumns::new(columns), theme));
        }
        let details = if height >= LEAST_ROWS { DETAIL_ROWS } else { 0 };
        let room = height.saturating_sub(rows.len() + details).max(1);
        let waiting = order.iter().filter(|at| self.nodes()[**at].state == NodeState::Waits).count();
        let mut spare = room.saturating_sub(order.len() + waiting);
        let mut list = Vec::new();
        let mut first = 0;
        for at in order {
            let Some(node) = self.node(at) else { continue };
            if at == selected {
                first = list.len();
            }
            list.push(line(node, columns, at == selected, now, theme));
            let has_room = spare > 0 && node.state.is_active() && node.kind != NodeKind::Conversation;
            if node.state == NodeState::Waits {
                list.extend(activity_row(node, columns, theme));
            } else if has_room && let Some(row) = activity_row(node, columns, theme) {
                list.push(row);
                spare -= 1;
            }
        }
        let top = first.saturating_sub(room / 2).min(list.len().saturating_sub(room));
        rows.extend(list.into_iter().skip(top).take(room));
        if details > 0 {
            rows.resize(height - details, Row::default());
            rows.extend(self.node(selected).map(|node| detail_rows(node, columns, now, theme)).into_iter().flatten());
        }
        rows.truncate(height);
        rows
    }

    /// Counts the nodes by state.
    pub(crate) fn summary(&self) -> String {
        let states = [NodeState::Waits, NodeState::Works, NodeState::Done, NodeState::Failed, NodeState::Stopped];
        let others = || self.nodes().iter().skip(1);
        let part = |state: NodeState| {
            let number = others().filter(|node| node.state == state).count();
            (number > 0).then(|| {
                format!("{number} {}", if state == NodeState::Waits { "waiting for you" } else { plural(state) })
            })
        };
        let parts: Vec<String> = states.into_iter().filter_map(part).collect();
        match self.nodes().len() {
            1 => "no sub-agents yet".to_owned(),
            number => format!("{} · {}", count(number as u64 - 1, "agent"), parts.join(" · ")),
        }
    }
}

fn plural(state: NodeState) -> &'static str {
    if state == NodeState::Works { "at work" } else { state.word() }
}

/// Fits a text into a column, to the left or to the right.
fn cell(text: &str, columns: usize, is_right: bool, style: Style) -> StyledPiece {
    let text = StyledPiece::line(text, columns, style);
    let blanks = " ".repeat(columns.saturating_sub(width(text.text())));
    let padded = if is_right { blanks + text.text() } else { text.text().to_owned() + &blanks };
    StyledPiece::new(&padded, style)
}

fn joined(mark: StyledPiece, cells: Vec<StyledPiece>, blank: Style) -> Row {
    let mut row = Row::from_pieces([mark]);
    for (at, piece) in cells.into_iter().filter(|piece| !piece.text().is_empty()).enumerate() {
        if at > 0 {
            row.push(StyledPiece::new(" ", blank));
        }
        row.push(piece);
    }
    row
}

fn head(of: &TreeColumns, theme: &Theme) -> Row {
    let cells = vec![
        cell("agent", of.name, false, theme.dim),
        cell("state", STATE, false, theme.dim),
        cell("task", of.task, false, theme.dim),
        cell("model", of.model, false, theme.dim),
        cell("turns", of.turns, true, theme.dim),
        cell("tokens", of.tokens, true, theme.dim),
        cell("cost", of.cost, true, theme.dim),
        cell("time", of.time, true, theme.dim),
    ];
    joined(StyledPiece::new("  ", theme.dim), cells, theme.dim)
}

fn line(node: &AgentNode, columns: usize, is_selected: bool, now: Duration, theme: &Theme) -> Row {
    let of = TreeColumns::new(columns);
    let state = match node.state {
        NodeState::Ready => theme.dim,
        NodeState::Works => theme.accent,
        NodeState::Waits => theme.warning,
        NodeState::Done => theme.good,
        NodeState::Failed | NodeState::Stopped => theme.error,
    };
    let (text, mark) = if is_selected { (theme.strong, "› ") } else { (theme.text, "  ") };
    let cells = vec![
        name_cell(node, of.name, text),
        cell(node.state.word(), STATE, false, state),
        cell(&node.task, of.task, false, text),
        cell(&node.model, of.model, false, theme.dim),
        cell(&node.turns().to_string(), of.turns, true, theme.dim),
        cell(&compact(node.spend().usage.total()), of.tokens, true, theme.dim),
        cell(&cost(node), of.cost, true, theme.dim),
        cell(&clock(node.time(now)), of.time, true, theme.dim),
    ];
    joined(StyledPiece::new(mark, theme.user), cells, theme.dim)
}

/// Returns the row below a node with its activity.
fn activity_row(node: &AgentNode, columns: usize, theme: &Theme) -> Option<Row> {
    let (activity, lead) = (node.activity(), " ".repeat(MARK + 2 * node.depth));
    let style = if node.state == NodeState::Waits { theme.warning } else { theme.dim };
    let text = StyledPiece::line(&activity, columns.saturating_sub(lead.len() + 2), style);
    let row = Row::from_pieces([StyledPiece::new(&lead, style), StyledPiece::new("· ", style), text]);
    (!activity.is_empty()).then_some(row)
}

/// Returns the rows about the selected node.
fn detail_rows(node: &AgentNode, columns: usize, now: Duration, theme: &Theme) -> [Row; DETAIL_ROWS] {
    let activity = match node.activity() {
        activity if activity.is_empty() => String::new(),
        activity => format!(" · {activity}"),
    };
    let named = format!("{}{activity} · {}", node.name, node.task);
    let numbers = [
        count(u64::from(node.turns()), "turn"),
        format!("{} tokens", compact(node.spend().usage.total())),
        cost(node),
        clock(node.time(now)),
        node.model.clone(),
    ];
    let numbers: Vec<String> = numbers.into_iter().filter(|part| !part.is_empty()).collect();
    [(named, theme.text), (numbers.join(" · "), theme.dim)]
        .map(|(text, style)| Row::from_pieces([StyledPiece::line(&text, columns, style)]))
}

/// Fits a name into its column, below the name of its parent.
fn name_cell(node: &AgentNode, columns: usize, style: Style) -> StyledPiece {
    let Some(above) = node.depth.checked_sub(1) else { return cell(&node.name, columns, false, style) };
    let indent = "  ".repeat(above.min(MAX_INDENT));
    let room = columns.saturating_sub(indent.len());
    // The number at the end tells agents of one kind apart.
    let name = without_middle(&one_line(&format!("└ {}", node.name), MAX_NAME), room, NUMBER);
    let name = cell(&name, room, false, style);
    StyledPiece::new(&(indent + name.text()), style)
}

/// Formats a number of tokens: `950`, `1.2k`, `3.4M`.
pub(super) fn compact(tokens: u64) -> String {
    short(tokens).replace(' ', "")
}

/// Formats a cost in US dollars; empty if no price is known.
pub(super) fn cost(node: &AgentNode) -> String {
    match node.spend().cost.map(|cost| cost.total()) {
        Some(cost) if cost < 0.1 => format!("${cost:.3}"),
        Some(cost) => format!("${cost:.2}"),
        None => String::new(),
    }
}

/// Formats a duration: `0:12`, `3:20`, `1:05:00`.
pub(super) fn clock(time: Duration) -> String {
    let (hours, minutes, seconds) = (time.as_secs() / 3600, time.as_secs() / 60 % 60, time.as_secs() % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}
