//! Splits the model's Markdown into segments that are rendered apart from each other.
//!
//! While a text grows, only its last segment changes, so that the cost of a frame does not depend on the length of the
//! answer. A segment ends where a block of the top level begins after an empty line, and every [`FENCE_LINES`] lines
//! within a code block.

use std::borrow::Cow;
use std::ops::Range;

/// Lines of code in one segment.
const FENCE_LINES: usize = 100;

/// A part of the model's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TextSegment {
    text: String,
    /// The line that opened the code block where the segment begins.
    fence: Option<String>,
    scan: SegmentScan,
}

/// State of the search for the end of a segment, which continues where it stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SegmentScan {
    /// Offset of the first line that is not scanned.
    at: usize,
    lines: usize,
    fence: Option<String>,
    is_after_blank: bool,
}

impl TextSegment {
    /// Creates the first segment of a text.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Returns the segment as Markdown that stands for itself.
    pub(crate) fn markdown(&self) -> Cow<'_, str> {
        self.slice_markdown(0..self.text.len())
    }

    /// Returns a part of the segment, from one item to another, as Markdown that stands for itself.
    pub(crate) fn slice_markdown(&self, range: Range<usize>) -> Cow<'_, str> {
        let text = &self.text[range.clone()];
        match self.fence.as_ref().filter(|_| range.start == 0) {
            Some(fence) => format!("{fence}\n{text}").into(),
            None => text.into(),
        }
    }

    /// Returns the empty segment that follows if this one ends here.
    pub(crate) fn following_segment(&self) -> Self {
        let fence = self.scan.fence.clone();
        Self { text: String::new(), scan: SegmentScan { fence: fence.clone(), ..SegmentScan::default() }, fence }
    }

    /// Returns whether the segment continues the block of the one before.
    pub(crate) fn continues(&self) -> bool {
        self.fence.is_some()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the offset of the next item of a list of the top level that begins behind this one, where another part
    /// begins.
    pub(crate) fn next_item(&self, from: usize) -> Option<usize> {
        let (mut at, mut fence) = (from, self.fence.as_deref());
        let (mut is_in_list, mut is_after_blank) = (false, true);
        for line in self.text[from..].split_inclusive('\n') {
            match fence {
                Some(open) if closes(line, open) => fence = None,
                Some(_) => {}
                None if fence_of(line).is_some() => fence = Some(line),
                None => {
                    // Within a paragraph, only 1 begins a list with numbers.
                    let item = item_of(line).filter(|first| is_in_list || is_after_blank || *first);
                    if item.is_some() && at > from {
                        return Some(at);
                    }
                    is_in_list |= item.is_some();
                }
            }
            is_after_blank = line.trim().is_empty();
            at += line.len();
        }
        None
    }

    /// Appends a piece and returns the segments that follow this one now.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<TextSegment> {
        self.text.push_str(piece);
        let mut more: Vec<TextSegment> = Vec::new();
        loop {
            let last = more.last_mut().unwrap_or(self);
            let Some((end, fence)) = last.end() else { return more };
            let text = last.text.split_off(end);
            let scan = SegmentScan { fence: fence.clone(), ..SegmentScan::default() };
            more.push(TextSegment { text, fence, scan });
        }
    }

    /// Scans further lines, of the last one its beginning. Returns the end offset of the segment, and the code block
    /// that is open there.
    fn end(&mut self) -> Option<(usize, Option<String>)> {
        loop {
            let (start, rest) = (self.scan.at, &self.text[self.scan.at..]);
            let complete = rest.split_once('\n').map(|(line, _)| line);
            let line = complete.unwrap_or(rest);
            if start > 0 && self.scan.is_after_blank && self.scan.fence.is_none() && begins_block(line) {
                return Some((start, None));
            }
            let length = complete?.len();
            if let Some(fence) = &self.scan.fence
                && self.scan.lines >= FENCE_LINES
            {
                return Some((start, Some(fence.clone())));
            }
            match &self.scan.fence {
                Some(open) if closes(line, open) => self.scan.fence = None,
                None if fence_of(line).is_some() => {
                    self.scan.fence = Some(line.to_owned());
                    self.scan.lines = 0;
                }
                _ => {}
            }
            self.scan.is_after_blank = line.trim().is_empty();
            self.scan.lines += 1;
            self.scan.at += length + 1;
        }
    }
}

/// Splits a complete text.
pub(crate) fn segments(text: &str) -> Vec<TextSegment> {
    let mut first = TextSegment::default();
    let more = first.push(text);
    std::iter::once(first).chain(more).collect()
}

/// Returns whether a line begins a separate block rather than an item, a quote or a part of a list.
fn begins_block(line: &str) -> bool {
    let first = line.chars().next();
    first.is_some_and(|c| !c.is_whitespace() && !c.is_ascii_digit() && !matches!(c, '-' | '*' | '+' | '>' | '|'))
}

/// Returns whether an item may be the first of its list; `None` if a line begins no item without indentation.
pub(crate) fn item_of(line: &str) -> Option<bool> {
    let (marker, _) = line.split_once([' ', '\n'])?;
    let number = marker.strip_suffix(['.', ')']).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    match (marker, number) {
        ("-" | "*" | "+", _) => Some(true),
        (_, Some(number)) if (1..=9).contains(&number.len()) => Some(number == "1"),
        _ => None,
    }
}

/// Returns the marks that open a code block.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(' ');
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let marks = line.len() - line.trim_start_matches(mark).len();
    let is_inline = mark == '`' && line[marks..].contains('`');
    (marks >= 3 && !is_inline).then(|| &line[..marks])
}

fn closes(line: &str, open: &str) -> bool {
    let (Some(open), Some(close)) = (fence_of(open), fence_of(line)) else { return false };
    close.starts_with(open) && line.trim().chars().all(|c| close.starts_with(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(segments: &[TextSegment]) -> Vec<&str> {
        segments.iter().map(TextSegment::text).collect()
    }

    #[test]
    fn blocks_of_the_top_level_are_segments() {
        let text = "One.\n\nTwo\nlines.\n\n- a\n\n- b\n\nThree.\n";
        assert_eq!(texts(&segments(text)), ["One.\n\n", "Two\nlines.\n\n- a\n\n- b\n\n", "Three.\n"]);
        assert_eq!(texts(&segments("```\na\n\nb\n```\n\nend\n")), ["```\na\n\nb\n```\n\n", "end\n"]);
        // A block is complete once the next one begins, which may be a long line.
        assert_eq!(texts(&segments("One.\n\nT")), ["One.\n\n", "T"]);
    }

    #[test]
    fn long_code_is_split_and_stays_code() {
        let text = format!("```rust\n{}```\nend\n", "line\n".repeat(250));
        let split = segments(&text);
        assert_eq!(split.len(), 3);
        assert!(split[1].continues() && split[2].markdown().starts_with("```rust\nline\n"), "{split:?}");
        assert!(split[2].text().ends_with("```\nend\n"));
    }

    #[test]
    fn items_of_the_top_level_are_found_one_after_another() {
        let items = |text: &str| {
            let segment = TextSegment::new(text);
            let starts = std::iter::successors(segment.next_item(0), |from| segment.next_item(*from));
            starts.map(|at| text[at..].lines().next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(items("Two:\n- a\n  - b\n- c\n\n- d"), ["- a", "- c", "- d"]);
        assert_eq!(items("1. a\n2. b\n\n   more\n3) c"), ["2. b", "3) c"]);
        assert_eq!(items("born in\n1986. A year\n-x\n*y*\n"), [""; 0]);
        assert_eq!(items("- a\n```\n- b\n```\n- c"), ["- c"]);
    }

    proptest! {
        #[test]
        fn pieces_give_the_segments_of_the_whole(text in "([a-c`~ -]{0,4}\n?){0,40}", sizes in prop::collection::vec(1_usize..9, 1..60)) {
            let (mut grown, mut rest, mut sizes) = (vec![TextSegment::default()], text.as_str(), sizes.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                let last = grown.last_mut().unwrap();
                let new = last.push(piece);
                grown.extend(new);
                rest = more;
            }
            prop_assert_eq!(texts(&grown).concat(), text.clone());
            prop_assert_eq!(grown, segments(&text));
        }
    }
}
