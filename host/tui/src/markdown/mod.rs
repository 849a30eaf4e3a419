//! Markdown as rows.
//!
//! Links show their target, so that a text cannot hide where it leads. HTML is shown as it is written.

mod plain;
mod table;

pub(crate) use self::plain::{code_blocks, plain, without_emphasis};

use self::plain::without_invisible;
use self::table::Table;
use crate::diff;
use crate::highlight::{Highlights, SyntaxKind, language, pieces_of};
use crate::links::{self, target};
use crate::rows::{Lead, Row, StyledPiece, wrap};
use crate::theme::Theme;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui_core::style::{Modifier, Style};

/// Indentation of code, which sets it apart without colours.
const CODE_INDENT: &str = "  ";
/// Maximum levels of quotes and lists that are indented.
const MAX_DEPTH: usize = 8;

/// The place for rendered Markdown.
#[derive(Clone, Copy)]
pub(crate) struct Paper<'a> {
    pub(crate) columns: usize,
    /// Pieces at the beginning of each row.
    pub(crate) lead: &'a [StyledPiece],
    pub(crate) theme: &'a Theme,
    pub(crate) highlights: &'a Highlights,
    /// The text begins within a code block, whose opening line it repeats.
    pub(crate) is_continued: bool,
    /// The last line may continue.
    pub(crate) is_growing: bool,
    /// The old lines of a diff stand next to the new ones.
    pub(crate) has_sides: bool,
    /// The rows are read aloud: tables are lists, and marks are signs of the keyboard.
    pub(crate) is_linear: bool,
}

impl<'a> Paper<'a> {
    pub(crate) fn new(lead: &'a [StyledPiece], theme: &'a Theme, highlights: &'a Highlights) -> Self {
        Self {
            columns: 80,
            lead,
            theme,
            highlights,
            is_continued: false,
            is_growing: false,
            has_sides: false,
            is_linear: false,
        }
    }
}

/// Renders Markdown.
pub(crate) fn rows(text: &str, paper: Paper<'_>) -> Vec<Row> {
    let mut page = Page::new(paper);
    parser(text).for_each(|event| page.event(event));
    page.flush();
    page.rows
}

fn parser(text: &str) -> Parser<'_> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(text, options)
}

/// A block around others.
enum ContainerBlock {
    Quote,
    /// An item with its marker, which only its first row shows.
    Item {
        marker: String,
        is_begun: bool,
    },
}

/// A code block.
struct Code {
    language: String,
    text: String,
}

struct Page<'a> {
    paper: Paper<'a>,
    columns: usize,
    lead: &'a [StyledPiece],
    theme: &'a Theme,
    rows: Vec<Row>,
    pieces: Vec<StyledPiece>,
    styles: Vec<Style>,
    blocks: Vec<ContainerBlock>,
    /// Number of the next item of each open list; `None` for one without numbers.
    lists: Vec<Option<u64>>,
    links: Vec<String>,
    table: Option<Table>,
    code: Option<Code>,
    /// The next block begins after an empty row.
    has_gap: bool,
}

impl<'a> Page<'a> {
    fn new(paper: Paper<'a>) -> Self {
        Self {
            paper,
            columns: paper.columns,
            lead: paper.lead,
            theme: paper.theme,
            rows: Vec::new(),
            pieces: Vec::new(),
            styles: vec![paper.theme.text],
            blocks: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            table: None,
            code: None,
            has_gap: false,
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.text.push_str(&text),
                None => self.push(&without_invisible(&text), self.style()),
            },
            Event::Code(text) => self.push(&text, self.style().patch(self.theme.code)),
            Event::Html(text) | Event::InlineHtml(text) => self.push(&text, self.theme.dim),
            // Models write lines, although Markdown would join them.
            Event::SoftBreak | Event::HardBreak => self.push("\n", self.style()),
            Event::Rule => {
                self.begin_block();
                self.push(if self.paper.is_linear { "---" } else { "───" }, self.theme.dim);
                self.end_block();
            }
            Event::TaskListMarker(is_done) => self.push(if is_done { "[x] " } else { "[ ] " }, self.style()),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text, self.style());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let style = self.style();
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let mark = if level == HeadingLevel::H1 { Modifier::UNDERLINED } else { Modifier::empty() };
                self.styles.push(style.patch(self.theme.heading).add_modifier(mark));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.blocks.push(ContainerBlock::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let info = if let CodeBlockKind::Fenced(info) = &kind { info.trim() } else { "" };
                let is_continued = std::mem::take(&mut self.paper.is_continued);
                if !info.is_empty() && !is_continued {
                    self.push(info, self.theme.dim);
                    let lead = self.leads().indented(CODE_INDENT);
                    self.flush_with(&lead);
                }
                self.code = Some(Code { language: language(info).to_owned(), text: String::new() });
            }
            Tag::List(first) => {
                self.flush();
                // A list within an item follows it at once.
                if self.lists.is_empty() {
                    self.begin_block();
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments, self.paper.is_linear));
            }
            Tag::Emphasis => self.styles.push(style.add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(style.patch(self.theme.strong)),
            Tag::Strikethrough => self.styles.push(style.add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
                self.styles.push(style.patch(self.theme.link));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
            }
            TagEnd::CodeBlock => {
                let code = self.code.take();
                code.iter().for_each(|code| self.code(code));
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.end_block();
                self.blocks.pop();
            }
            TagEnd::Item => {
                self.flush();
                self.blocks.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.has_gap = self.lists.is_empty();
            }
            TagEnd::TableCell => {
                let pieces = std::mem::take(&mut self.pieces);
                self.table.iter_mut().for_each(|table| table.cell(pieces.clone()));
            }
            TagEnd::TableHead | TagEnd::TableRow => self.table.iter_mut().for_each(Table::end_row),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lead = self.leads();
                    table.rows(self.columns, &lead, self.theme, &mut self.rows);
                    self.end_block();
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        let piece = StyledPiece::new(text, style);
        match self.links.last() {
            Some(link) => self.pieces.push(piece.linked(target(link))),
            None => self.pieces.extend(piece.with_links(self.theme.link)),
        }
    }

    fn code(&mut self, code: &Code) {
        let text = code.text.strip_suffix('\n').unwrap_or(&code.text);
        if code.language == "diff" {
            return self.diff(text);
        }
        let lines: Vec<&str> = text.split('\n').collect();
        let is_complete = !self.paper.is_growing || code.text.ends_with('\n');
        let parts = self.paper.highlights.parts(&code.language, &lines, is_complete);
        for (at, line) in lines.iter().enumerate() {
            match parts.get(at) {
                Some(parts) => self.highlighted(line, parts),
                None => self.pieces.push(StyledPiece::new(line, self.theme.code)),
            }
            let lead = self.leads().of_code(CODE_INDENT, line, self.columns).indented(CODE_INDENT);
            self.flush_with(&lead);
        }
    }

    fn diff(&mut self, text: &str) {
        let lead = self.leads();
        let indented = lead
            .continuation_prefix()
            .iter()
            .cloned()
            .chain([StyledPiece::new(CODE_INDENT, self.theme.text)])
            .collect();
        let (lead, theme) = (Lead::same(indented), self.theme);
        self.rows.extend(match self.paper.has_sides {
            true => diff::sides(text, self.columns, &lead, theme),
            false => diff::rows(text, self.columns, &lead, theme),
        });
    }

    fn highlighted(&mut self, line: &str, parts: &[(usize, SyntaxKind)]) {
        for (text, part) in pieces_of(line, parts) {
            self.pieces.push(StyledPiece::new(text, self.theme.syntax_style(part)));
        }
    }

    fn item(&mut self) {
        self.flush();
        if self.has_gap && !self.rows.is_empty() {
            self.rows.push(Row::default());
        }
        self.has_gap = false;
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ if self.paper.is_linear => "- ".to_owned(),
            _ => "• ".to_owned(),
        };
        self.blocks.push(ContainerBlock::Item { marker, is_begun: false });
    }

    /// Shows the target of a link, unless its text is the target.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some(target) = self.links.pop().filter(|target| !target.is_empty()) else { return };
        let is_shown = self.pieces.last().is_some_and(|piece| target.trim_start_matches("mailto:") == piece.text());
        if !is_shown {
            self.pieces.push(StyledPiece::new(" (", self.theme.dim));
            self.pieces.push(StyledPiece::new(&target, self.theme.dim).linked(links::target(&target)));
            self.pieces.push(StyledPiece::new(")", self.theme.dim));
        }
    }

    fn begin_block(&mut self) {
        self.flush();
        let is_at_marker = matches!(self.blocks.last(), Some(ContainerBlock::Item { is_begun: false, .. }));
        if std::mem::take(&mut self.has_gap) && !self.rows.is_empty() && !is_at_marker {
            let lead = self.leads();
            wrap(&[], self.columns, &lead, &mut self.rows);
        }
    }

    fn end_block(&mut self) {
        self.flush();
        self.has_gap = true;
    }

    fn flush(&mut self) {
        if !self.pieces.is_empty() {
            self.flush_always();
        }
    }

    fn flush_always(&mut self) {
        let lead = self.leads();
        self.flush_with(&lead);
    }

    fn flush_with(&mut self, lead: &Lead) {
        let pieces = std::mem::take(&mut self.pieces);
        wrap(&pieces, self.columns, lead, &mut self.rows);
        for block in &mut self.blocks {
            if let ContainerBlock::Item { is_begun, .. } = block {
                *is_begun = true;
            }
        }
    }

    /// Returns the beginning of the current block's rows.
    fn leads(&self) -> Lead {
        let (mut first, mut rest) = (self.lead.to_vec(), self.lead.to_vec());
        let is_item = |block: &ContainerBlock| matches!(block, ContainerBlock::Item { .. });
        let outside = self.blocks.iter().position(is_item).map(|at| self.lead.len() + at);
        for block in self.blocks.iter().take(MAX_DEPTH) {
            match block {
                ContainerBlock::Quote => {
                    let mark = StyledPiece::new(if self.paper.is_linear { "> " } else { "│ " }, self.theme.dim);
                    first.push(mark.clone());
                    rest.push(mark);
                }
                ContainerBlock::Item { marker, is_begun } => {
                    let blank = StyledPiece::new(&" ".repeat(marker.chars().count()), self.theme.text);
                    first.push(if *is_begun { blank.clone() } else { StyledPiece::new(marker, self.theme.accent) });
                    rest.push(blank);
                }
            }
        }
        let lead = Lead::new(first, rest);
        match outside {
            Some(outside) => lead.with_text_from(outside),
            None => lead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rendered(text: &str, columns: usize) -> Vec<Row> {
        let (theme, highlights) = (&Theme::plain(), &Highlights::default());
        rows(text, Paper { columns, ..Paper::new(&[], theme, highlights) })
    }

    fn shown(text: &str, columns: usize) -> String {
        let rows = rendered(text, columns);
        rows.iter().map(Row::plain).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn blocks_are_laid_out() {
        let text = "# Title\n\nA *short* paragraph with `code`.\n\n- one\n- two\n  - nested\n\n1. first\n2. second\n\n> quoted\n> text\n\n```rust\nfn main() {}\n\nlet x;\n```\nend";
        let expected = "Title\n\nA short paragraph with code.\n\n• one\n• two\n  • nested\n\n1. first\n2. second\n\n│ quoted\n│ text\n\n  rust\n  fn main() {}\n\n  let x;\n\nend";
        assert_eq!(shown(text, 80), expected);
    }

    #[test]
    fn line_breaks_are_kept() {
        let text = "Name: foo\nSize: *3\nof* 4\n\n- one\n  more\n- two\nlazy";
        assert_eq!(shown(text, 80), "Name: foo\nSize: 3\nof 4\n\n• one\n  more\n• two\n  lazy");
    }

    #[test]
    fn invisible_characters_are_dropped_in_prose_and_shown_in_code() {
        let text =
            "zero\u{200b}width, soft\u{ad}hyphen, word\u{2060}joiner\u{feff}, 👩\u{200d}👧 \u{202e} `a\u{200b}b`";
        let expected = "zerowidth, softhyphen, wordjoiner, 👩\u{200d}👧 \\u{202e} a\\u{200b}b";
        assert_eq!(shown(text, 80), expected);
        assert_eq!(shown("```\na\u{200b}b\n```", 80), "  a\\u{200b}b");
    }

    #[test]
    fn links_show_their_target() {
        assert_eq!(shown("[here](https://a.example/x)", 80), "here (https://a.example/x)");
        assert_eq!(shown("<https://a.example>", 80), "https://a.example");
    }

    #[test]
    fn tables_are_laid_out_and_wrap_in_their_columns() {
        let text = "| name | meaning |\n|---|---:|\n| a | the first letter |\n| bcd | x |";
        assert_eq!(
            shown(text, 40),
            "name │          meaning\n─────┼─────────────────\na    │ the first letter\nbcd  │                x"
        );
        let narrow = shown(text, 18);
        assert!(narrow.lines().all(|row| crate::rows::width(row) <= 18) && narrow.contains("letter"), "{narrow}");
    }

    #[test]
    fn columns_are_aligned_as_they_ask() {
        let text = "| left | middle | right |\n|:--|:-:|--:|\n| a | b | c |\n| long cell | cc | dd |";
        let expected = "left      │ middle │ right\n──────────┼────────┼──────\na         │   b    │     c\nlong cell │   cc   │    dd";
        assert_eq!(shown(text, 80), expected);
    }

    #[test]
    fn diff_has_the_form_that_the_user_chose() {
        let (theme, highlights) = (&Theme::plain(), &Highlights::default());
        let text = "```diff\n-let a = b - c;\n+let a = b + c;\n```";
        let paper = Paper { columns: 60, ..Paper::new(&[], theme, highlights) };
        let shown = |paper| rows(text, paper).iter().map(Row::plain).collect::<Vec<_>>();
        assert_eq!(shown(paper), ["  diff", "  -let a = b - c;", "  +let a = b + c;"]);
        let sides = shown(Paper { has_sides: true, ..paper });
        assert!(sides[1].starts_with("  -let a = b - c;") && sides[1].ends_with("│ +let a = b + c;"), "{sides:?}");
    }

    #[test]
    fn wrapped_code_keeps_its_indentation() {
        let text = "```\nfn f() {\n    let sum = one + two;\n}\n```";
        assert_eq!(shown(text, 20), "  fn f() {\n      let sum = one\n      + two;\n  }");
    }

    #[test]
    fn linear_rows_have_no_drawn_lines() {
        let (theme, highlights) = (&Theme::plain(), &Highlights::default());
        let text = "- one\n\n> two\n\n---\n\n| a | b |\n|---|---|\n| c | d |";
        let rows = rows(text, Paper { is_linear: true, ..Paper::new(&[], theme, highlights) });
        let rows: Vec<String> = rows.iter().map(Row::plain).collect();
        assert_eq!(rows.join("\n"), "- one\n\n> two\n\n---\n\na: c\nb: d");
    }

    #[test]
    fn escape_sequences_stay_text() {
        assert_eq!(shown("a \x1b[31mb\x1b]8;;x\x07", 80), "a ␛[31mb␛]8;;x␇");
        assert!(!shown("| \x1b[2J |\n|---|\n| \x07 |", 80).contains(['\x1b', '\x07']));
    }

    proptest! {
        #[test]
        fn any_markdown_fits(text in "([-*>#|`0-9. \t]{0,4}\\PC{0,10}[|\n ]{0,2}){0,20}", columns in 4_usize..60) {
            for row in rendered(&text, columns) {
                prop_assert!(row.width() <= columns.max(MAX_DEPTH * 2 + 4), "{}", row.plain());
            }
        }
    }
}
