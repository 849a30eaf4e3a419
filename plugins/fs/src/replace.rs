//! Exact text replacement in memory.
//!
//! Edits match the original content, in any order, and must not overlap. For matching, CRLF in the content and in the
//! edits equals LF. A line of a match keeps its line ending; a line that an edit adds gets the ending of the match's lines,
//! or the content's prevalent one if they have several or none. All other bytes stay unchanged, including a byte order mark
//! and mixed line endings.

use crate::diff::line_ops;
use similar::DiffOp;
use std::borrow::Cow;
use thiserror::Error;

const BYTE_ORDER_MARK: char = '\u{feff}';
/// Maximum number of occurrences to count.
const PLACES: usize = 1_000;
/// Maximum number of occurrences to list.
const NAMED: usize = 10;

/// One replacement.
#[derive(Debug, Clone)]
pub(crate) struct Edit<'a> {
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
    /// Replace all occurrences, not just a unique one.
    pub(crate) all: bool,
}

/// The result of applying edits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) content: String,
    /// Number of replaced occurrences.
    pub(crate) places: usize,
}

/// The reason why nothing was replaced. Edits are numbered from 0, as in the arguments.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The text to replace is empty.
    #[error("edits[{edit}]: old_text is empty; pass the text to replace, or use write")]
    Empty { edit: usize },
    /// The content does not contain the text.
    #[error("edits[{edit}]: old_text not found")]
    NotFound { edit: usize },
    /// The text occurs more than once, on these lines.
    #[error("edits[{edit}]: old_text occurs {} times, at lines {}; include more of the text around the one that is \
             meant, or set replace_all", at_most(*places), listed(lines, *places))]
    Ambiguous { edit: usize, places: usize, lines: Vec<usize> },
    /// Old and new text are equal.
    #[error("edits[{edit}]: new_text is the same as old_text")]
    NoChange { edit: usize },
    /// Two edits cover the same text.
    #[error("edits[{first}] and edits[{second}] overlap near line {line}; make them one edit")]
    Overlap { first: usize, second: usize, line: usize },
}

/// Applies all of `edits` or none.
///
/// # Errors
/// The first [`Problem`] found.
pub(crate) fn replace(content: &str, edits: &[Edit<'_>]) -> Result<Replaced, Problem> {
    let view = View::of(content);
    let mut spans = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        spans.extend(view.find(index, edit)?);
    }
    spans.sort_by_key(|span| span.start);
    if let Some([a, b]) = spans.windows(2).find(|pair| pair[1].start < pair[0].end) {
        let (first, second) = (a.edit.min(b.edit), a.edit.max(b.edit));
        return Err(Problem::Overlap { first, second, line: view.line_of(b.start) });
    }
    let mut result = String::with_capacity(content.len());
    let mut end = 0;
    for span in &spans {
        result.push_str(&content[end..view.place_in_content(span.start)]);
        result.push_str(&view.with_its_line_endings(span, edits[span.edit].new));
        end = view.place_in_content(span.end);
    }
    result.push_str(&content[end..]);
    Ok(Replaced { content: result, places: spans.len() })
}

/// A range of the view's text.
struct Span {
    start: usize,
    end: usize,
    edit: usize,
}

/// The content with LF line endings and without a byte order mark.
struct View<'a> {
    text: Cow<'a, str>,
    /// Length of the byte order mark in bytes.
    mark: usize,
    /// Positions in `text` of the line feeds whose carriage return was removed.
    crlf: Vec<usize>,
    endings: Endings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endings {
    Lf,
    Crlf,
    /// The text has a single line, or both endings.
    Unknown,
}

impl<'a> View<'a> {
    fn of(content: &'a str) -> Self {
        let body = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
        let mark = content.len() - body.len();
        let text = with_lf(body);
        let crlf: Vec<usize> =
            body.match_indices("\r\n").enumerate().map(|(left_out, (at, _))| at - left_out).collect();
        let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let endings = match (all, crlf.len() * 2 > all) {
            (0, _) => Endings::Unknown,
            (_, true) => Endings::Crlf,
            (_, false) => Endings::Lf,
        };
        Self { text, mark, crlf, endings }
    }

    fn find(&self, index: usize, edit: &Edit<'_>) -> Result<Vec<Span>, Problem> {
        let old = with_lf(edit.old.strip_prefix(BYTE_ORDER_MARK).unwrap_or(edit.old));
        if old.is_empty() {
            return Err(Problem::Empty { edit: index });
        }
        if old == with_lf(edit.new) {
            return Err(Problem::NoChange { edit: index });
        }
        let span = |start: usize| Span { start, end: start + old.len(), edit: index };
        if edit.all {
            let spans: Vec<Span> = self.text.match_indices(&*old).map(|(start, _)| span(start)).collect();
            return if spans.is_empty() { Err(Problem::NotFound { edit: index }) } else { Ok(spans) };
        }
        match self.places(&old).as_slice() {
            [] => Err(Problem::NotFound { edit: index }),
            [only] => Ok(vec![span(*only)]),
            places => {
                let lines = places.iter().take(NAMED).map(|place| self.line_of(*place)).collect();
                Err(Problem::Ambiguous { edit: index, places: places.len(), lines })
            }
        }
    }

    /// Returns the positions of `old`, including overlapping ones; at most [`PLACES`].
    fn places(&self, old: &str) -> Vec<usize> {
        let step = old.chars().next().map_or(1, char::len_utf8);
        let mut places = Vec::new();
        let mut from = 0;
        while places.len() < PLACES
            && let Some(found) = self.text[from..].find(old)
        {
            places.push(from + found);
            from += found + step;
        }
        places
    }

    fn line_of(&self, place: usize) -> usize {
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..place]).count() + 1
    }

    /// Maps a position in `text` to the content; a position before a line feed maps to before its carriage return.
    fn place_in_content(&self, place: usize) -> usize {
        self.mark + place + self.crlf.partition_point(|line_feed| *line_feed < place)
    }

    /// Gives the new text of a span the line endings of the text that it replaces.
    fn with_its_line_endings<'t>(&self, span: &Span, text: &'t str) -> Cow<'t, str> {
        let new = with_lf(text);
        match self.endings_in(span) {
            None if self.endings == Endings::Unknown => Cow::Borrowed(text),
            None => in_endings(new, self.endings),
            Some(Endings::Unknown) => Cow::Owned(self.line_by_line(span, &new)),
            Some(endings) => in_endings(new, endings),
        }
    }

    /// Returns the line endings in a span: `None` for a part of a line, [`Endings::Unknown`] for mixed ones.
    fn endings_in(&self, span: &Span) -> Option<Endings> {
        let all = memchr::memchr_iter(b'\n', &self.text.as_bytes()[span.start..span.end]).count();
        let before = |place: usize| self.crlf.partition_point(|line_feed| *line_feed < place);
        match before(span.end) - before(span.start) {
            _ if all == 0 => None,
            0 => Some(Endings::Lf),
            crlf if crlf == all => Some(Endings::Crlf),
            _ => Some(Endings::Unknown),
        }
    }

    /// Gives each line of `new` the ending of the line that it equals or replaces, and added lines the prevalent ending.
    fn line_by_line(&self, span: &Span, new: &str) -> String {
        let old: Vec<&str> = self.text[span.start..span.end].split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let mut end = span.start;
        let is_crlf: Vec<bool> = old
            .iter()
            .map(|line| {
                end += line.len();
                self.crlf.binary_search(&(end - 1)).is_ok()
            })
            .collect();
        let mut endings = vec![self.endings == Endings::Crlf; new.len()];
        for op in line_ops(&old, &new) {
            let (from, to) = (op.old_range(), op.new_range());
            if matches!(op, DiffOp::Equal { .. } | DiffOp::Replace { .. }) {
                to.zip(from).for_each(|(to, from)| {
                    // The last line of a match may have no ending.
                    if old[from].ends_with('\n') {
                        endings[to] = is_crlf[from];
                    }
                });
            }
        }
        let lines = new.iter().zip(endings);
        lines
            .map(|(line, is_crlf)| match line.strip_suffix('\n') {
                Some(line) if is_crlf => format!("{line}\r\n"),
                _ => (*line).to_owned(),
            })
            .collect()
    }
}

fn in_endings(text: Cow<'_, str>, endings: Endings) -> Cow<'_, str> {
    if endings == Endings::Crlf { Cow::Owned(text.replace('\n', "\r\n")) } else { text }
}

fn with_lf(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

fn at_most(places: usize) -> String {
    if places < PLACES { places.to_string() } else { format!("at least {PLACES}") }
}

fn listed(lines: &[usize], places: usize) -> String {
    let more = if places > lines.len() { ", ..." } else { "" };
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one<'a>(old: &'a str, new: &'a str) -> [Edit<'a>; 1] {
        [Edit { old, new, all: false }]
    }

    fn all<'a>(old: &'a str, new: &'a str) -> [Edit<'a>; 1] {
        [Edit { old, new, all: true }]
    }

    fn replaced(content: &str, edits: &[Edit<'_>]) -> String {
        replace(content, edits).unwrap().content
    }

    #[test]
    fn unique_match_is_replaced() {
        let result = replace("one two three", &one("two", "2")).unwrap();
        assert_eq!(result, Replaced { content: "one 2 three".into(), places: 1 });
    }

    #[test]
    fn missing_text_is_an_error() {
        assert_eq!(replace("one", &one("two", "2")), Err(Problem::NotFound { edit: 0 }));
        assert_eq!(replace("one", &all("two", "2")), Err(Problem::NotFound { edit: 0 }));
    }

    #[test]
    fn ambiguous_match_reports_count_and_lines() {
        let problem = replace("x\ny\nx x\n", &one("x", "z")).unwrap_err();
        assert_eq!(problem, Problem::Ambiguous { edit: 0, places: 3, lines: vec![1, 3, 3] });
        assert!(problem.to_string().contains("3 times, at lines 1, 3, 3;"), "{problem}");
    }

    #[test]
    fn overlapping_matches_are_counted_separately() {
        assert!(matches!(replace("aaa", &one("aa", "b")), Err(Problem::Ambiguous { places: 2, .. })));
        assert_eq!(replaced("aaa", &all("aa", "b")), "ba");
    }

    #[test]
    fn counting_of_matches_is_bounded() {
        let problem = replace(&"x ".repeat(5_000), &one("x", "y")).unwrap_err().to_string();
        assert!(problem.contains("at least 1000 times, at lines 1, 1,") && problem.contains(", ...;"), "{problem}");
    }

    #[test]
    fn all_matches_are_replaced_on_request() {
        assert_eq!(replace("x y x", &all("x", "long")).unwrap(), Replaced { content: "long y long".into(), places: 2 });
    }

    #[test]
    fn edits_match_the_original_in_any_order() {
        let edits = [one("c", "a")[0].clone(), one("a", "b")[0].clone()];
        assert_eq!(replaced("a-c", &edits), "b-a");
    }

    #[test]
    fn edits_may_be_adjacent_but_not_overlap() {
        let edits = [one("ab", "1")[0].clone(), one("cd", "2")[0].clone()];
        assert_eq!(replaced("abcd", &edits), "12");
        let edits = [one("bc", "1")[0].clone(), one("ab", "2")[0].clone()];
        assert_eq!(replace("x\nabcd", &edits), Err(Problem::Overlap { first: 0, second: 1, line: 2 }));
    }

    #[test]
    fn one_invalid_edit_rejects_all() {
        let edits = [one("a", "b")[0].clone(), one("z", "y")[0].clone()];
        assert_eq!(replace("a", &edits), Err(Problem::NotFound { edit: 1 }));
    }

    #[test]
    fn no_op_edit_is_rejected() {
        assert_eq!(replace("a\r\nb", &one("a\nb", "a\r\nb")), Err(Problem::NoChange { edit: 0 }));
        assert_eq!(replace("a", &one("", "b")), Err(Problem::Empty { edit: 0 }));
    }

    #[test]
    fn lf_matches_crlf_and_crlf_is_kept() {
        assert_eq!(replaced("a\r\nb\r\nc\r\n", &one("a\nb", "x\ny\nz")), "x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(replaced("a\r\nb\r\n", &one("\nb", "\nx\n")), "a\r\nx\r\n\r\n");
        assert_eq!(replaced("a\nb\n", &one("a\r\nb", "x\r\ny")), "x\ny\n");
    }

    #[test]
    fn mixed_line_endings_stay_outside_of_edits() {
        assert_eq!(replaced("a\nb\r\nc\r\nd\ne\r\n", &one("c", "x\ny")), "a\nb\r\nx\r\ny\r\nd\ne\r\n");
    }

    #[test]
    fn lines_in_a_match_keep_their_own_endings() {
        let mixed = "one\r\ntwo\nthree\r\nfour\n";
        assert_eq!(replaced(mixed, &one("one\ntwo", "one\n2")), "one\r\n2\nthree\r\nfour\n");
        assert_eq!(replaced(mixed, &one("two\nthree\nfour", "two\n3\nfour")), "one\r\ntwo\n3\r\nfour\n");
        assert_eq!(replaced(mixed, &one("one\ntwo\nthree\n", "0\none\nthree\n")), "0\none\r\nthree\r\nfour\n");
        assert_eq!(replaced("a\r\nb\r\nc\r\nd\ne\n", &one("d\ne", "d\nx\ne")), "a\r\nb\r\nc\r\nd\nx\ne\n");
        assert_eq!(replaced("a\nb\nc\nd\r\ne\r\n", &one("d\r\n", "d\r\nx\r\n")), "a\nb\nc\nd\r\nx\r\ne\r\n");
        assert_eq!(replaced("x\r\ny\nx\r\ny\r\n", &all("x\ny", "x\nz")), "x\r\nz\nx\r\nz\r\n");
    }

    #[test]
    fn byte_order_mark_is_kept() {
        assert_eq!(replaced("\u{feff}a\r\nb", &one("a\n", "x\n")), "\u{feff}x\r\nb");
        assert_eq!(replaced("\u{feff}a", &one("\u{feff}a", "b")), "\u{feff}b");
    }

    fn lines() -> impl Strategy<Value = String> {
        proptest::collection::vec("[ab\u{e9}]{0,4}", 0..12).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn unique_text_is_replaced_exactly(
            before in lines(), old in "[x-z\n]{1,6}", after in lines(), new in lines(),
        ) {
            let (content, old) = (format!("{before}<{old}>{after}"), format!("<{old}>"));
            let edits = one(&old, &new);
            prop_assert_eq!(replaced(&content, &edits), format!("{}{}{}", before, new, after));
        }

        #[test]
        fn crlf_result_equals_converted_lf_result(
            before in lines(), after in lines(), old in lines(), new in lines(),
        ) {
            let (content, old) = (format!("{before}\n<{old}>\n{after}"), format!("<{old}>"));
            let expected = replaced(&content, &one(&old, &new)).replace('\n', "\r\n");
            let content = content.replace('\n', "\r\n");
            prop_assert_eq!(&replaced(&content, &one(&old, &new)), &expected);
            prop_assert_eq!(&replaced(&content, &one(&old.replace('\n', "\r\n"), &new)), &expected);
        }

        #[test]
        fn bytes_outside_of_edits_never_change(
            before in "[ab\r\n\u{e9}]{0,20}", after in "[ab\r\n\u{e9}]{0,20}", new in "[ab]{0,5}",
        ) {
            let content = format!("{before}<\u{2603}>{after}");
            prop_assert_eq!(replaced(&content, &one("<\u{2603}>", &new)), format!("{}{}{}", before, new, after));
        }

        #[test]
        fn unchanged_lines_of_a_match_keep_their_endings(
            lines in proptest::collection::vec(("[ab]{1,3}", any::<bool>()), 1..8), at in any::<proptest::sample::Index>(),
        ) {
            let content = |changed: Option<usize>| -> String {
                let line = |(i, (line, crlf)): (usize, &(String, bool))| {
                    format!("{i}{line}{}{}", if changed == Some(i) { "!" } else { "" }, if *crlf { "\r\n" } else { "\n" })
                };
                lines.iter().enumerate().map(line).collect()
            };
            let (old, new) = (content(None), content(Some(at.index(lines.len()))));
            prop_assert_eq!(replaced(&old, &one(&with_lf(&old), &with_lf(&new))), new);
        }

        #[test]
        fn arbitrary_input_does_not_panic(
            content in "\\PC{0,30}|[a\r\n]{0,30}",
            edits in proptest::collection::vec(("[a\r\n]{0,3}", "[ab\r\n]{0,3}", any::<bool>()), 0..4),
        ) {
            let edits: Vec<Edit<'_>> = edits.iter().map(|(old, new, all)| Edit { old, new, all: *all }).collect();
            let _ = replace(&content, &edits);
        }
    }
}
