//! Rows of the screen: styled text that is neutralized and wrapped.
//!
//! A [`StyledPiece`] is the only text that is drawn, and its constructor passes everything through [`printable`]. Widths are
//! widths of grapheme clusters, as the cells of the screen count them.

use crate::links;
use crate::shorten::without_end;
use pinion_protocol::text::{one_line, printable};
use ratatui_core::style::Style;
use std::ops::Range;
use std::sync::Arc;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Columns between tab stops.
const TAB: usize = 4;
/// Stands for a cluster that is wider than the screen.
const TOO_WIDE: &str = "\u{fffd}";

/// Neutralized text in one style.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StyledPiece {
    text: String,
    style: Style,
    /// Target of the link that the text is.
    link: Option<Arc<str>>,
}

impl StyledPiece {
    /// Neutralizes a text. Newlines and tabs remain; [`wrap`] turns them into rows and blanks.
    pub(crate) fn new(text: &str, style: Style) -> Self {
        Self { text: printable(text).into_owned(), style, link: None }
    }

    /// Makes the text a link.
    pub(crate) fn linked(self, link: Option<Arc<str>>) -> Self {
        Self { link, ..self }
    }

    /// Neutralizes a text as a single line of at most `columns`, marking a cut with `…`.
    pub(crate) fn line(text: &str, columns: usize, style: Style) -> Self {
        Self { text: without_end(&one_line(text, columns.saturating_add(1)), columns), style, link: None }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    pub(crate) fn link(&self) -> Option<&Arc<str>> {
        self.link.as_ref()
    }

    /// Makes links of the addresses in the text.
    pub(crate) fn with_links(self, style: Style) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut rest = self.text.as_str();
        while let Some(range) = links::find(rest).filter(|_| self.link.is_none()) {
            let (before, address) = (&rest[..range.start], &rest[range.clone()]);
            let part = |text: &str| Self { text: text.to_owned(), style: self.style, link: None };
            pieces.extend(Some(part(before)).filter(|part| !part.text.is_empty()));
            pieces.push(Self { style: self.style.patch(style), ..part(address) }.linked(links::target(address)));
            rest = &rest[range.end..];
        }
        if pieces.is_empty() {
            return vec![self];
        }
        if !rest.is_empty() {
            pieces.push(Self { text: rest.to_owned(), style: self.style, link: None });
        }
        pieces
    }
}

/// One row of the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pieces: Vec<StyledPiece>,
    /// It is the first row of a message of the user.
    pub(crate) begins_prompt: bool,
    /// It is the last one.
    pub(crate) ends_prompt: bool,
    /// Columns of the marks, blanks and bars before the text.
    pub(crate) lead: usize,
    /// The blanks between the text of the row above and this one, which continues it; `None` for a separate line.
    pub(crate) continues: Option<usize>,
    /// The text that copying takes from a row with borders.
    pub(crate) copied: Option<Copied>,
}

/// The text of a row with borders, such as one of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The text of the line that the row is a part of. Rows of one line share it.
    pub(crate) line: Arc<str>,
    /// The columns of each cell; empty for a rule, which is not copied.
    pub(crate) cells: Arc<[Range<usize>]>,
}

impl Copied {
    pub(crate) fn is_of_line(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.line, &other.line)
    }
}

impl Row {
    /// Creates a row from pieces of one line each.
    pub(crate) fn from_pieces(pieces: impl IntoIterator<Item = StyledPiece>) -> Self {
        Self { pieces: pieces.into_iter().collect(), ..Self::default() }
    }

    /// Creates a row with borders that has only its lead yet.
    pub(crate) fn bordered(lead: &[StyledPiece], copied: Copied) -> Self {
        let row = Self::from_pieces(lead.to_vec());
        Self { lead: row.width(), copied: Some(copied), ..row }
    }

    pub(crate) fn pieces(&self) -> &[StyledPiece] {
        &self.pieces
    }

    pub(crate) fn push(&mut self, piece: StyledPiece) {
        self.pieces.push(piece);
    }

    /// Returns the columns that the row occupies.
    pub(crate) fn width(&self) -> usize {
        self.pieces.iter().map(|piece| width(&piece.text)).sum()
    }

    /// Returns the text without its styles.
    pub(crate) fn plain(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    /// Returns the text in a range of columns.
    pub(crate) fn text_in(&self, columns: &Range<usize>) -> String {
        let mut at = 0;
        let clusters = self.pieces.iter().flat_map(|piece| piece.text.graphemes(true));
        let inside = clusters.filter(|cluster| {
            let from = at;
            at += cluster_width(cluster);
            from < columns.end && at > columns.start
        });
        inside.collect()
    }

    /// Returns the columns of each place with this text, which is in small letters.
    pub(crate) fn places(&self, query: &str) -> Vec<Range<usize>> {
        let plain = self.plain();
        // Small letters may take more bytes than large ones.
        let (mut small, mut origins) = (String::new(), Vec::new());
        for (at, c) in plain.char_indices() {
            small.extend(c.to_lowercase());
            origins.resize(small.len(), at);
        }
        origins.push(plain.len());
        let column = |at: usize| width(&plain[..origins[at]]);
        small.match_indices(query).map(|(at, found)| column(at)..column(at + found.len())).collect()
    }

    /// Returns the row with a style laid over all of its pieces.
    pub(crate) fn patched(mut self, style: Style) -> Self {
        self.pieces.iter_mut().for_each(|piece| piece.style = piece.style.patch(style));
        self
    }

    /// Appends a grapheme cluster of a piece.
    fn push_cluster(&mut self, cluster: &str, of: &StyledPiece) {
        match self.pieces.last_mut().filter(|last| last.style == of.style && last.link == of.link) {
            Some(last) => last.text.push_str(cluster),
            None => self.pieces.push(StyledPiece { text: cluster.to_owned(), style: of.style, link: of.link.clone() }),
        }
    }

    /// Removes the blanks at the end and returns their number.
    fn trim_end(&mut self) -> usize {
        let mut removed = 0;
        while let Some(last) = self.pieces.last_mut() {
            let length = last.text.len();
            last.text.truncate(last.text.trim_end_matches(' ').len());
            removed += length - last.text.len();
            if !last.text.is_empty() {
                break;
            }
            self.pieces.pop();
        }
        removed
    }
}

/// Returns the columns that a neutralized text occupies.
pub(crate) fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.graphemes(true).map(cluster_width).sum(),
    }
}

/// Returns the columns of a grapheme cluster.
pub(crate) fn cluster_width(cluster: &str) -> usize {
    cluster.width()
}

/// The beginning of the first row of a text, and the beginning of all further rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lead {
    first: Vec<StyledPiece>,
    rest: Vec<StyledPiece>,
    /// The number of pieces of both that are not part of the text. Rows that continue a line lack the other pieces,
    /// too.
    aside: usize,
}

impl Lead {
    pub(crate) fn new(first: Vec<StyledPiece>, rest: Vec<StyledPiece>) -> Self {
        let aside = first.len().max(rest.len());
        Self { first, rest, aside }
    }

    /// Makes the pieces from this one on a part of the text, such as the marker of an item.
    pub(crate) fn with_text_from(self, piece: usize) -> Self {
        Self { aside: self.aside.min(piece), ..self }
    }

    /// Returns the beginning of all rows but the first.
    pub(crate) fn continuation_prefix(&self) -> &[StyledPiece] {
        &self.rest
    }

    /// Returns the lead for a line of code behind another text, whose further rows stand below the code: they repeat
    /// its indentation, up to half of the width.
    pub(crate) fn of_code(&self, before: &str, line: &str, columns: usize) -> Self {
        let used = Row::from_pieces(self.rest.clone()).width();
        let blanks = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
        let indent =
            before.chars().chain(blanks).fold(used, |at, c| if c == '\t' { at + TAB - at % TAB } else { at + 1 });
        let blank = StyledPiece::new(&" ".repeat(indent.min(columns / 2).saturating_sub(used)), Style::new());
        Self::new(self.first.clone(), self.rest.iter().cloned().chain([blank]).collect())
    }

    /// Returns the lead with another text behind it that is no part of the line.
    pub(crate) fn with_aside(&self, text: &str, style: Style) -> Self {
        let blank = StyledPiece::new(&" ".repeat(text.chars().count()), Style::new());
        let first = self.first.iter().cloned().chain([StyledPiece::new(text, style)]);
        Self::new(first.collect(), self.rest.iter().cloned().chain([blank]).collect())
    }

    /// Sets the first row apart by further blanks.
    pub(crate) fn indented(mut self, blanks: &str) -> Self {
        self.first.push(StyledPiece::new(blanks, Style::new()));
        Self::new(self.first, self.rest)
    }

    /// Creates a lead that is the same for all rows.
    pub(crate) fn same(pieces: Vec<StyledPiece>) -> Self {
        Self::new(pieces.clone(), pieces)
    }
}

/// Wraps pieces at blanks into rows of at most `columns`, and appends the rows. Words that are longer are split.
pub(crate) fn wrap(pieces: &[StyledPiece], columns: usize, lead: &Lead, rows: &mut Vec<Row>) {
    let mut wrapper = Wrapper {
        columns,
        lead,
        rows,
        row: Row::default(),
        used: 0,
        is_fresh: true,
        word: Vec::new(),
        word_width: 0,
        dropped: 0,
    };
    wrapper.begin(&lead.first, None);
    for piece in pieces {
        for cluster in piece.text.graphemes(true) {
            wrapper.cluster(cluster, piece);
        }
    }
    wrapper.end_line();
}

struct Wrapper<'a> {
    columns: usize,
    lead: &'a Lead,
    rows: &'a mut Vec<Row>,
    row: Row,
    used: usize,
    /// True while the row consists of its lead only.
    is_fresh: bool,
    word: Vec<(&'a str, &'a StyledPiece)>,
    word_width: usize,
    /// Blanks that did not fit into the row.
    dropped: usize,
}

impl<'a> Wrapper<'a> {
    fn begin(&mut self, lead: &[StyledPiece], continues: Option<usize>) {
        let aside = if continues.is_some() { lead.len() } else { self.lead.aside.min(lead.len()) };
        let aside = lead[..aside].iter().map(|piece| width(&piece.text)).sum();
        self.row = Row { lead: aside, continues, ..Row::from_pieces(lead.to_vec()) };
        self.used = self.row.width();
        (self.is_fresh, self.dropped) = (true, 0);
    }

    fn cluster(&mut self, cluster: &'a str, of: &'a StyledPiece) {
        match cluster {
            "\n" | "\r\n" => {
                self.end_line();
                self.begin(&self.lead.rest, None);
            }
            "\t" => {
                self.flush();
                (0..TAB - self.used % TAB).for_each(|_| self.blank(of));
            }
            " " => {
                self.flush();
                self.blank(of);
            }
            _ => {
                let wide = cluster_width(cluster);
                // Scripts without blanks break between any two characters.
                if wide > 1 {
                    self.flush();
                }
                self.word.push((cluster, of));
                self.word_width += wide;
                if wide > 1 {
                    self.flush();
                }
            }
        }
    }

    fn blank(&mut self, of: &StyledPiece) {
        // A full row separates words as well.
        match self.used < self.columns {
            true => self.push_cluster(" ", 1, of),
            false => self.dropped += 1,
        }
    }

    fn flush(&mut self) {
        if self.used + self.word_width > self.columns && !self.is_fresh {
            self.break_row();
        }
        for (cluster, of) in std::mem::take(&mut self.word) {
            let wide = cluster_width(cluster);
            if self.used + wide > self.columns && !self.is_fresh {
                self.break_row();
            }
            if self.used + wide > self.columns {
                // Not even the beginning of a row has room for it.
                self.row = Row { continues: self.row.continues, ..Row::default() };
                self.used = 0;
            }
            let (cluster, wide) = if wide > self.columns { (TOO_WIDE, 1) } else { (cluster, wide) };
            self.push_cluster(cluster, wide, of);
        }
        self.word_width = 0;
    }

    fn push_cluster(&mut self, cluster: &str, wide: usize, of: &StyledPiece) {
        self.row.push_cluster(cluster, of);
        self.used += wide;
        self.is_fresh = false;
    }

    fn break_row(&mut self) {
        let blanks = self.push_row();
        self.begin(&self.lead.rest, Some(blanks));
    }

    fn end_line(&mut self) {
        self.flush();
        self.push_row();
    }

    /// Returns the number of blanks of the text that stood at its end.
    fn push_row(&mut self) -> usize {
        let mut row = std::mem::take(&mut self.row);
        let of_text = self.used.saturating_sub(row.lead);
        let blanks = row.trim_end().min(of_text) + self.dropped;
        self.rows.push(row);
        blanks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_text_are_columns_in_any_case() {
        let row = Row::from_pieces([StyledPiece::new("世İx A", Style::new()), StyledPiece::new("bc ab", Style::new())]);
        assert_eq!(row.places("ab"), [5..7, 9..11]);
        assert_eq!(row.places("x"), std::slice::from_ref(&(3..4)));
        assert_eq!(row.places("世"), std::slice::from_ref(&(0..2)));
        assert!(row.places("z").is_empty());
    }
    use proptest::prelude::*;

    fn wrapped(text: &str, columns: usize, lead: &str) -> Vec<String> {
        let lead = Lead::same(vec![StyledPiece::new(lead, Style::new())]);
        let mut rows = Vec::new();
        wrap(&[StyledPiece::new(text, Style::new())], columns, &lead, &mut rows);
        rows.iter().map(Row::plain).collect()
    }

    #[test]
    fn words_wrap_at_blanks_and_long_words_are_split() {
        assert_eq!(wrapped("one two three", 9, "  "), ["  one two", "  three"]);
        assert_eq!(wrapped("abcdefghij", 6, "  "), ["  abcd", "  efgh", "  ij"]);
        assert_eq!(wrapped("a\n\n  b", 6, ""), ["a", "", "  b"]);
        assert_eq!(wrapped("a\tb", 9, ""), ["a   b"]);
    }

    #[test]
    fn rows_know_their_text_and_what_it_continues() {
        let pieces = |texts: &[&str]| texts.iter().map(|text| StyledPiece::new(text, Style::new())).collect::<Vec<_>>();
        let lead = Lead::new(pieces(&["  ", "• "]), pieces(&["  ", "  "])).with_text_from(1);
        let mut rows = Vec::new();
        wrap(&pieces(&["one two  three\nfour"]), 9, &lead, &mut rows);
        let known: Vec<_> = rows.iter().map(|row| (row.plain(), row.lead, row.continues)).collect();
        let expected =
            [("  • one", 2, None), ("    two", 4, Some(1)), ("    three", 4, Some(2)), ("    four", 2, None)];
        assert_eq!(known, expected.map(|(text, lead, continues)| (text.to_owned(), lead, continues)));
        let row = Row::from_pieces(pieces(&["a世", "界b"]));
        assert_eq!([0..1, 1..2, 2..4, 5..9].map(|columns| row.text_in(&columns)), ["a", "世", "世界", "b"]);
    }

    #[test]
    fn rows_of_code_stand_below_its_beginning() {
        let code = |before: &str, line: &str, columns| {
            let lead = Lead::same(vec![StyledPiece::new("| ", Style::new())]).of_code(before, line, columns);
            let mut rows = Vec::new();
            wrap(&[StyledPiece::new(&format!("{before}{line}"), Style::new())], columns, &lead, &mut rows);
            rows.iter().map(Row::plain).collect::<Vec<_>>()
        };
        assert_eq!(code("", "    let a = b;", 12), ["|     let a", "|     = b;"]);
        assert_eq!(code("7\t", "  x = y;", 12), ["| 7   x = y;"]);
        assert_eq!(code("7\t", "  xx = yy;", 13), ["| 7   xx =", "|     yy;"]);
        assert_eq!(code("", "one two", 7), ["| one", "| two"]);
    }

    #[test]
    fn wide_characters_break_anywhere_and_keep_together() {
        assert_eq!(wrapped("世界世界", 5, ""), ["世界", "世界"]);
        assert_eq!(wrapped("👨‍👩‍👧👨‍👩‍👧", 3, ""), ["👨‍👩‍👧", "👨‍👩‍👧"]);
        assert_eq!(wrapped("世", 1, ""), ["\u{fffd}"]);
    }

    #[test]
    fn wrapped_address_stays_one_link() {
        let pieces = StyledPiece::new("see https://a.example/long/path now", Style::new()).with_links(Style::new());
        let mut rows = Vec::new();
        wrap(&pieces, 14, &Lead::default(), &mut rows);
        let linked = rows.iter().flat_map(Row::pieces).filter(|piece| piece.link().is_some());
        assert_eq!(linked.map(StyledPiece::text).collect::<String>(), "https://a.example/long/path");
    }

    #[test]
    fn pieces_are_neutralized() {
        assert_eq!(StyledPiece::new("a\x1b[2Jb", Style::new()).text(), "a␛[2Jb");
        assert_eq!(StyledPiece::line("a\nb\x07", 80, Style::new()).text(), "a ⏎ b␇");
        assert_eq!(StyledPiece::line("世界世界", 5, Style::new()).text(), "世界…");
    }

    proptest! {
        #[test]
        fn rows_fit_and_lose_only_blanks(text in "\\PC{0,80}|[a-z \n]{0,200}", columns in 1_usize..60, indent in 0_usize..4) {
            let rows = wrapped(&text, columns, &" ".repeat(indent));
            prop_assert!(rows.iter().all(|row| width(row) <= columns), "{rows:?}");
            if columns > indent + 2 {
                let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
                prop_assert_eq!(letters(&rows.concat()), letters(&printable(&text)));
            }
        }
    }
}
