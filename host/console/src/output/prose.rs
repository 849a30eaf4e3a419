//! Markdown of models and commands as rows of lines.

use crate::output::terminal::{Style, is_linear, size};
use pinion_agent::text::bounded;
use pinion_app::output::Text;
use pinion_tui::terminal::printed;
use pinion_tui::{PrintedRow, Theme};

/// Maximum lines and characters of a page that a plugin prints.
const MAX_PAGE: (usize, usize) = (2_000, 200_000);
/// Columns of rows that go to no terminal.
const WIDE: usize = 10_000;

/// Markdown that arrives in pieces, such as a model's answer. Every row is indented, so that it cannot be mistaken for
/// a row of the host.
#[derive(Debug)]
pub struct Prose {
    rows: pinion_tui::Prose,
    style: Style,
}

impl Prose {
    /// Begins a text that is laid out for the width of the terminal.
    pub fn new(style: Style) -> Self {
        let columns = size().map_or(WIDE, |(columns, _)| columns);
        Self { rows: pinion_tui::Prose::new(columns, Theme::colours(), is_linear()), style }
    }

    /// Takes a piece and returns the blocks that it completes, each row with its end.
    pub fn push(&mut self, piece: &str) -> Text {
        rows(&self.rows.push(piece), self.style)
    }

    /// Returns whether a part of the text was not written yet.
    pub fn is_open(&self) -> bool {
        self.rows.is_open()
    }

    /// Returns the text that was not written yet, because something else follows.
    pub fn flush(&mut self) -> Text {
        rows(&self.rows.flush(), self.style)
    }

    /// Ends the text and returns the rest of it.
    pub fn end(&mut self) -> Text {
        rows(&self.rows.end(), self.style)
    }
}

/// Returns rows of the UI, each with its end.
pub fn rows(rows: &[PrintedRow], style: Style) -> Text {
    // They consist of text that was neutralized.
    Text::neutral(printed(rows, style == Style::Colour, false))
}

/// Renders a complete text of Markdown, bounded and without a final newline.
pub fn page(markdown: &str, style: Style) -> Text {
    let (lines, characters) = MAX_PAGE;
    let mut prose = Prose::new(style);
    let mut text = prose.push(&bounded(markdown, lines, characters));
    text.push(prose.end());
    Text::neutral(text.as_str().trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_laid_out_and_neutral() {
        let text = page("# Title\n\n| a | b |\n|---|---|\n| \x1b[2J | `c` |\n", Style::Plain);
        assert_eq!(text.as_str(), "  Title\n\n  a    │ b\n  ─────┼──\n  ␛[2J │ c");
        assert!(page("**bold**", Style::Colour).as_str().contains("\x1b[0;1mbold"));
    }
}
