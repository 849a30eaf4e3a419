//! The blocks of drawings: their bounds, and their conversion.

use crate::bindings::pinion::plugin::ui as wit;
use pinion_protocol::text::{one_line, without_controls};
use pinion_protocol::{DrawingBlock, Span, SpanStyle};

/// Rows and bytes of a drawing.
const MAX_ROWS: usize = 200;
const MAX_BYTES: usize = 64 * 1024;
/// Bytes that a span, a cell or a block counts besides its text.
const PART_BYTES: usize = 16;
/// Columns of a table.
const MAX_COLUMNS: usize = 32;
/// Characters of a line, a cell and a label.
const MAX_LINE: usize = 4_000;
const MAX_CELL: usize = 200;

/// Returns the bytes that blocks count.
pub fn bytes(blocks: &[wit::Block]) -> usize {
    let cells = |cells: &[String]| cells.iter().map(|cell| cell.len() + PART_BYTES).sum::<usize>();
    let block = |block: &wit::Block| match block {
        wit::Block::Lines(lines) => {
            let line = |line: &Vec<wit::Span>| line.iter().map(|span| span.text.len() + PART_BYTES).sum::<usize>();
            lines.iter().map(|l| line(l) + PART_BYTES).sum()
        }
        wit::Block::Table(table) => {
            cells(&table.header) + table.rows.iter().map(|row| cells(row) + PART_BYTES).sum::<usize>()
        }
        wit::Block::Diff(text) | wit::Block::Markdown(text) | wit::Block::Other(text) => text.len(),
        wit::Block::Bar(bar) => bar.label.len(),
    };
    blocks.iter().map(|b| block(b) + PART_BYTES).sum()
}

/// Converts blocks.
///
/// # Errors
/// They exceed a bound; the text says which.
pub fn checked(blocks: Vec<wit::Block>) -> Result<Vec<DrawingBlock>, String> {
    let size = bytes(&blocks);
    if size > MAX_BYTES {
        return Err(format!("a drawing of {size} bytes, of at most {MAX_BYTES}"));
    }
    let columns = |block: &wit::Block| if let wit::Block::Table(table) = block { table.header.len() } else { 0 };
    if let Some(columns) = blocks.iter().map(columns).find(|columns| *columns > MAX_COLUMNS) {
        return Err(format!("a table of {columns} columns, of at most {MAX_COLUMNS}"));
    }
    let blocks: Vec<DrawingBlock> = blocks.into_iter().map(block).collect();
    let rows: usize = blocks.iter().map(|block| block.lines().len()).sum();
    if rows > MAX_ROWS {
        return Err(format!("a drawing of {rows} rows, of at most {MAX_ROWS}"));
    }
    Ok(blocks)
}

fn block(block: wit::Block) -> DrawingBlock {
    let cells = |cells: Vec<String>| cells.iter().map(|cell| line(cell, MAX_CELL)).collect::<Vec<_>>();
    match block {
        wit::Block::Lines(lines) => {
            let spans = |spans: Vec<wit::Span>| spans.into_iter().map(span).collect();
            DrawingBlock::Lines { lines: lines.into_iter().map(spans).collect() }
        }
        wit::Block::Table(table) => {
            DrawingBlock::Table { header: cells(table.header), rows: table.rows.into_iter().map(cells).collect() }
        }
        wit::Block::Diff(text) => DrawingBlock::Diff { text: without_controls(&text) },
        wit::Block::Markdown(text) => DrawingBlock::Markdown { text: without_controls(&text) },
        wit::Block::Bar(bar) => {
            DrawingBlock::Bar { label: line(&bar.label, MAX_CELL), done: bar.done, total: bar.total }
        }
        wit::Block::Other(json) => {
            let parsed: Option<serde_json::Value> = serde_json::from_str(&json).ok();
            let text = parsed.as_ref().and_then(|value| value.get("text")?.as_str()).unwrap_or_default();
            let line = |text: &str| vec![Span::new(without_controls(text), SpanStyle::Plain)];
            DrawingBlock::Lines { lines: text.lines().map(line).collect() }
        }
    }
}

/// Cleans a line, keeping the blanks at its beginning.
fn line(text: &str, characters: usize) -> String {
    let indent: String = text.chars().take_while(|c| *c == ' ').take(characters).collect();
    format!("{indent}{}", one_line(&without_controls(text), characters))
}

fn span(span: wit::Span) -> Span {
    let style = match span.style {
        wit::Style::Plain => SpanStyle::Plain,
        wit::Style::Strong => SpanStyle::Strong,
        wit::Style::Dim => SpanStyle::Dim,
        wit::Style::Accent => SpanStyle::Accent,
        wit::Style::Success => SpanStyle::Success,
        wit::Style::Warning => SpanStyle::Warning,
        wit::Style::Error => SpanStyle::Error,
    };
    let text: String = without_controls(&span.text).replace('\n', " ");
    Span::new(pinion_protocol::text::clip(&text, MAX_LINE), style)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> wit::Span {
        wit::Span { text: text.to_owned(), style: wit::Style::Strong }
    }

    #[test]
    fn drawings_are_bounded_in_rows_bytes_and_columns() {
        let lines = |n| wit::Block::Lines((0..n).map(|_| vec![span("x")]).collect());
        assert!(checked(vec![lines(100), lines(100)]).is_ok());
        assert!(checked(vec![lines(100), lines(101)]).unwrap_err().contains("rows"));
        assert!(checked(vec![wit::Block::Markdown("x".repeat(MAX_BYTES))]).unwrap_err().contains("bytes"));
        let wide = wit::Table { header: vec![String::new(); 33], rows: Vec::new() };
        assert!(checked(vec![wit::Block::Table(wide)]).unwrap_err().contains("columns"));
    }

    #[test]
    fn drawings_contain_no_control_characters() {
        let drawn = checked(vec![
            wit::Block::Lines(vec![vec![span("  a\x1b[2J\nb\u{202e}")]]),
            wit::Block::Other(r#"{"text": "c\u0007"}"#.to_owned()),
        ]);
        let text: Vec<String> =
            drawn.unwrap().iter().flat_map(DrawingBlock::lines).flatten().map(|span| span.text).collect();
        assert_eq!(text, ["  a[2J b\\u{202e}", "c"]);
    }
}
