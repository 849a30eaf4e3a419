//! Explanations of texts that are almost in a file: quotes, dashes, blanks, accents and copied decoration.
//!
//! Text that a model repeats often differs from the file in characters that look alike. Lines are compared by tokens in a
//! folded form: one for each letter with its accents, for each run of blanks or dashes, and for each other character. What
//! the folded forms hide is then named exactly, with its place in the file.

use crate::look_alikes::{folded, is_blank, is_dash, is_ignored, is_mark};
use crate::text::{count, cut};
use std::ops::Range;

/// Maximum number of differences to name.
const NAMED: usize = 6;
/// Maximum number of characters of a difference to show.
const SHOWN_CHARS: usize = 24;
/// Maximum bytes of a line to compare.
const LINE_BYTES: usize = 4 * 1024;
/// Maximum number of lines to compare.
const WANTED_LINES: usize = 1_000;
/// Maximum bytes of the file to compare.
const FILE_BYTES: usize = 2 * 1024 * 1024;

/// A place in the file whose text differs from the wanted one only in ways that are easy to overlook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NearMiss {
    /// Index of the first line.
    pub(crate) start: usize,
    /// Index after the last line.
    pub(crate) end: usize,
    /// Whether all differences are blanks.
    pub(crate) is_whitespace: bool,
    /// Phrases for the first differences.
    pub(crate) differences: Vec<String>,
}

/// Finds the first place where `wanted` would occur if look-alikes were equal.
pub(crate) fn near_miss(lines: &[&str], wanted: &str) -> Option<NearMiss> {
    let wanted = Folded::of_lines(wanted.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)));
    if wanted.is_empty() || wanted.len() > WANTED_LINES {
        return None;
    }
    let mut bytes = 0;
    let within = lines.iter().copied().take_while(|line| {
        bytes += line.len();
        bytes <= FILE_BYTES
    });
    let file = Folded::of_lines(within);
    let at = file.windows(wanted.len()).position(|window| is_match(window, &wanted))?;
    Some(compare(&file[at..at + wanted.len()], &wanted))
}

/// Names the first difference of two lines, which start at `line` of the file, counted from 1.
pub(crate) fn first_difference(line: usize, found: &str, wanted: &str) -> Option<String> {
    let at = found.chars().zip(wanted.chars()).position(|(a, b)| a != b);
    let at = at.unwrap_or_else(|| found.chars().count().min(wanted.chars().count()));
    let rest = |text: &str| text.chars().skip(at).take(SHOWN_CHARS).collect::<String>();
    let (found, wanted) = (rest(found), rest(wanted));
    (found != wanted).then(|| {
        let (found, wanted) = (quoted_rest(&found), quoted_rest(&wanted));
        format!("first difference at line {line}, column {}: the file has {found}, old_text has {wanted}", at + 1)
    })
}

fn quoted_rest(text: &str) -> String {
    if text.is_empty() { "the end of the line".to_owned() } else { format!("`{}`", visible(text)) }
}

/// A line that is not blank, in folded form.
struct Folded<'a> {
    /// Its index.
    index: usize,
    line: &'a str,
    /// The folded tokens, each between two separators, so that a token is never found in a part of another.
    key: String,
}

/// Part of a line that counts as one for the comparison.
struct Token {
    folded: String,
    range: Range<usize>,
}

impl Token {
    /// Its text, if that is blanks.
    fn blanks<'a>(&self, line: &'a str) -> &'a str {
        if matches!(&*self.folded, "" | " ") { &line[self.range.clone()] } else { "" }
    }
}

const SEPARATOR: char = '\u{1f}';

impl<'a> Folded<'a> {
    fn of_lines(lines: impl Iterator<Item = &'a str>) -> Vec<Self> {
        let not_blank = lines.enumerate().filter(|(_, line)| !line.chars().all(is_blank));
        not_blank.map(|(index, line)| Self { index, line, key: key(&tokens(cut(line, LINE_BYTES))) }).collect()
    }

    fn tokens(&self) -> Vec<Token> {
        tokens(cut(self.line, LINE_BYTES))
    }
}

fn key(tokens: &[Token]) -> String {
    let mut key = String::from(SEPARATOR);
    for token in tokens.iter().filter(|token| !token.folded.is_empty()) {
        key.push_str(&token.folded);
        key.push(SEPARATOR);
    }
    key
}

/// Returns whether lines of the file match: the first one may begin before the text, the last one may continue after it.
fn is_match(window: &[Folded<'_>], wanted: &[Folded<'_>]) -> bool {
    let last = wanted.len() - 1;
    window.iter().zip(wanted).enumerate().all(|(i, (line, wanted))| match (i == 0, i == last) {
        (true, true) => line.key.contains(&wanted.key),
        (true, false) => line.key.ends_with(&wanted.key),
        (false, true) => line.key.starts_with(&wanted.key),
        (false, false) => line.key == wanted.key,
    })
}

fn compare(window: &[Folded<'_>], wanted: &[Folded<'_>]) -> NearMiss {
    let last = wanted.len() - 1;
    let (mut differences, mut is_whitespace) = (Vec::new(), true);
    for (i, (line, want)) in window.iter().zip(wanted).enumerate() {
        if i > 0 {
            let blank = |lines: &[Folded<'_>]| lines[i].index - lines[i - 1].index - 1;
            let (found, named) = (blank(window), blank(wanted));
            if found != named {
                let after = window[i - 1].index + 1;
                differences.push(format!("after line {after}, {}", has(&blank_lines(found), &blank_lines(named))));
            }
        }
        let (found, named) = (line.tokens(), want.tokens());
        let start = if i == 0 { offset(&found, &named, i == last) } else { 0 };
        let before = start.checked_sub(1).map_or("", |before| found[before].blanks(line.line));
        let pairs = Pairs { line, want, before, is_first: i == 0, is_last: i == last };
        is_whitespace &= pairs.compare(&found[start..], &named, &mut differences);
    }
    let (start, end) = (window[0].index, window[last].index + 1);
    NearMiss { start, end, is_whitespace, differences: named(differences) }
}

/// Returns the position of the token at which the wanted ones begin.
fn offset(found: &[Token], named: &[Token], is_last: bool) -> usize {
    let inner: Vec<&str> = named.iter().map(|token| &*token.folded).filter(|folded| !folded.is_empty()).collect();
    let fits = |from: usize| {
        let mut rest = found[from..].iter().map(|token| &*token.folded).filter(|folded| !folded.is_empty());
        inner.iter().all(|folded| rest.next() == Some(folded)) && (is_last || rest.next().is_none())
    };
    // A leading blank of the text is compared, if the file has one there.
    let from =
        (0..found.len()).find(|from| fits(*from) && (!found[*from].folded.is_empty() || named[0].folded.is_empty()));
    from.unwrap_or(0)
}

/// Two lines with equal folded tokens.
struct Pairs<'a> {
    line: &'a Folded<'a>,
    want: &'a Folded<'a>,
    /// The blanks of the file before the text.
    before: &'a str,
    is_first: bool,
    is_last: bool,
}

impl Pairs<'_> {
    /// Adds phrases for the differences. Returns whether all are blanks.
    fn compare(&self, found: &[Token], named: &[Token], differences: &mut Vec<String>) -> bool {
        let (number, mut is_whitespace) = (self.line.index + 1, true);
        let (mut found, mut named) = (Sides::of(found, self.line.line), Sides::of(named, self.want.line));
        let leading = if found.leading.is_empty() { self.before } else { found.leading };
        // The text may begin inside of the file's line, and end there.
        let may_begin = self.is_first && leading.ends_with(named.leading);
        if !may_begin && leading != named.leading {
            differences.push(format!("line {number} begins: {}", has(&blanks(leading), &blanks(named.leading))));
        }
        for want in named.inner.by_ref() {
            let Some(have) = found.inner.next() else { break };
            let (have_text, want_text) = (&self.line.line[have.range.clone()], &self.want.line[want.range.clone()]);
            if have_text == want_text {
                continue;
            }
            let column = self.line.line[..have.range.start].chars().count() + 1;
            let is_blank = want.folded == " ";
            is_whitespace &= is_blank;
            let (have, want) = match is_blank {
                true => (blanks(have_text), blanks(want_text)),
                false => (described(have_text, want_text), described(want_text, have_text)),
            };
            differences.push(format!("line {number}, column {column}: {}", has(&have, &want)));
        }
        let trailing = found.inner.next().map_or(found.trailing, |next| next.blanks(self.line.line));
        let may_end = self.is_last && trailing.starts_with(named.trailing);
        if !may_end && trailing != named.trailing {
            differences.push(format!("line {number} ends: {}", has(&blanks(trailing), &blanks(named.trailing))));
        }
        is_whitespace
    }
}

/// The blanks at both ends of a line's tokens, and the tokens between.
struct Sides<'a> {
    leading: &'a str,
    inner: std::slice::Iter<'a, Token>,
    trailing: &'a str,
}

impl<'a> Sides<'a> {
    fn of(mut tokens: &'a [Token], line: &'a str) -> Self {
        let (mut leading, mut trailing) = ("", "");
        if let [first, rest @ ..] = tokens
            && first.folded.is_empty()
        {
            (leading, tokens) = (&line[first.range.clone()], rest);
        }
        if let [rest @ .., last] = tokens
            && last.folded.is_empty()
        {
            (trailing, tokens) = (&line[last.range.clone()], rest);
        }
        Self { leading, inner: tokens.iter(), trailing }
    }
}

fn has(found: &str, wanted: &str) -> String {
    format!("the file has {found}, old_text has {wanted}")
}

fn named(mut differences: Vec<String>) -> Vec<String> {
    let more = differences.len().saturating_sub(NAMED);
    if more > 0 {
        differences.truncate(NAMED);
        differences.push(format!("and {more} more"));
    }
    differences
}

fn blank_lines(number: usize) -> String {
    if number == 0 { "no blank line".to_owned() } else { count(number as u64, "blank line") }
}

/// Splits a line into tokens. Blanks at either end are tokens with an empty folded form.
fn tokens(line: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut chars = line.char_indices().peekable();
    let mut from = 0;
    while let Some((_, first)) = chars.next() {
        if is_ignored(first) && chars.peek().is_some() {
            // Belongs to the next token.
            continue;
        }
        let is_run: fn(char) -> bool = match first {
            c if is_blank(c) => is_blank,
            c if is_dash(c) => is_dash,
            '.' => |c| c == '.',
            c if is_mark(c) => |_| false,
            _ => is_mark,
        };
        while chars.next_if(|(_, c)| is_run(*c)).is_some() {}
        let end = chars.peek().map_or(line.len(), |(at, _)| *at);
        tokens.push(Token { folded: folded(&line[from..end]), range: from..end });
        from = end;
    }
    let is_blank = |token: &Token| token.folded == " ";
    if let Some(first) = tokens.first_mut().filter(|token| is_blank(token)) {
        first.folded.clear();
    }
    if let Some(last) = tokens.last_mut().filter(|token| is_blank(token)) {
        last.folded.clear();
    }
    tokens
}

/// Describes blanks: `4 spaces`, `1 tab and 2 spaces`, `1 no-break space (U+00A0)`.
fn blanks(text: &str) -> String {
    let mut runs: Vec<(char, u64)> = Vec::new();
    for c in text.chars() {
        match runs.last_mut() {
            Some((last, number)) if *last == c => *number += 1,
            _ => runs.push((c, 1)),
        }
    }
    if runs.is_empty() {
        return "no blank".to_owned();
    }
    let more = runs.len() > NAMED;
    let mut words: Vec<String> = runs
        .into_iter()
        .take(NAMED)
        .map(|(c, number)| match c {
            ' ' => count(number, "space"),
            '\t' => count(number, "tab"),
            '\r' => count(number, "carriage return"),
            '\u{a0}' => format!("{} (U+00A0)", count(number, "no-break space")),
            c => format!("{number} × U+{:04X}", u32::from(c)),
        })
        .collect();
    if more {
        words.push("more".to_owned());
    }
    words.join(" and ")
}

/// Describes a token that looks like `other`: with its code points, where they are not plain ASCII, or decide.
fn described(text: &str, other: &str) -> String {
    if text.is_ascii() && other.is_ascii() {
        return format!("`{}`", visible(text));
    }
    let codes: Vec<String> =
        text.chars().take(NAMED).map(|c| format!("U+{:04X}{}", u32::from(c), kind(c).unwrap_or_default())).collect();
    format!("`{}` ({})", visible(text), codes.join(" "))
}

fn kind(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201a}' => " typographic quote",
        '\u{2010}' | '\u{2011}' => " hyphen",
        '\u{2013}' => " en dash",
        '\u{2014}' => " em dash",
        '\u{2212}' => " minus sign",
        '\u{2026}' => " ellipsis",
        '\u{ff01}'..='\u{ff5e}' => " full width",
        c if is_ignored(c) => " invisible",
        c if is_mark(c) => " combining",
        _ => return None,
    })
}

fn visible(text: &str) -> String {
    let shown = |c: char| if c.is_control() || is_ignored(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn miss(text: &str, wanted: &str) -> NearMiss {
        let lines: Vec<&str> = text.lines().collect();
        near_miss(&lines, wanted).unwrap_or_else(|| panic!("{wanted:?} is not in {text:?}"))
    }

    fn only(text: &str, wanted: &str) -> String {
        let miss = miss(text, wanted);
        assert_eq!(miss.differences.len(), 1, "{:?}", miss.differences);
        miss.differences[0].clone()
    }

    #[test]
    fn look_alikes_are_named_with_their_place() {
        let expected =
            "line 2, column 6: the file has `\u{201c}` (U+201C typographic quote), old_text has `\"` (U+0022)";
        assert_eq!(miss("x\nsay: \u{201c}hi\u{201d}\n", "\"hi\"").differences[0], expected);
        for (file, wanted, word) in [
            ("it\u{2019}s", "it's", "U+2019"),
            ("it's", "it\u{2019}s", "U+2019"),
            ("a \u{2013} b", "a - b", "U+2013 en dash"),
            ("a -- b", "a \u{2014} b", "U+2014 em dash"),
            ("a\u{a0}b", "a b", "1 no-break space (U+00A0)"),
            ("a\u{202f}b", "a b", "1 × U+202F"),
            ("cafe\u{301} x", "caf\u{e9} x", "U+0065 U+0301 combining"),
            ("caf\u{e9} x", "cafe\u{301} x", "U+00E9"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}", "U+D55C"),
            ("wait\u{2026}", "wait...", "U+2026 ellipsis"),
            ("ab\u{200b}cd", "abcd", "U+200B invisible"),
            ("f\u{ff08}x)", "f(x)", "U+FF08 full width"),
            ("let Total = 1;", "let total = 1;", "the file has `T`, old_text has `t`"),
        ] {
            let text = only(file, wanted);
            assert!(text.contains(word) && text.starts_with("line 1, column "), "{file}: {text}");
        }
    }

    #[test]
    fn blanks_are_counted() {
        for (file, wanted, expected) in [
            ("\tx();\n", "    x();", "line 1 begins: the file has 1 tab, old_text has 4 spaces"),
            ("a  \nb\n", "a\nb", "line 1 ends: the file has 2 spaces, old_text has no blank"),
            ("a\nb\n", "a\nb  ", "line 2 ends: the file has no blank, old_text has 2 spaces"),
            ("a =  1\n", "a =\t1", "line 1, column 4: the file has 2 spaces, old_text has 1 tab"),
            ("a\n\n\nb\n", "a\n\nb", "after line 1, the file has 2 blank lines, old_text has 1 blank line"),
            ("a\nb\n", "a\n\nb", "after line 1, the file has no blank line, old_text has 1 blank line"),
        ] {
            let miss = miss(file, wanted);
            assert!(miss.is_whitespace);
            assert_eq!(miss.differences, [expected], "{file:?}");
        }
    }

    #[test]
    fn text_may_begin_and_end_inside_of_lines() {
        let miss = miss("fn a() { \u{2018}x\u{2019} }\nlet b = 1; // c\n", "'x' }\nlet b = 1;");
        assert_eq!((miss.start, miss.end, miss.is_whitespace), (0, 2, false));
        assert_eq!(miss.differences.len(), 2, "{:?}", miss.differences);
    }

    #[test]
    fn many_differences_are_counted() {
        let miss = miss(&"\u{201c}".repeat(20), &"\"".repeat(20));
        assert_eq!((miss.differences.len(), &*miss.differences[NAMED]), (NAMED + 1, "and 14 more"));
    }

    #[test]
    fn other_text_is_no_near_miss() {
        for (file, wanted) in [("alpha", "beta"), ("", "x"), ("x", " \n"), ("foobar", "foo bar")] {
            let lines: Vec<&str> = file.lines().collect();
            assert_eq!(near_miss(&lines, wanted), None, "{file}");
        }
    }

    #[test]
    fn first_difference_of_two_lines_is_named() {
        let text = first_difference(3, "let total = 1;", "let totl = 1;").unwrap();
        assert_eq!(text, "first difference at line 3, column 8: the file has `al = 1;`, old_text has `l = 1;`");
        assert!(
            first_difference(1, "ab", "a").unwrap().ends_with("the file has `b`, old_text has the end of the line")
        );
        assert_eq!(first_difference(1, "a", "a"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(
            file in "[a.\\- \t\u{a0}\u{e9}\u{301}\u{2019}\u{200b}\n\r\u{feff}\u{2026}]{0,40}",
            wanted in "[a.\\- \t\u{a0}\u{e9}\u{301}\u{2019}\u{200b}\n\r\u{feff}\u{2026}]{0,12}",
        ) {
            let lines: Vec<&str> = file.lines().collect();
            let _ = near_miss(&lines, &wanted);
        }

        #[test]
        fn every_near_miss_of_other_text_names_a_difference(
            file in "[ab.\\- \t\u{2019}\u{e9}\u{301}\u{200b}]{1,12}",
            wanted in "[ab.\\- \t\u{2019}\u{e9}\u{301}\u{200b}]{1,12}",
        ) {
            if let Some(miss) = near_miss(&[&file], &wanted) && !file.contains(&wanted) {
                prop_assert!(!miss.differences.is_empty(), "{miss:?}");
            }
        }
    }
}
