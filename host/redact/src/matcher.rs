//! Search for whole secrets in a text, with the same work for each byte of the text.
//!
//! An automaton reads the text one `Symbol` at a time: one table look-up, regardless of the text. It finds *anchors*,
//! the first [`ANCHOR`] symbols of each form. Only a text that already contains an anchor causes more work: the
//! complete form is compared with it, without an early end. So neither the result nor the work tells whether a guess of
//! a part is right.

use super::symbols::{Symbols, folded, is_special, symbols};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Maximum symbols of an anchor: 24 characters, or 12 bytes in hex.
const ANCHOR: usize = 24;
/// Symbols with a known start: more than an anchor has.
const KEPT: usize = 32;
/// Bit of a state where an anchor ends.
const ENDS: u32 = 1 << 31;
/// Stands for a byte that may be part of an escape.
const SPECIAL: u8 = u8::MAX;

/// A text to find.
#[derive(Clone)]
pub(super) struct SecretForm {
    /// Folded symbols.
    symbols: Arc<[u8]>,
    /// Index of the value that it was derived from.
    pub(super) value: usize,
    /// Replaces the form where exactly these bytes stand; `None` for other forms.
    placeholder: Option<(Arc<[u8]>, Arc<str>)>,
}

impl SecretForm {
    /// Creates a form that is found in any case and with any escapes.
    pub(super) fn new(text: &[u8], value: usize) -> Self {
        Self { symbols: symbols(text).into(), value, placeholder: None }
    }

    /// Creates a form that is found only as it is, and replaced by `placeholder`.
    pub(super) fn exact(text: &[u8], value: usize, placeholder: &str) -> Self {
        Self { placeholder: Some((text.into(), placeholder.into())), ..Self::new(text, value) }
    }

    fn anchor(&self) -> &[u8] {
        &self.symbols[..self.symbols.len().min(ANCHOR)]
    }
}

/// The result of a search.
pub(super) struct SecretScan<'a> {
    /// Ranges to replace and their replacements, in order and without overlaps.
    pub(super) marks: Vec<(Range<usize>, &'a str)>,
    /// Offset where an incomplete form may start at the end of the text; without one, the length of the text.
    pub(super) open: usize,
    #[cfg(test)]
    pub(super) comparisons: usize,
}

/// The forms of all values, and the automaton that finds them.
pub(super) struct Matcher {
    forms: Vec<SecretForm>,
    /// The column of each byte; 0 for bytes that are in no anchor.
    columns: [u8; 256],
    /// The same, with [`SPECIAL`] for bytes that need more than a look.
    quick: [u8; 256],
    width: usize,
    /// The next state for each state and column. A state is the index of its first column.
    table: Vec<u32>,
    /// The length in symbols of the incomplete anchor in each state.
    depths: Vec<u8>,
    /// The forms whose anchors end at a state.
    ends: BTreeMap<u32, Vec<usize>>,
}

impl Matcher {
    pub(super) fn new(forms: &[SecretForm]) -> Self {
        let forms: Vec<SecretForm> = forms.iter().filter(|form| !form.symbols.is_empty()).cloned().collect();
        let mut columns = [0; 256];
        let mut width = 1_u8;
        for byte in forms.iter().flat_map(SecretForm::anchor) {
            if columns[usize::from(*byte)] == 0 {
                columns[usize::from(*byte)] = width;
                // Folding leaves fewer than 255 bytes.
                width = width.saturating_add(1);
            }
        }
        for byte in 0..=u8::MAX {
            columns[usize::from(byte)] = columns[usize::from(folded(byte))];
        }
        let mut quick = columns;
        (0..=u8::MAX).filter(|byte| is_special(*byte)).for_each(|byte| quick[usize::from(byte)] = SPECIAL);
        let width = usize::from(width);
        let mut new =
            Self { forms, columns, quick, width, table: vec![0; width], depths: vec![0], ends: BTreeMap::new() };
        new.add_anchors();
        new.link();
        new
    }

    /// Builds the tree of anchors. An entry of 0 is a missing branch.
    fn add_anchors(&mut self) {
        for (index, form) in self.forms.iter().enumerate() {
            let mut state = 0;
            for byte in form.anchor() {
                let at = state + usize::from(self.columns[usize::from(*byte)]);
                if self.table[at] == 0 {
                    self.table[at] = as_entry(self.table.len());
                    self.table.resize(self.table.len() + self.width, 0);
                    self.depths.push(self.depths[state / self.width] + 1);
                }
                state = self.table[at] as usize;
            }
            self.ends.entry(as_entry(state)).or_default().push(index);
        }
    }

    /// Replaces missing branches by the branches of the longest suffix that is in the tree, and marks the states of
    /// `ends`.
    fn link(&mut self) {
        let mut suffixes = vec![0; self.depths.len()];
        let mut queue = VecDeque::from([0]);
        while let Some(state) = queue.pop_front() {
            let mut is_leaf = true;
            for column in 0..self.width {
                let shorter = if state == 0 { 0 } else { self.table[suffixes[state / self.width] + column] };
                let child = self.table[state + column] as usize;
                if child == 0 {
                    self.table[state + column] = shorter;
                    continue;
                }
                is_leaf = false;
                suffixes[child / self.width] = shorter as usize;
                if let Some(others) = self.ends.get(&shorter).cloned() {
                    self.ends.entry(as_entry(child)).or_default().extend(others);
                }
                queue.push_back(child);
            }
            if is_leaf {
                self.depths[state / self.width] = self.depths[suffixes[state / self.width] / self.width];
            }
        }
        let mut has_end = vec![false; self.table.len()];
        self.ends.keys().for_each(|state| has_end[*state as usize] = true);
        self.table.iter_mut().filter(|next| has_end[**next as usize]).for_each(|next| *next |= ENDS);
    }

    /// Finds all forms in `text`.
    pub(super) fn scan(&self, text: &[u8]) -> SecretScan<'_> {
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        let mut symbols = Symbols::new(text);
        #[cfg(test)]
        let mut comparisons = 0;
        let (mut at, mut open) = (0, text.len());
        let (mut state, mut count, mut starts) = (0_usize, 0_usize, [0; KEPT]);
        while let Some(byte) = text.get(at) {
            let mut column = self.quick[usize::from(*byte)];
            starts[count % KEPT] = at;
            at += 1;
            if column == SPECIAL {
                let Some(symbol) = symbols.next_from(at - 1) else { break };
                starts[count % KEPT] = symbol.start;
                at = symbol.end;
                column = self.columns[usize::from(symbol.byte)];
            }
            count += 1;
            let next = self.table[state + usize::from(column)];
            state = (next & !ENDS) as usize;
            if next & ENDS == 0 {
                continue;
            }
            for form in self.ends.get(&(next & !ENDS)).into_iter().flatten().map(|index| &self.forms[*index]) {
                #[cfg(test)]
                {
                    comparisons += 1;
                }
                let start = starts[(count - form.anchor().len()) % KEPT];
                match compared(form, text, start) {
                    Compared::Whole(end) => found.extend(form.mark(text, start..end).map(|mark| (start..end, mark))),
                    Compared::Open => open = open.min(start),
                    Compared::Different => {}
                }
            }
        }
        match usize::from(self.depths[state / self.width]) {
            // An escape that is incomplete could be the first symbol of a form.
            0 => open = open.min(symbols.incomplete_at().unwrap_or(open)),
            depth => open = open.min(starts[(count - depth) % KEPT]),
        }
        SecretScan {
            marks: without_overlaps(found),
            open,
            #[cfg(test)]
            comparisons,
        }
    }

    /// Returns the values that `text` contains.
    pub(super) fn values_in(&self, text: &[u8]) -> Vec<usize> {
        let is_in = |form: &&SecretForm| {
            // Rare: only texts with a mark get here.
            let alone = Self::new(std::slice::from_ref(*form));
            !alone.scan(text).marks.is_empty()
        };
        match self.scan(text).marks.is_empty() {
            true => Vec::new(),
            false => self.forms.iter().filter(is_in).map(|form| form.value).collect(),
        }
    }
}

impl SecretForm {
    /// Returns the replacement of a range where the form was found.
    fn mark(&self, text: &[u8], range: Range<usize>) -> Option<&str> {
        match &self.placeholder {
            None => Some(super::MARK),
            Some((exact, placeholder)) => (text[range] == **exact).then_some(placeholder),
        }
    }
}

enum Compared {
    Whole(usize),
    Different,
    /// The text ends within the form.
    Open,
}

/// Compares a form with the text at `start`, in a time that does not depend on where they differ.
fn compared(form: &SecretForm, text: &[u8], start: usize) -> Compared {
    let mut symbols = Symbols::new(&text[start..]);
    let (mut difference, mut end, mut count) = (0, 0, 0);
    for (expected, symbol) in form.symbols.iter().zip(&mut symbols) {
        difference |= expected ^ folded(symbol.byte);
        end = symbol.end;
        count += 1;
    }
    match (difference, count == form.symbols.len()) {
        (0, true) => Compared::Whole(start + end),
        (0, false) => Compared::Open,
        _ => Compared::Different,
    }
}

/// Merges ranges that overlap. A range within another one leaves that one's replacement.
fn without_overlaps(mut found: Vec<(Range<usize>, &str)>) -> Vec<(Range<usize>, &str)> {
    found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let mut marks: Vec<(Range<usize>, &str)> = Vec::with_capacity(found.len());
    for (range, mark) in found {
        match marks.last_mut() {
            Some((last, _)) if range.start < last.end && range.end <= last.end => {}
            Some((last, replacement)) if range.start < last.end => (last.end, *replacement) = (range.end, super::MARK),
            _ => marks.push((range, mark)),
        }
    }
    marks
}

/// Returns an index as an entry of the table, which has fewer than 2³¹ of them.
fn as_entry(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(0) & !ENDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(forms: &[&str]) -> Matcher {
        let forms: Vec<SecretForm> =
            forms.iter().enumerate().map(|(at, form)| SecretForm::new(form.as_bytes(), at)).collect();
        Matcher::new(&forms)
    }

    fn found(matcher: &Matcher, text: &str) -> Vec<Range<usize>> {
        matcher.scan(text.as_bytes()).marks.into_iter().map(|(range, _)| range).collect()
    }

    #[test]
    fn whole_forms_are_found_and_parts_are_not() {
        let long = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G-and-some-more-after-the-anchor";
        for form in ["Zq7Xw3Vb9Nm2", long] {
            let matcher = matcher(&[form, "other"]);
            let place = 3..3 + form.len();
            assert_eq!(found(&matcher, &format!("ab {} cd", form.to_uppercase())), [place]);
            for length in 1..form.len() {
                assert!(found(&matcher, &form[..length]).is_empty() && found(&matcher, &form[length..]).is_empty());
                assert!(found(&matcher, &format!("{}!{}", &form[..length], &form[length..])).is_empty());
            }
        }
    }

    #[test]
    fn overlapping_forms_have_one_mark() {
        let matcher = matcher(&["abcdefgh", "cdef", "ghijkl", "abcabd"]);
        assert_eq!(found(&matcher, "abcdefghijkl"), std::slice::from_ref(&(0..12)));
        assert_eq!(found(&matcher, "-cdef-ghijklghijkl"), [1..5, 6..12, 12..18]);
        assert_eq!(found(&matcher, "abcabcabd"), std::slice::from_ref(&(3..9)));
        assert_eq!(matcher.values_in(b"abcdefgh"), [0, 1]);
    }

    #[test]
    fn open_is_where_a_form_may_continue() {
        let long = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G-and-some-more";
        let matcher = matcher(&[long]);
        for length in 0..long.len() {
            assert_eq!(matcher.scan(format!("ab{}", &long[..length]).as_bytes()).open, 2, "{length}");
        }
        for (text, open) in [("ab!", 3), ("abz!", 4), ("zz", 1), ("ab%5", 2), ("ab\\u00", 2), (long, long.len())] {
            assert_eq!(matcher.scan(text.as_bytes()).open, open, "{text}");
        }
    }

    #[test]
    fn placeholder_replaces_only_the_exact_text() {
        let matcher = Matcher::new(&[SecretForm::new(b"Zq7Xw3Vb", 0), SecretForm::exact(b"ghp_Zq7Xw3Vb", 0, "<key>")]);
        let marks =
            |text: &str| matcher.scan(text.as_bytes()).marks.iter().map(|(_, mark)| *mark).collect::<Vec<_>>().concat();
        assert_eq!(marks("a ghp_Zq7Xw3Vb"), "<key>");
        assert_eq!((marks("a ghp_zq7xw3vb"), marks("Zq7Xw3Vb")), ("[redacted]".to_owned(), "[redacted]".to_owned()));
    }
}
