//! Links that terminals open (OSC 8).
//!
//! A cell of a frame has no room for a target. The colour of its underline, which nothing else uses, is the number of
//! its link, so that frames are compared and scrolled with their links like everything else.

use ratatui_core::style::{Color, Style};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of links, and of bytes of a target. Beyond them, text has no links.
const MAX_LINKS: usize = 50_000;
const MAX_BYTES: usize = 2_000;
/// Schemes of targets. Others could start programs.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// The targets of all links that were drawn.
#[derive(Debug, Default)]
pub struct Links {
    targets: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Links {
    /// Returns a style that makes its text a link.
    pub(crate) fn mark(&mut self, style: Style, target: &Arc<str>) -> Style {
        match self.number(target) {
            Some(number) => {
                let [_, r, g, b] = number.to_be_bytes();
                style.underline_color(Color::Rgb(r, g, b))
            }
            None => style,
        }
    }

    fn number(&mut self, target: &Arc<str>) -> Option<u32> {
        if let Some(number) = self.numbers.get(target) {
            return Some(*number);
        }
        let number = u32::try_from(self.targets.len()).ok().filter(|number| (*number as usize) < MAX_LINKS)?;
        self.targets.push(target.clone());
        self.numbers.insert(target.clone(), number);
        Some(number)
    }

    /// Returns the link of a cell, with its number.
    pub(crate) fn find_link(&self, mark: Color) -> Option<(u32, &str)> {
        let Color::Rgb(r, g, b) = mark else { return None };
        let number = u32::from_be_bytes([0, r, g, b]);
        self.targets.get(number as usize).map(|target| (number, &**target))
    }
}

/// Returns the target of a link in a form that is safe in a sequence; `None` for one that is not offered.
pub(crate) fn target(text: &str) -> Option<Arc<str>> {
    let is_offered =
        SCHEMES.iter().any(|scheme| text.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)));
    let is_plain = text.len() <= MAX_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
    (is_offered && is_plain).then(|| text.into())
}

/// Finds the first address in a text and returns its range.
pub(crate) fn find(text: &str) -> Option<std::ops::Range<usize>> {
    let begins = |at: &usize| text[*at..].starts_with("https://") || text[*at..].starts_with("http://");
    let start = text.match_indices("http").map(|(at, _)| at).find(begins)?;
    let is_end =
        |c: char| !c.is_ascii_graphic() || matches!(c, '<' | '>' | '"' | '`' | '\'' | '\\' | '^' | '{' | '}' | '|');
    let end = text[start..].find(is_end).map_or(text.len(), |length| start + length);
    let found = &text[start..end];
    if found.len() > MAX_BYTES {
        return Some(start..end);
    }
    // Punctuation behind an address belongs to the sentence, and a bracket to the text around the address.
    let mut found = found.trim_end_matches(['.', ',', ':', ';', '!', '?', '*', '_']);
    for (open, close) in [('(', ')'), ('[', ']')] {
        while found.ends_with(close) && found.matches(open).count() < found.matches(close).count() {
            found = found[..found.len() - 1].trim_end_matches(['.', ',', ':', ';', '!', '?']);
        }
    }
    (found.len() > "https://".len()).then(|| start..start + found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_end_before_the_punctuation_of_the_sentence() {
        let found = |text: &'static str| find(text).map(|range| &text[range]);
        assert_eq!(found("See https://a.example/x?y=1#z, and"), Some("https://a.example/x?y=1#z"));
        assert_eq!(found("(http://a.example/b_(c))."), Some("http://a.example/b_(c)"));
        assert_eq!(found("\"https://a.example\""), Some("https://a.example"));
        assert_eq!((found("https://"), found("ftp://a.example")), (None, None));
    }

    #[test]
    fn only_plain_addresses_are_targets() {
        assert!(target("https://a.example/%20").is_some() && target("MAILTO:a@b.example").is_some());
        for text in ["file:///etc/passwd", "javascript:alert(1)", "https://a b", "https://ä.example", "https://a\x1b\\"]
        {
            assert_eq!(target(text), None, "{text}");
        }
    }
}
