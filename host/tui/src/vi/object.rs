//! Text objects of vi: words, and the text between quotes or brackets.

use crate::vi::text::{Class, GraphemeText};
use std::ops::Range;

impl GraphemeText<'_> {
    /// Returns the places of the object `iw`, `a"`, `i(` and so on around a place.
    pub(super) fn object(&self, at: usize, is_around: bool, what: char) -> Option<Range<usize>> {
        match what {
            'w' | 'W' => Some(self.word(at, is_around, what == 'W')),
            '"' | '\'' | '`' => self.quoted(at, is_around, what),
            '(' | ')' | 'b' => self.bracketed(at, is_around, "(", ")"),
            '[' | ']' => self.bracketed(at, is_around, "[", "]"),
            '{' | '}' | 'B' => self.bracketed(at, is_around, "{", "}"),
            '<' | '>' => self.bracketed(at, is_around, "<", ">"),
            _ => None,
        }
    }

    /// Returns the word or the blanks at a place; around it, with the blanks behind it, or else before it.
    fn word(&self, at: usize, is_around: bool, is_big: bool) -> Range<usize> {
        let (start, end) = (self.line_start(at), self.line_end(at));
        let class = self.class(at, is_big);
        let same = |place: &usize| self.class(*place, is_big) == class;
        let first = (start..at).rev().take_while(same).last().unwrap_or(at);
        let behind = (at..end).find(|place| !same(place)).unwrap_or(end);
        if !is_around {
            return first..behind;
        }
        let is_blank = |place: &usize| self.class(*place, is_big) == Class::Blank;
        let after = match class {
            Class::Blank if behind < end => self.word(behind, false, is_big).end,
            _ => (behind..end).find(|place| !is_blank(place)).unwrap_or(end),
        };
        let before = (start..first).rev().take_while(is_blank).last().filter(|_| after == behind).unwrap_or(first);
        before..after
    }

    /// Returns the quoted text at a place, or the next one on its line.
    fn quoted(&self, at: usize, is_around: bool, quote: char) -> Option<Range<usize>> {
        let (start, end) = (self.line_start(at), self.line_end(at));
        let is_quote = |place: &usize| {
            let is_escaped = *place > start && self.at(place - 1) == "\\";
            self.at(*place).chars().eq([quote]) && !is_escaped
        };
        let quotes: Vec<usize> = (start..end).filter(is_quote).collect();
        let mut pairs = quotes.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let (open, close) = pairs.find(|(_, close)| *close >= at)?;
        if !is_around {
            return Some(open + 1..close);
        }
        let after = (close + 1..end).find(|place| self.class(*place, false) != Class::Blank).unwrap_or(end);
        Some(open..after)
    }

    /// Returns the text between the nearest pair of brackets around a place.
    fn bracketed(&self, at: usize, is_around: bool, open: &str, close: &str) -> Option<Range<usize>> {
        let first = if self.at(at) == open { at } else { self.open(at, open, close)? };
        let last = self.close(first + 1, open, close)?;
        Some(if is_around { first..last + 1 } else { first + 1..last })
    }
}
