//! The tags and texts of HTML. Whatever the input, each byte is read a bounded number of times.

use crate::entities;

/// A part of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Text(&'a str),
    Open(Tag<'a>),
    /// The name in lower case.
    Close(String),
    /// The content of an element whose content has no markup, such as a title.
    Raw {
        name: String,
        content: &'a str,
    },
}

/// A start tag.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    /// In lower case.
    pub(crate) name: String,
    attributes: &'a str,
}

/// Elements whose content has no markup.
const RAW: &[&str] = &["script", "style", "title", "textarea", "iframe", "noembed", "noframes", "xmp"];
/// Bytes of the name of an element.
const MAX_NAME: usize = 32;

/// Splits a page into tokens.
pub(crate) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn markup(&mut self) -> Option<Token<'a>> {
        let after = &self.rest[1..];
        if let Some(comment) = after.strip_prefix("!--") {
            self.rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            return None;
        }
        if let Some(close) =
            after.strip_prefix('/').filter(|close| close.starts_with(|c: char| c.is_ascii_alphabetic()))
        {
            self.rest = close.split_once('>').map_or("", |(_, rest)| rest);
            return Some(Token::Close(name(close).to_ascii_lowercase()));
        }
        if after.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return self.tag(after);
        }
        if after.starts_with(['!', '/', '?']) {
            self.rest = after.split_once('>').map_or("", |(_, rest)| rest);
            return None;
        }
        let (text, rest) = self.rest.split_at(1);
        self.rest = rest;
        Some(Token::Text(text))
    }

    fn tag(&mut self, after: &'a str) -> Option<Token<'a>> {
        let found = name(after);
        let Some(end) = end_of_tag(after) else {
            self.rest = "";
            return None;
        };
        self.rest = &after[end + 1..];
        let tag = Tag { name: found.to_ascii_lowercase(), attributes: &after[found.len()..end] };
        if !RAW.contains(&tag.name.as_str()) {
            return Some(Token::Open(tag));
        }
        let end = closing(self.rest, &tag.name).unwrap_or(self.rest.len());
        let (content, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(Token::Raw { name: tag.name, content })
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while !self.rest.is_empty() {
            let token = match self.rest.find('<').unwrap_or(self.rest.len()) {
                0 => self.markup(),
                end => {
                    let (text, rest) = self.rest.split_at(end);
                    self.rest = rest;
                    Some(Token::Text(text))
                }
            };
            if token.is_some() {
                return token;
            }
        }
        None
    }
}

impl Tag<'_> {
    /// Returns the value of an attribute, decoded; empty if it has none.
    pub(crate) fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if rest.is_empty() {
                return None;
            }
            let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/');
            // A name may begin with `=`.
            let end = rest.char_indices().skip(1).find(|(_, c)| is_end(*c)).map_or(rest.len(), |(at, _)| at);
            let (name, after) = rest.split_at(end);
            let (value, after) = value(after.trim_start());
            if name.eq_ignore_ascii_case(wanted) {
                return Some(entities::decoded(value).into_owned());
            }
            rest = after;
        }
    }
}

/// Splits off the value at the beginning of a text, if it begins with `=`.
fn value(text: &str) -> (&str, &str) {
    let Some(value) = text.strip_prefix('=').map(str::trim_start) else { return ("", text) };
    for quote in ['"', '\''] {
        if let Some(quoted) = value.strip_prefix(quote) {
            return quoted.split_once(quote).unwrap_or((quoted, ""));
        }
    }
    value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len()))
}

fn name(text: &str) -> &str {
    let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>');
    let end = text.find(is_end).unwrap_or(text.len());
    &text[..text.floor_char_boundary(end.min(MAX_NAME))]
}

/// Returns the position of the `>` that ends a tag, which is not in quotation marks.
fn end_of_tag(text: &str) -> Option<usize> {
    let (mut quote, mut is_value) = (None, false);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') if is_value => quote = Some(byte),
            _ => {}
        }
        // Quotation marks count only where a value begins.
        is_value = byte == b'=' || (is_value && byte.is_ascii_whitespace());
    }
    None
}

/// Returns the position of the end tag of a name.
fn closing(text: &str, name: &str) -> Option<usize> {
    text.match_indices("</").map(|(at, _)| at).find(|at| {
        let after = text.as_bytes().get(at + 2..).unwrap_or_default();
        let is_name = after.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()));
        is_name && after.get(name.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_read_in_every_spelling() {
        let text = "<A HREF = 'x>y' title=\"a&amp;b\" hidden data-x=1/2 checked>z";
        let mut tokens = Tokens::of(text);
        let Some(Token::Open(tag)) = tokens.next() else { panic!() };
        assert_eq!(tag.name, "a");
        for (name, value) in [("href", "x>y"), ("title", "a&b"), ("hidden", ""), ("data-x", "1/2"), ("CHECKED", "")] {
            assert_eq!(tag.attribute(name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(tag.attribute("y"), None);
        assert_eq!(tokens.next(), Some(Token::Text("z")));
    }

    #[test]
    fn markup_without_an_end_ends_the_page() {
        for text in ["a<!-- x", "a<b x='", "a<script>x</scripts>", "a</b"] {
            let texts = Tokens::of(text).filter(|token| matches!(token, Token::Text(_))).count();
            assert_eq!(texts, 1, "{text}");
        }
        let text: Vec<_> = Tokens::of("1 < 2<? x ?><!doctype y>3</ z>").collect();
        assert_eq!(text, [Token::Text("1 "), Token::Text("<"), Token::Text(" 2"), Token::Text("3")]);
    }

    #[test]
    fn content_of_scripts_has_no_tags() {
        let tokens: Vec<_> = Tokens::of("<SCRIPT>'</p><b>'</Script >x").collect();
        let script = Token::Raw { name: "script".to_owned(), content: "'</p><b>'" };
        assert_eq!(tokens, [script, Token::Close("script".to_owned()), Token::Text("x")]);
    }

    proptest! {
        #[test]
        fn any_text_is_split(text in "[<>/a-c='\" !&;é-]{0,60}|\\PC{0,60}") {
            for token in Tokens::of(&text) {
                if let Token::Open(tag) = token {
                    prop_assert!(tag.name.len() <= MAX_NAME);
                    tag.attribute("a");
                }
            }
        }
    }
}
