//! Rows of results that are source code, and of drawings.

use crate::highlight::pieces_of;
use crate::markdown;
use crate::rows::{Lead, Row, StyledPiece, wrap};
use crate::theme::Theme;
use crate::transcript::items::Drawing;
use crate::transcript::render::Look;
use pinion_protocol::{DrawingBlock, Span, SpanStyle};
use ratatui_core::style::Style;

/// Renders code. Numbers of lines, as `read` puts them before a tab, stay apart from it.
pub(super) fn code_rows(text: &str, language: &str, lead: &Lead, look: &Look) -> Vec<Row> {
    let theme = &look.theme;
    let mut lines: Vec<(&str, &str)> = text.trim_end().split('\n').map(numbered).collect();
    // Among numbered lines, the others are remarks of the tool.
    if lines.iter().any(|(number, _)| !number.is_empty()) {
        lines
            .iter_mut()
            .filter(|(number, _)| number.is_empty())
            .for_each(|(number, code)| std::mem::swap(number, code));
    }
    let code: Vec<&str> = lines.iter().map(|(_, code)| *code).collect();
    let parts = look.highlights.parts(language, &code, true);
    let mut rows = Vec::new();
    for (at, (number, code)) in lines.iter().enumerate() {
        let mut pieces = vec![StyledPiece::new(number, theme.dim)];
        match parts.get(at) {
            Some(parts) => pieces
                .extend(pieces_of(code, parts).map(|(text, part)| StyledPiece::new(text, theme.syntax_style(part)))),
            None => pieces.push(StyledPiece::new(code, theme.code)),
        }
        wrap(&pieces, look.columns, &lead.of_code(number, code, look.columns), &mut rows);
    }
    rows
}

/// Splits a line into its number, with the text around it, and its code.
fn numbered(line: &str) -> (&str, &str) {
    let number = line.find('\t').filter(|at| {
        let number = line[..*at].trim_start();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    line.split_at(number.map_or(0, |at| at + 1))
}

/// Rows of a drawing.
const MAX_ROWS: usize = 200;

/// Renders a drawing.
pub(super) fn drawing_rows(drawing: &Drawing, look: &Look) -> Vec<Row> {
    let theme = &look.theme;
    let bar = StyledPiece::new("  │ ", theme.dim);
    let lead = Lead::same(vec![bar.clone()]);
    let mut rows = Vec::new();
    for block in &drawing.blocks {
        if let DrawingBlock::Markdown { text } = block {
            rows.extend(markdown::rows(text, look.paper(&bar)));
            continue;
        }
        for line in block.lines() {
            let piece = |span: &Span| StyledPiece::new(&span.text.replace('\n', " "), style(span.style, theme));
            let pieces: Vec<StyledPiece> = line.iter().map(piece).collect();
            wrap(&pieces, look.columns, &lead, &mut rows);
        }
    }
    rows.truncate(MAX_ROWS);
    rows
}

fn style(style: SpanStyle, theme: &Theme) -> Style {
    match style {
        SpanStyle::Plain => theme.text,
        SpanStyle::Strong => theme.strong,
        SpanStyle::Dim => theme.dim,
        SpanStyle::Accent => theme.accent,
        SpanStyle::Success => theme.good,
        SpanStyle::Warning => theme.warning,
        SpanStyle::Error => theme.error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_lines_stay_apart_from_the_code() {
        assert_eq!(numbered("    12\tlet x;\ty"), ("    12\t", "let x;\ty"));
        assert_eq!(numbered("\tlet x;"), ("", "\tlet x;"));
        assert_eq!(numbered("a1\tb"), ("", "a1\tb"));
        assert_eq!(numbered("[3 more lines]"), ("", "[3 more lines]"));
    }
}
