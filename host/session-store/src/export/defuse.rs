//! Text from outside, made harmless in Markdown.
//!
//! Code gets a fence longer than any in it. Markdown of a model stays Markdown, but without HTML and without pictures
//! from elsewhere, and with its last fence closed, so that nothing reaches beyond its message.

use super::prose::OPTIONS;
use pinion_protocol::text::printable;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};
use std::io::{self, Write};
use std::ops::Range;

/// Passes over a text: defusing one part of it may expose another.
const ROUNDS: usize = 4;
/// The longest text that is parsed as Markdown, in bytes. Longer ones are shown as code: parsing takes time.
const MAX_MARKDOWN: usize = 256 << 10;

/// Writes a code block whose fence is longer than any run of backticks in the text.
pub(super) fn fenced(out: &mut impl Write, language: &str, text: &str) -> io::Result<()> {
    let text = printable(text);
    let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
    writeln!(out, "{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// Returns text as inline code.
pub(super) fn code(text: &str) -> String {
    let text = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return "—".to_owned();
    }
    match longest_run(&text, '`') {
        0 => format!("`{text}`"),
        run => format!("{0} {text} {0}", "`".repeat(run + 1)),
    }
}

/// Returns text on one line, with every character of Markdown escaped.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in printable(text).split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        for c in word.chars() {
            if "\\`*_[]<>#!|~&".contains(c) {
                plain.push('\\');
            }
            plain.push(c);
        }
    }
    plain
}

fn longest_run(text: &str, of: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Returns Markdown that ends with its message, or the text as a code block when it cannot be defused.
pub(super) fn prose(markdown: &str) -> String {
    let text = printable(markdown.trim_end()).into_owned();
    defused(text).unwrap_or_else(|| block(markdown))
}

/// Returns Markdown as a quotation, or the text as a quoted code block when it cannot be defused. Parses the quotation,
/// because the marks at its lines change the meaning of text that spans lines: `<!a`, a line break and `0` are text,
/// but the declaration `<!a\n>` with a mark between them.
pub(super) fn quoted(markdown: &str) -> String {
    let text = printable(markdown.trim_end());
    defused(quote(&text)).unwrap_or_else(|| quote(&block(markdown)))
}

fn quote(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}

fn block(text: &str) -> String {
    let mut block = Vec::new();
    // Writing to a vector does not fail.
    let _ = fenced(&mut block, "", text);
    String::from_utf8_lossy(&block).trim_end().to_owned()
}

fn defused(mut text: String) -> Option<String> {
    if text.len() > MAX_MARKDOWN {
        return None;
    }
    for _ in 0..ROUNDS {
        let edits = Edits::in_text(&text);
        if edits.replacements.is_empty() {
            text.push_str(&edits.closing);
            return Some(text);
        }
        for (at, instead) in edits.replacements.into_iter().rev() {
            text.replace_range(at..at + 1, instead);
        }
    }
    None
}

/// The changes that keep Markdown within its message.
#[derive(Default)]
struct Edits {
    /// Replacements for single bytes, in the order of the text.
    replacements: Vec<(usize, &'static str)>,
    /// The fence that closes the last code block, when nothing in the text does.
    closing: String,
}

impl Edits {
    fn in_text(text: &str) -> Self {
        let (mut edits, mut depth) = (Self::default(), 0_usize);
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            match event {
                Event::Html(_) | Event::InlineHtml(_) => edits.html(text, range),
                Event::Start(Tag::Image { .. }) => edits.replacements.push((range.start, "\\!")),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) if depth == 0 => edits.code_block(text, range),
                _ => {}
            }
            match event {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        edits.replacements.sort_unstable();
        edits.replacements.dedup_by_key(|(at, _)| *at);
        edits
    }

    fn html(&mut self, text: &str, range: Range<usize>) {
        let tags = text[range.clone()].match_indices('<').map(|(at, _)| (range.start + at, "&lt;"));
        self.replacements.extend(tags);
    }

    /// Closes an open fence, which would turn everything after it into code.
    fn code_block(&mut self, text: &str, range: Range<usize>) {
        let block = text[range].trim_end();
        let mut lines = block.lines();
        let opening = lines.next().unwrap_or_default().trim_start();
        let Some(mark) = opening.chars().next() else { return };
        let fence: String = opening.chars().take_while(|c| *c == mark).collect();
        let is_closing = |line: &str| {
            let (indent, run) = (line.len() - line.trim_start().len(), line.trim());
            indent < 4 && run.len() >= fence.len() && run.chars().all(|c| c == mark)
        };
        self.closing = if lines.next_back().is_some_and(is_closing) { String::new() } else { format!("\n{fence}") };
    }
}
