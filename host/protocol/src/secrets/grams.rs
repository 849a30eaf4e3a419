//! Fast search for eight-byte windows of secrets.
//!
//! The search reads a group of four bytes at every fifth position: any eight consecutive bytes contain one complete
//! group. It looks up the windows around a group only if the group occurs in a secret. The comparison ignores case.

use std::ops::Range;

/// Number of consecutive bytes of a secret that must not be output.
pub(super) const WINDOW: usize = 8;
/// Bytes of a group. Any window contains a complete group at one of `STRIDE` consecutive positions.
const GROUP: usize = 4;
const STRIDE: usize = WINDOW - GROUP + 1;
/// Minimum number of distinct bytes in a window. Windows with fewer are ordinary text, such as a line of dashes.
const MIN_DISTINCT: usize = 3;

const FILTER_BITS: u32 = 18;

/// The windows of all known secrets.
#[derive(Clone, Default)]
pub(super) struct Grams {
    /// Sorted.
    windows: Vec<u64>,
    /// One bit for the hash of each group; empty while there are no windows.
    filter: Vec<u64>,
}

impl Grams {
    /// Adds the windows of `texts`.
    pub(super) fn add<'a>(&mut self, texts: impl IntoIterator<Item = &'a [u8]>) {
        for text in texts {
            let windows = text.windows(WINDOW).filter(|window| distinct(window) >= MIN_DISTINCT);
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

    /// Returns the ranges of `text` that windows cover, in order. Adjacent ranges are merged.
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

    /// Returns whether `text` contains a window.
    pub(super) fn any(&self, text: &[u8]) -> bool {
        !self.find(text).is_empty()
    }

    /// Returns the length of the longest suffix of `text`, shorter than a window, that is the start of a window.
    pub(super) fn tail(&self, text: &[u8]) -> usize {
        let longest = text.len().min(WINDOW - 1);
        (1..=longest).rev().find(|length| self.starts_window(&text[text.len() - length..])).unwrap_or(0)
    }

    fn starts_window(&self, start: &[u8]) -> bool {
        let (mut low, mut high) = ([0; WINDOW], [u8::MAX; WINDOW]);
        for (at, byte) in start.iter().enumerate() {
            (low[at], high[at]) = (byte | FOLD, byte | FOLD);
        }
        let (low, high) = (u64::from_be_bytes(low), u64::from_be_bytes(high));
        let from = self.windows.partition_point(|window| *window < low);
        self.windows.get(from).is_some_and(|window| *window <= high)
    }

    fn may_hold(&self, group: &[u8]) -> bool {
        let at = slot(group);
        self.filter.get(at >> 6).is_some_and(|bits| bits & (1 << (at & 63)) != 0)
    }

    fn holds(&self, window: &[u8]) -> bool {
        self.windows.binary_search(&folded(window)).is_ok()
    }
}

/// Bit that maps upper case to lower case; leaves digits and most signs unchanged.
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

/// Appends a range that starts at or after the start of the last one, merging the two if they touch.
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
    fn every_window_is_found_at_every_position() {
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
    fn overlapping_windows_are_merged() {
        assert_eq!(grams("Zq7Xw3Vb9Nm2Kp5Ld8Rt").find(b"a Zq7Xw3Vb9Nm2Kp5Ld8Rt b"), std::slice::from_ref(&(2..22)));
    }

    #[test]
    fn tail_is_the_longest_suffix_that_starts_a_window() {
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
