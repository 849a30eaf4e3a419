//! Markdown of a model as HTML.
//!
//! HTML in it becomes text. Links lead to other pages or mailboxes only, pictures become links to where they are, and
//! code blocks with a diff get colours.

use super::escape::{EscapedText, diff_html};
use pinion_protocol::text::printable;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::fmt::Write as _;

/// The longest text that is parsed as Markdown, in bytes. Longer ones are shown as they are: parsing takes time.
const MAX_MARKDOWN: usize = 256 << 10;

pub(super) const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Renders Markdown as HTML.
pub(super) fn prose(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len() + markdown.len() / 4);
    if markdown.len() > MAX_MARKDOWN {
        // Writing to a string does not fail.
        let _ = writeln!(out, "<pre>{}</pre>", EscapedText(markdown));
        return out;
    }
    let text = printable(markdown);
    html::push_html(&mut out, Safe::new(Parser::new_ext(&text, OPTIONS)));
    out
}

/// The events of a text, without those that could act on the page.
struct Safe<'a> {
    events: Parser<'a>,
    /// The open links; true for those that are kept.
    links: Vec<bool>,
    /// The source of each open picture.
    pictures: Vec<CowStr<'a>>,
}

impl<'a> Safe<'a> {
    fn new(events: Parser<'a>) -> Self {
        Self { events, links: Vec::new(), pictures: Vec::new() }
    }

    fn start(&mut self, tag: Tag<'a>) -> Event<'a> {
        match tag {
            Tag::HtmlBlock => Event::Start(Tag::Paragraph),
            Tag::Link { ref dest_url, .. } => {
                let is_kept = leads_somewhere(dest_url);
                self.links.push(is_kept);
                if is_kept { Event::Start(tag) } else { nothing() }
            }
            Tag::Image { dest_url, .. } => {
                self.pictures.push(dest_url);
                Event::Text("[picture: ".into())
            }
            Tag::CodeBlock(CodeBlockKind::Fenced(language)) if is_diff_language(&language) => self.diff(),
            tag => Event::Start(tag),
        }
    }

    fn end(&mut self, tag: TagEnd) -> Event<'a> {
        match tag {
            TagEnd::HtmlBlock => Event::End(TagEnd::Paragraph),
            TagEnd::Link if self.links.pop() == Some(false) => nothing(),
            TagEnd::Image => {
                let from = self.pictures.pop().unwrap_or("".into());
                let from = if from.starts_with("data:") { "in the text".into() } else { from };
                Event::Text(format!(", {from}]").into())
            }
            tag => Event::End(tag),
        }
    }

    /// Consumes a code block up to its end, and renders it as a diff.
    fn diff(&mut self) -> Event<'a> {
        let mut code = String::new();
        for event in self.events.by_ref() {
            match event {
                Event::Text(text) => code.push_str(&text),
                Event::End(TagEnd::CodeBlock) => break,
                _ => {}
            }
        }
        Event::Html(diff_html(&code).into())
    }
}

impl<'a> Iterator for Safe<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        Some(match self.events.next()? {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            event => event,
        })
    }
}

fn nothing<'a>() -> Event<'a> {
    Event::Text("".into())
}

fn is_diff_language(info: &str) -> bool {
    matches!(info.split([' ', ',']).next(), Some("diff" | "patch"))
}

/// Returns whether a link leads to a page or a mailbox, and not into this page, to a file or to a script.
fn leads_somewhere(url: &str) -> bool {
    let url = url.to_ascii_lowercase();
    ["https://", "http://", "mailto:"].iter().any(|scheme| url.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_html_elements() {
        let html = prose("# Title\n\n- *one*\n- `two`\n\n| a |\n|---|\n| 1 |\n\n```rust\nfn x() {}\n```\n");
        for part in ["<h1>Title</h1>", "<em>one</em>", "<code>two</code>", "<td>1</td>", "fn x() {}"] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn html_in_markdown_is_shown_as_text() {
        let html = prose("a <b onclick=x>bold</b>\n\n<script>alert(1)</script>\n\n<!-- hidden -->\n");
        assert_eq!(
            html,
            "<p>a &lt;b onclick=x&gt;bold&lt;/b&gt;</p>\n<p>&lt;script&gt;alert(1)&lt;/script&gt;\n</p>\n\
            <p>&lt;!-- hidden --&gt;\n</p>\n"
        );
    }

    #[test]
    fn links_lead_only_to_pages() {
        let html =
            prose("[a](https://a.example) [b](javascript:alert(1)) [c](data:text/html,x) [d](#e-1) <file:///etc>");
        assert!(html.contains("<a href=\"https://a.example\">a</a>"), "{html}");
        assert_eq!(html.matches("<a ").count(), 1, "{html}");
        assert_eq!(html.matches("</a>").count(), 1, "{html}");
    }

    #[test]
    fn pictures_are_not_fetched() {
        let html = prose("![a *cat*](https://tracker.example/x.png) ![y](data:image/png;base64,AAAA)");
        assert!(!html.contains("<img"), "{html}");
        assert!(html.contains("[picture: a <em>cat</em>, https://tracker.example/x.png]"), "{html}");
    }

    #[test]
    fn diff_in_a_code_block_is_coloured() {
        let html = prose("```diff\n-old\n+<new>\n```\nafter");
        assert!(html.contains("<span class=\"del\">-old\n</span><span class=\"add\">+&lt;new&gt;\n</span>"), "{html}");
        assert!(html.contains("<p>after</p>"), "{html}");
    }
}
