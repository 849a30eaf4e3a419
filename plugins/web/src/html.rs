//! HTML as Markdown: headings, paragraphs, lists, links, code, quotations and tables. Menus, scripts and what a browser would
//! not show are left out.

use crate::markup::{Tag, Token, Tokens};
use crate::writer::{Break, Writer};
use crate::{entities, url};

/// Open elements; deeper ones have no meaning of their own.
const MAX_DEPTH: usize = 256;
/// Open elements that an end tag is compared with.
const MAX_SEARCH: usize = 64;
/// Bytes of the address of a link or picture; longer ones are left out.
const MAX_ADDRESS: usize = 512;
/// Bytes of Markdown. Short links to long addresses could otherwise become many times the page.
const MAX_OUTPUT: usize = 16 * 1024 * 1024;

/// Elements that have no end.
const VOID: &[&str] =
    &["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];
/// Elements of which nothing is shown.
const LEFT_OUT: &[&str] = &[
    "template", "svg", "nav", "footer", "button", "select", "datalist", "object", "canvas", "audio", "video", "dialog",
];
/// Elements that begin a paragraph.
const PARAGRAPHS: &[&str] = &["p", "table", "dl", "figure", "details", "fieldset"];
/// Elements that begin a line.
const LINES: &[&str] = &[
    "div",
    "section",
    "article",
    "main",
    "header",
    "aside",
    "form",
    "tr",
    "dt",
    "dd",
    "figcaption",
    "summary",
    "address",
    "caption",
    "legend",
    "option",
    "body",
    "center",
    "hgroup",
    "search",
];

/// Converts a page. Returns its title and its text.
pub(crate) fn markdown(page: &str, address: &str) -> (String, String) {
    let mut converter = Converter {
        writer: Writer::new(),
        base: address.to_owned(),
        open: Vec::new(),
        beyond: 0,
        left_out: 0,
        tables: Vec::new(),
        title: String::new(),
    };
    for token in Tokens::of(page) {
        if converter.writer.len() > MAX_OUTPUT {
            converter.writer.pause(Break::Paragraph);
            converter.writer.word("[the rest of the page is left out]");
            break;
        }
        converter.token(token);
    }
    (converter.title, converter.writer.finish())
}

struct Converter {
    writer: Writer,
    /// The address that links are relative to.
    base: String,
    open: Vec<Open>,
    /// Elements that are open beyond [`MAX_DEPTH`].
    beyond: usize,
    /// Open elements of which nothing is shown.
    left_out: usize,
    tables: Vec<Table>,
    title: String,
}

struct Open {
    name: String,
    is_left_out: bool,
}

#[derive(Default)]
struct Table {
    rows: usize,
    /// Cells of this row.
    cells: usize,
    /// Bytes of the text when this row began.
    begin: usize,
    has_header: bool,
}

impl Converter {
    fn token(&mut self, token: Token<'_>) {
        match token {
            Token::Text(text) if self.left_out == 0 => self.writer.write(&entities::decoded(text)),
            Token::Raw { name, content } if name == "title" && self.title.is_empty() && self.left_out == 0 => {
                self.title = entities::decoded(content).into_owned();
            }
            Token::Raw { name, content } if name == "xmp" && self.left_out == 0 => {
                self.writer.preformatted();
                self.writer.write(content);
                self.writer.leave_block();
            }
            Token::Text(_) | Token::Raw { .. } => {}
            Token::Open(tag) => self.open(&tag),
            Token::Close(name) => self.close(&name),
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        self.end_implied(name);
        let is_void = VOID.contains(&name);
        if !is_void && self.open.len() >= MAX_DEPTH {
            self.beyond += 1;
            return;
        }
        let is_left_out = !is_void && (LEFT_OUT.contains(&name) || is_hidden(tag));
        if self.left_out == 0 && !is_left_out {
            self.enter(tag);
        }
        if !is_void {
            self.left_out += usize::from(is_left_out);
            self.open.push(Open { name: tag.name.clone(), is_left_out });
        }
    }

    /// Ends the elements whose end tags may be missing before this one.
    fn end_implied(&mut self, name: &str) {
        let (ended, within): (&[&str], &[&str]) = match name {
            "li" => (&["li"], &["ul", "ol", "menu"]),
            "td" | "th" => (&["td", "th"], &["table"]),
            "tr" => (&["tr"], &["table"]),
            "dt" | "dd" => (&["dt", "dd"], &["dl"]),
            _ if is_block(name) => match self.open.last() {
                Some(last) if last.name == "p" => return self.leave_to(self.open.len() - 1),
                _ => return,
            },
            _ => return,
        };
        let inner = self.open.iter().enumerate().rev().take(MAX_SEARCH);
        let mut inner = inner.take_while(|(_, open)| !within.contains(&open.name.as_str()));
        if let Some((at, _)) = inner.find(|(_, open)| ended.contains(&open.name.as_str())) {
            self.leave_to(at);
        }
    }

    fn close(&mut self, name: &str) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        let found = self.open.iter().enumerate().rev().take(MAX_SEARCH).find(|(_, open)| open.name == name);
        if let Some((at, _)) = found {
            self.leave_to(at);
        }
    }

    fn leave_to(&mut self, depth: usize) {
        for open in self.open.split_off(depth).into_iter().rev() {
            if open.is_left_out {
                self.left_out -= 1;
            } else if self.left_out == 0 {
                self.leave(&open.name);
            }
        }
    }

    fn enter(&mut self, tag: &Tag<'_>) {
        let writer = &mut self.writer;
        match tag.name.as_str() {
            "br" => writer.pause(Break::Line),
            "hr" => {
                writer.pause(Break::Paragraph);
                writer.word("---");
                writer.pause(Break::Paragraph);
            }
            "blockquote" => writer.quote(true),
            "ul" | "menu" => writer.list(false),
            "ol" => writer.list(true),
            "li" => writer.item(),
            "pre" => writer.preformatted(),
            "code" | "kbd" | "samp" => writer.code(),
            "a" => match tag.attribute("href").and_then(|href| self.address(&href)) {
                Some(address) => self.writer.link(address),
                None => self.writer.leave_link(),
            },
            "img" => self.picture(tag),
            "base" => {
                if let Some(href) = tag.attribute("href").filter(|href| href.len() <= MAX_ADDRESS) {
                    self.base = url::joined(&self.base, &href);
                }
            }
            "td" | "th" => self.cell(tag.name == "th"),
            name => {
                if let Some(level) = level(name) {
                    return self.writer.heading(level);
                }
                self.pause_at(name);
                match name {
                    "table" => self.tables.push(Table::default()),
                    "tr" => {
                        let begin = self.writer.len();
                        self.tables.last_mut().into_iter().for_each(|table| (table.cells, table.begin) = (0, begin));
                    }
                    _ => {}
                }
            }
        }
    }

    fn leave(&mut self, name: &str) {
        let writer = &mut self.writer;
        match name {
            "blockquote" => writer.quote(false),
            "ul" | "menu" | "ol" => writer.leave_list(),
            "pre" => writer.leave_block(),
            "code" | "kbd" | "samp" => writer.leave_code(),
            "a" => writer.leave_link(),
            "tr" => self.leave_row(),
            "table" => {
                self.tables.pop();
                self.writer.pause(Break::Paragraph);
            }
            name if level(name).is_some() => writer.leave_heading(),
            name => self.pause_at(name),
        }
    }

    fn pause_at(&mut self, name: &str) {
        if PARAGRAPHS.contains(&name) {
            self.writer.pause(Break::Paragraph);
        } else if LINES.contains(&name) {
            self.writer.pause(Break::Line);
        }
    }

    fn cell(&mut self, is_header: bool) {
        let Some(table) = self.tables.last_mut() else { return };
        table.cells += 1;
        table.has_header |= is_header;
        if table.cells > 1 {
            self.writer.cell(self.writer.len() == table.begin);
        }
    }

    fn leave_row(&mut self) {
        let Some(table) = self.tables.last_mut() else { return };
        table.rows += 1;
        self.writer.pause(Break::Line);
        if table.rows == 1 && table.has_header && table.cells > 1 {
            self.writer.word(&vec!["---"; table.cells.min(32)].join(" | "));
            self.writer.pause(Break::Line);
        }
    }

    fn picture(&mut self, tag: &Tag<'_>) {
        let alt = tag.attribute("alt").unwrap_or_default();
        let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
        if alt.is_empty() || alt.len() > MAX_ADDRESS {
            return;
        }
        let address = tag.attribute("src").and_then(|source| self.address(&source)).unwrap_or_default();
        self.writer.word(&format!("![{alt}]({address})"));
    }

    /// Returns the address of another page. None for a place in this one, and for any other address than of the web.
    fn address(&self, reference: &str) -> Option<String> {
        let reference = reference.trim();
        if reference.is_empty() || reference.starts_with('#') || reference.len() > MAX_ADDRESS {
            return None;
        }
        let address = url::joined(&self.base, reference);
        url::host(&address)?;
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '(' | ')' | '<' | '>');
        let escaped = |c: char| if is_plain(c) { c.to_string() } else { escaped(c) };
        Some(address.chars().map(escaped).collect())
    }
}

fn escaped(c: char) -> String {
    c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn level(name: &str) -> Option<usize> {
    let digit = name.strip_prefix('h')?;
    digit.parse().ok().filter(|level| digit.len() == 1 && (1..=6).contains(level))
}

/// Returns whether an element cannot be part of a paragraph.
fn is_block(name: &str) -> bool {
    PARAGRAPHS.contains(&name)
        || LINES.contains(&name)
        || level(name).is_some()
        || matches!(name, "ul" | "ol" | "menu" | "pre" | "blockquote" | "hr")
}

/// Returns whether a browser would not show an element.
fn is_hidden(tag: &Tag<'_>) -> bool {
    let style = || {
        let style = tag.attribute("style").unwrap_or_default().to_ascii_lowercase();
        let style: String = style.split_whitespace().collect();
        style.contains("display:none") || style.contains("visibility:hidden")
    };
    tag.attribute("hidden").is_some() || tag.attribute("aria-hidden").as_deref() == Some("true") || style()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn converted(html: &str) -> String {
        markdown(html, "https://a.example/dir/page").1
    }

    #[test]
    fn elements_become_markdown() {
        for (html, expected) in [
            ("<h2> A\n b </h2>c<p>d</p>e", "## A b\n\nc\n\nd\n\ne\n"),
            ("<ul><li>a<ul><li>b<li>c</ul><li>d</ul>e", "- a\n  - b\n  - c\n- d\n\ne\n"),
            ("<ol><li>a</li><li><p>b</p><p>c</p></li></ol>", "1. a\n2. b\n\n  c\n"),
            ("<p>a <code>x  y</code> <code></code>b", "a `x y` b\n"),
            ("<pre>\n  a\n    b &lt;\n\n</pre>c", "```\n  a\n    b <\n```\n\nc\n"),
            ("<pre><code class='x'>a\n\nb</code></pre>", "```\na\n\nb\n```\n"),
            ("<blockquote><p>a<p>b</blockquote>c", "> a\n>\n> b\n\nc\n"),
            ("a<br>b<hr>c", "a\nb\n\n---\n\nc\n"),
            ("<table><tr><th>a<th>b</tr><tr><td>1<td>2</table>", "a | b\n--- | ---\n1 | 2\n"),
            ("<table><tr><td><p>a</p></td><td><div>b</div></td></tr></table>", "a | b\n"),
            ("<dl><dt>a<dd>b<dt>c</dl>", "a\nb\nc\n"),
            ("a<span>b</span> <b>c</b>&nbsp;d", "ab c d\n"),
        ] {
            assert_eq!(converted(html), expected, "{html}");
        }
    }

    #[test]
    fn links_are_absolute_and_lead_to_pages() {
        for (html, expected) in [
            ("<a href='x'>a</a>", "[a](https://a.example/dir/x)\n"),
            ("<a href='#x'>a</a> <a>b</a> <a href='javascript:c()'>c</a>", "a b c\n"),
            (
                "<a href='https://b.example/x y(1)'><div>a</div><div>b</div></a>",
                "[a b](https://b.example/x%20y%281%29)\n",
            ),
            ("<a href='/x'></a><a href='/y'>b", "[b](https://a.example/y)\n"),
            ("<base href='/z/'><a href='x'>a</a>", "[a](https://a.example/z/x)\n"),
            ("<img src='x.png' alt='A  b'><img src=y>", "![A b](https://a.example/dir/x.png)\n"),
            ("<a href='https://u@b.example'>a</a>", "a\n"),
        ] {
            assert_eq!(converted(html), expected, "{html}");
        }
    }

    #[test]
    fn what_nobody_sees_is_left_out() {
        let html = "<nav>menu<ul><li>x</ul></nav><div hidden>a<p>b</div><p style='display: none'>c</p>\
            <span aria-hidden=true>d</span><script>e</script><style>f</style><template>g</template><!-- h -->\
            <svg><text>i</text></svg><footer>j</footer><p>text";
        assert_eq!(converted(html), "text\n");
        assert_eq!(converted("<div><nav>x</div>y"), "y\n");
    }

    #[test]
    fn hostile_pages_are_converted_in_time() {
        let many = |part: &str| part.repeat(200_000);
        let pages = [
            many("<div>"),
            format!("{}x{}", many("<blockquote>"), many("</blockquote>")),
            many("<ul><li>x"),
            many("<b></i>"),
            many("<a href='"),
            many("<a href=x>y"),
            many("<!--"),
            many("<table><tr><td>x"),
            many("</p>"),
            many("&"),
            many("<nav><title>"),
            format!("<p {}>x", many("a=b ")),
        ];
        for page in pages {
            let begun = Instant::now();
            let (_, text) = markdown(&page, &format!("https://a.example/{}", "x".repeat(1_000)));
            assert!(text.len() <= MAX_OUTPUT + 4_096, "{}", &page[..20]);
            assert!(begun.elapsed() < Duration::from_secs(10), "{}", &page[..20]);
        }
    }

    proptest! {
        #[test]
        fn any_page_is_converted(parts in prop::collection::vec(prop::sample::select(vec![
            "<p>", "</p>", "<ul>", "<li>", "</ul>", "<table>", "<tr>", "<td>", "</table>", "<pre>", "</pre>", "<a href=x>",
            "</a>", "<code>", "</code>", "<nav>", "</nav>", "<h1>", "</h1>", "text ", "\n", "é", "<br>", "<blockquote>",
            "</blockquote>", "<img alt=x>", "&lt;", "<", "<!--", "-->", "<title>", "</title>",
        ]), 0..60)) {
            converted(&parts.concat());
        }
    }
}
