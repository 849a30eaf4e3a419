//! Rows of drawings. Everything in them is a plugin's, and stands behind a bar.

use crate::markdown;
use crate::rows::{Lead, Row, StyledPiece, wrap};
use crate::theme::Theme;
use crate::transcript::items::Drawing;
use crate::transcript::look::Look;
use pinion_protocol::{DrawingBlock, Span, SpanStyle};
use ratatui_core::style::Style;

/// Rows of a drawing.
const MAX_ROWS: usize = 200;

/// Renders a drawing.
pub(super) fn rows(drawing: &Drawing, look: &Look) -> Vec<Row> {
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
