//! Markdown as text without its marks.

use super::parser;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use std::borrow::Cow;
use std::ops::Range;

/// Returns the text that is shown, a line for each line of code, cell, and block.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let (mut links, mut is_code) = (Vec::new(), false);
    for event in parser(text) {
        match event {
            Event::Text(text) if !is_code => plain.push_str(&without_invisible(&text)),
            Event::Text(text)
            | Event::Code(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::FootnoteReference(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text) => plain.push_str(&text),
            Event::TaskListMarker(is_done) => plain.push_str(if is_done { "[x] " } else { "[ ] " }),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => links.push(dest_url),
            Event::End(TagEnd::Link | TagEnd::Image) => {
                let target = links.pop().filter(|target| !plain.ends_with(target.trim_start_matches("mailto:")));
                target.into_iter().for_each(|target| plain.extend([" (", &target, ")"]));
            }
            Event::Start(Tag::Emphasis | Tag::Strong | Tag::Strikethrough)
            | Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => {}
            Event::Start(Tag::CodeBlock(_)) | Event::End(TagEnd::CodeBlock) => {
                is_code = !is_code;
                plain.push('\n');
            }
            // A phrase is found across it.
            Event::SoftBreak => plain.push(' '),
            Event::HardBreak | Event::Rule | Event::Start(_) | Event::End(_) => plain.push('\n'),
        }
    }
    plain
}

/// Returns prose without characters that only say where words may break. Code and other text show them.
pub(super) fn without_invisible(text: &str) -> Cow<'_, str> {
    const INVISIBLE: [char; 4] = ['\u{ad}', '\u{200b}', '\u{2060}', '\u{feff}'];
    if text.contains(INVISIBLE) { text.replace(INVISIBLE, "").into() } else { text.into() }
}

/// Returns the contents of the code blocks of a text.
pub(crate) fn code_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => block = Some(String::new()),
            Event::Text(text) => block.iter_mut().for_each(|block| block.push_str(&text)),
            Event::End(TagEnd::CodeBlock) => blocks.extend(block.take()),
            _ => {}
        }
    }
    blocks
}

/// Returns a text without the marks of emphasis, for places that do not render Markdown.
pub(crate) fn without_emphasis(text: &str) -> Cow<'_, str> {
    if !text.contains(['*', '_']) {
        return text.into();
    }
    let mut marks = Vec::new();
    for (event, Range { start, end }) in Parser::new(text).into_offset_iter() {
        let wide = match event {
            Event::Start(Tag::Emphasis) => 1,
            Event::Start(Tag::Strong) => 2,
            _ => continue,
        };
        marks.extend([start..start + wide, end - wide..end]);
    }
    marks.sort_unstable_by_key(|mark| mark.start);
    let (mut plain, mut from) = (String::with_capacity(text.len()), 0);
    for mark in marks {
        plain.push_str(&text[from..mark.start]);
        from = mark.end;
    }
    (plain + &text[from..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_marks_and_no_soft_breaks() {
        let lines = |text: &str| {
            let plain = plain(text);
            plain.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let text = "# A *title*\n\nThe **fix** is\nsimple: `a` &amp; \\*b\\*.  \nEnd\n\n- [x] one\n- two\n\n> quoted\n> text\n";
        let expected = ["A title", "The fix is simple: a & *b*.", "End", "[x] one", "two", "quoted text"];
        assert_eq!(lines(text), expected);
        assert_eq!(lines("```sh\na\n\nb\n```\n| c | d |\n|---|---|\n| `e` | f |"), ["a", "b", "c", "d", "e", "f"]);
        let text = "[a *b*](https://c.example \"title\") <https://d.example> <e@f.example>";
        assert_eq!(lines(text), ["a b (https://c.example) https://d.example e@f.example"]);
    }

    #[test]
    fn emphasis_loses_its_marks_and_nothing_else() {
        let text = "**Plan**\n\n1. *look* at `a*b` ***now***, __all__\n2. 2 * 3 * 4, a_b_c **open";
        assert_eq!(without_emphasis(text), "Plan\n\n1. look at `a*b` now, all\n2. 2 * 3 * 4, a_b_c **open");
    }
}
