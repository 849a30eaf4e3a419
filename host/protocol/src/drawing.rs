//! Drawings: calls and results as plugins show them to people.

use crate::diff::{DiffLine, lines};
use serde::{Deserialize, Serialize};

/// Columns of the bar of a [`DrawingBlock::Bar`].
const BAR_COLUMNS: u64 = 20;
/// Columns of a table's cell; longer ones are cut.
const MAX_CELL: usize = 40;

/// The part of a call that a drawing replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrawnPart {
    /// The row with the arguments.
    Call,
    /// The content of the result.
    Result,
}

/// The appearance of a [`Span`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanStyle {
    /// Text without emphasis.
    #[default]
    Plain,
    /// Emphasized text.
    Strong,
    /// Text of less importance.
    Dim,
    /// The accent colour.
    Accent,
    /// Success.
    Success,
    /// A warning.
    Warning,
    /// A failure.
    Error,
}

/// A piece of styled text without line ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The text.
    pub text: String,
    /// Its appearance.
    #[serde(default)]
    pub style: SpanStyle,
}

impl Span {
    /// Creates a span.
    pub fn new(text: impl Into<String>, style: SpanStyle) -> Self {
        Self { text: text.into(), style }
    }
}

/// A part of a drawing. Its text is untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DrawingBlock {
    /// Lines of styled text.
    Lines {
        /// The spans of each line.
        lines: Vec<Vec<Span>>,
    },
    /// A table. Rows may be shorter than the header.
    Table {
        /// Titles of the columns.
        header: Vec<String>,
        /// Cells of each row.
        rows: Vec<Vec<String>>,
    },
    /// A unified diff.
    Diff {
        /// The diff.
        text: String,
    },
    /// Markdown.
    Markdown {
        /// The source.
        text: String,
    },
    /// A bar that shows progress.
    Bar {
        /// Text before the bar.
        label: String,
        /// Steps that are done.
        done: u32,
        /// All steps; `None` when the end is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u32>,
    },
}

impl DrawingBlock {
    /// Renders the block as lines of styled text, for displays without their own renderer for it. Markdown stays as it
    /// is.
    pub fn lines(&self) -> Vec<Vec<Span>> {
        let plain = |line: &str| vec![Span::new(line, SpanStyle::Plain)];
        match self {
            Self::Lines { lines } => lines.clone(),
            Self::Table { header, rows } => table(header, rows),
            Self::Diff { text } => lines(text).map(|(kind, line)| diff_line(kind, line)).collect(),
            Self::Markdown { text } => text.lines().map(plain).collect(),
            Self::Bar { label, done, total } => vec![bar(label, *done, *total)],
        }
    }
}

fn diff_line(kind: DiffLine, line: &str) -> Vec<Span> {
    let style = match kind {
        DiffLine::Added => SpanStyle::Success,
        DiffLine::Removed => SpanStyle::Error,
        DiffLine::Hunk => SpanStyle::Accent,
        DiffLine::File | DiffLine::Same => SpanStyle::Plain,
    };
    vec![Span::new(line, style)]
}

fn table(header: &[String], rows: &[Vec<String>]) -> Vec<Vec<Span>> {
    let cell = |row: &[String], at: usize| row.get(at).map_or(String::new(), |cell| crate::text::clip(cell, MAX_CELL));
    let all = std::iter::once(header).chain(rows.iter().map(Vec::as_slice));
    let widths: Vec<usize> =
        (0..header.len()).map(|at| all.clone().map(|row| cell(row, at).chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String]| {
        let cells = widths.iter().enumerate().map(|(at, width)| format!("{:<width$}", cell(row, at)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = vec![Span::new(line(header), SpanStyle::Strong)];
    std::iter::once(head).chain(rows.iter().map(|row| vec![Span::new(line(row), SpanStyle::Plain)])).collect()
}

fn bar(label: &str, done: u32, total: Option<u32>) -> Vec<Span> {
    let label = Span::new(format!("{label} "), SpanStyle::Plain);
    let Some(total) = total.filter(|total| *total > 0) else {
        return vec![label, Span::new(done.to_string(), SpanStyle::Dim)];
    };
    let done = done.min(total);
    let full = u64::from(done) * BAR_COLUMNS / u64::from(total);
    let signs = |sign: &str, n: u64| sign.repeat(usize::try_from(n).unwrap_or(0));
    vec![
        label,
        Span::new(signs("█", full), SpanStyle::Accent),
        Span::new(format!("{} {done}/{total}", signs("░", BAR_COLUMNS - full)), SpanStyle::Dim),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(block: &DrawingBlock) -> String {
        let line = |line: Vec<Span>| line.into_iter().map(|span| span.text).collect::<String>();
        block.lines().into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn blocks_become_lines() {
        let strings = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let rows = vec![strings(&["a"]), strings(&["bcd", "2", "cut"])];
        assert_eq!(text(&DrawingBlock::Table { header: strings(&["x", "n"]), rows }), "x    n\na\nbcd  2");
        let bar = |done, total| text(&DrawingBlock::Bar { label: "go".into(), done, total });
        assert_eq!(bar(5, Some(10)), format!("go {}{} 5/10", "█".repeat(10), "░".repeat(10)));
        assert_eq!((bar(7, None), bar(u32::MAX, Some(1))), ("go 7".into(), format!("go {} 1/1", "█".repeat(20))));
    }
}
