//! Sequences of eight bytes that must not be seen, and a search for them that passes over other text quickly.
//!
//! The search reads four bytes at every fifth place: any eight consecutive bytes hold one of those groups whole. Only where
//! a group is one of a secret's are the places around it looked up. Letters are compared without their case.

use std::ops::Range;

/// How many consecutive characters of a secret give it away.
pub(super) const WINDOW: usize = 8;
/// Any window holds a whole group at one of `STRIDE` consecutive places.
const GROUP: usize = 4;
const STRIDE: usize = WINDOW - GROUP + 1;
/// A window with fewer different bytes is ordinary text, such as a ruler of dashes.
const LEAST_DISTINCT: usize = 3;

const FILTER_BITS: u32 = 18;

/// Windows of all known secrets.
#[derive(Clone, Default)]
pub(super) struct Grams {
    /// Sorted.
    windows: Vec<u64>,
    /// A bit for each group's hash; empty as long as there are no windows.
    filter: Vec<u64>,
}

impl Grams {
    /// Adds the windows of `texts`.
    pub(super) fn add<'a>(&mut self, texts: impl IntoIterator<Item = &'a [u8]>) {
        for text in texts {
            let windows = text.windows(WINDOW).filter(|window| distinct(window) >= LEAST_DISTINCT);
            self.windows.extend(windows.map(folded));
        }
        self.windows.sort_unstable();
        self.windows.dedup();
        self.filter = if self.windows.is_empty() { Vec::new() } else { vec![0; 1 << (FILTER_BITS - 6)] };
        for window in &self.windows {
            for group in window.to_be_bytes().windows(GROUP) {
                let at = slot(group);
                self.filter[at >> 6] |= 1 << (at & 63);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// The parts of `text` that windows cover, in order; parts that touch are one.
    pub(super) fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        if self.is_empty() || text.len() < WINDOW {
            return found;
        }
        let last = text.len() - WINDOW;
        let mut at = 0;
        while at + GROUP <= text.len() {
            if self.may_hold(&text[at..at + GROUP]) {
                for start in at.saturating_sub(WINDOW - GROUP)..=at.min(last) {
                    if self.holds(&text[start..start + WINDOW]) {
                        merge(&mut found, start..start + WINDOW);
                    }
                }
            }
            at += STRIDE;
        }
        found
    }

    /// Whether any window is in `text`.
    pub(super) fn any(&self, text: &[u8]) -> bool {
        !self.find(text).is_empty()
    }

    /// The length of the longest end of `text`, shorter than a window, with which a window begins.
    pub(super) fn tail(&self, text: &[u8]) -> usize {
        let longest = text.len().min(WINDOW - 1);
        (1..=longest).rev().find(|length| self.begins(&text[text.len() - length..])).unwrap_or(0)
    }

    fn begins(&self, start: &[u8]) -> bool {
        let (mut least, mut most) = ([0; WINDOW], [u8::MAX; WINDOW]);
        for (at, byte) in start.iter().enumerate() {
            (least[at], most[at]) = (byte | FOLD, byte | FOLD);
        }
        let (least, most) = (u64::from_be_bytes(least), u64::from_be_bytes(most));
        let from = self.windows.partition_point(|window| *window < least);
        self.windows.get(from).is_some_and(|window| *window <= most)
    }

    fn may_hold(&self, group: &[u8]) -> bool {
        let at = slot(group);
        self.filter.get(at >> 6).is_some_and(|bits| bits & (1 << (at & 63)) != 0)
    }

    fn holds(&self, window: &[u8]) -> bool {
        self.windows.binary_search(&folded(window)).is_ok()
    }
}

/// Maps both cases of a letter to one; digits and most signs stay as they are.
const FOLD: u8 = 0x20;

fn folded(window: &[u8]) -> u64 {
    window.iter().fold(0, |value, byte| value << 8 | u64::from(byte | FOLD))
}

fn slot(group: &[u8]) -> usize {
    let value = group.iter().fold(0_u32, |value, byte| value << 8 | u32::from(byte | FOLD));
    (value.wrapping_mul(0x9E37_79B1) >> (32 - FILTER_BITS)) as usize
}

fn distinct(window: &[u8]) -> usize {
    let mut seen = [false; 256];
    window.iter().filter(|byte| !std::mem::replace(&mut seen[usize::from(**byte | FOLD)], true)).count()
}

/// Adds a range whose start is at or after the last one's.
fn merge(found: &mut Vec<Range<usize>>, new: Range<usize>) {
    match found.last_mut() {
        Some(last) if new.start <= last.end => last.end = last.end.max(new.end),
        _ => found.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grams(secret: &str) -> Grams {
        let mut grams = Grams::default();
        grams.add([secret.as_bytes()]);
        grams
    }

    #[test]
    fn every_window_is_found_at_every_place() {
        let secret = "Zq7Xw3Vb9Nm2Kp5Ld8Rt";
        let grams = grams(secret);
        for before in 0..20 {
            for window in 0..=secret.len() - WINDOW {
                let text = format!("{}{}!", "y".repeat(before), &secret[window..window + WINDOW]);
                assert_eq!(grams.find(text.as_bytes()), std::slice::from_ref(&(before..before + WINDOW)), "{text}");
            }
        }
        assert!(grams.find(b"Zq7Xw3V Zq7Xw3V Kp5Ld8R").is_empty());
        assert_eq!(grams.find(b"zq7xW3vB"), std::slice::from_ref(&(0..8)));
    }

    #[test]
    fn overlapping_windows_are_one_part() {
        assert_eq!(grams("Zq7Xw3Vb9Nm2Kp5Ld8Rt").find(b"a Zq7Xw3Vb9Nm2Kp5Ld8Rt b"), std::slice::from_ref(&(2..22)));
    }

    #[test]
    fn tail_is_the_longest_end_that_begins_a_window() {
        let grams = grams("Zq7Xw3Vb9Nm2Kp5Ld8Rt");
        assert_eq!(grams.tail(b"ab Zq7"), 3);
        assert_eq!(grams.tail(b"Zq7Xw3Vb9Nm"), 7);
        assert_eq!((grams.tail(b"ab!"), grams.tail(b"")), (0, 0));
    }

    #[test]
    fn monotonous_windows_are_ordinary_text() {
        assert!(grams("----------------").is_empty() && grams("0000000001111111").is_empty());
    }
}
