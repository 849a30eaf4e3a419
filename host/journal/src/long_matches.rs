//! Long repetitions within a journal.
//!
//! Sessions read the same files again and again, and a tool returns most of the bytes that it reads. The window of DEFLATE
//! has 32 KiB, so each entry is first written as literals and copies of earlier bytes: numbers of seven bits a byte, in
//! turn the length of a run of literals, the run, the length of a copy and its distance, ending with literals.

/// Bytes of the shortest copy.
const MIN_COPY: usize = 64;
/// Bytes between two places to which copies are searched. A repetition of this and [`MIN_COPY`] bytes is always found.
const STEP: usize = 32;
/// Bytes to look back, and twice as many in memory, besides the current entry.
const WINDOW: usize = 4 << 20;
/// The places that are remembered, as a power of two.
const SLOT_BITS: u32 = 17;
/// An odd number without a pattern, for hashes that move along bytes.
pub(crate) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bytes before the current entry.
#[derive(Default)]
struct EarlierBytes {
    bytes: Vec<u8>,
    /// Bytes that were dropped.
    dropped: u64,
}

impl EarlierBytes {
    /// Drops bytes at the end of an entry. Writer and reader do it at the same places.
    fn trim(&mut self) {
        if self.bytes.len() > 2 * WINDOW {
            let excess = self.bytes.len() - WINDOW;
            self.bytes.drain(..excess);
            self.dropped += excess as u64;
        }
    }
}

/// Replaces repetitions in the entries of a file.
pub(crate) struct RepetitionWriter {
    earlier: EarlierBytes,
    /// For the highest bits of a hash, one more than the place of the last bytes with it, counted from the first entry.
    slots: Vec<u64>,
    /// The next place to remember, counted in the same way.
    next: u64,
    /// The factor of the first byte of a hash.
    first_factor: u64,
}

impl RepetitionWriter {
    pub(crate) fn new() -> Self {
        let first_factor = (1..MIN_COPY).fold(1_u64, |factor, _| factor.wrapping_mul(FACTOR));
        Self { earlier: EarlierBytes::default(), slots: vec![0; 1 << SLOT_BITS], next: 0, first_factor }
    }

    /// Returns an entry as literals and copies.
    pub(crate) fn shorten(&mut self, entry: &[u8]) -> Vec<u8> {
        let (mut at, mut literals) = (self.earlier.bytes.len(), self.earlier.bytes.len());
        self.earlier.bytes.extend_from_slice(entry);
        let (mut out, mut hash) = (Vec::with_capacity(entry.len() / 2 + 16), None);
        while at + MIN_COPY <= self.earlier.bytes.len() {
            self.remember(at);
            let bytes = &self.earlier.bytes;
            let now = hash.unwrap_or_else(|| hash_of(&bytes[at..at + MIN_COPY]));
            let Some(from) = self.find(now, at) else {
                hash = bytes.get(at + MIN_COPY).map(|next| moved(now, bytes[at], *next, self.first_factor));
                at += 1;
                continue;
            };
            let length = common(bytes[from..].iter(), bytes[at..].iter());
            let before = common(bytes[..from].iter().rev(), bytes[literals..at].iter().rev());
            push_run(&bytes[literals..at - before], &mut out);
            push_number(length + before, &mut out);
            push_number(at - from, &mut out);
            at += length;
            (literals, hash) = (at, None);
        }
        push_run(&self.earlier.bytes[literals..], &mut out);
        self.earlier.trim();
        out
    }

    /// Remembers the places whose bytes end before `at`.
    fn remember(&mut self, at: usize) {
        let (bytes, dropped) = (&self.earlier.bytes, self.earlier.dropped);
        self.next = self.next.max(dropped.next_multiple_of(STEP as u64));
        while let Some(place) = self.next.checked_sub(dropped).and_then(|place| usize::try_from(place).ok())
            && place + MIN_COPY <= at
        {
            self.slots[slot(hash_of(&bytes[place..place + MIN_COPY]), SLOT_BITS)] = self.next + 1;
            self.next += STEP as u64;
        }
    }

    /// Finds earlier bytes like those at a place, which have this hash.
    fn find(&self, hash: u64, at: usize) -> Option<usize> {
        let place = self.slots[slot(hash, SLOT_BITS)].checked_sub(1)?.checked_sub(self.earlier.dropped)?;
        let (place, bytes) = (usize::try_from(place).ok()?, &self.earlier.bytes);
        (bytes.get(place..place + MIN_COPY)? == bytes.get(at..at + MIN_COPY)?).then_some(place)
    }
}

/// Moves a hash by one byte. `first_factor` is the factor of the first byte.
pub(crate) fn moved(hash: u64, first: u8, next: u8, first_factor: u64) -> u64 {
    let rest = hash.wrapping_sub(value_of(first).wrapping_mul(first_factor));
    rest.wrapping_mul(FACTOR).wrapping_add(value_of(next))
}

/// Returns a hash that [`moved`] moves along bytes.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |hash: u64, byte| hash.wrapping_mul(FACTOR).wrapping_add(value_of(*byte)))
}

/// Returns the value of a byte in a hash: zeros count, too.
fn value_of(byte: u8) -> u64 {
    u64::from(byte) + 1
}

/// Returns the highest bits of a hash.
pub(crate) fn slot(hash: u64, bits: u32) -> usize {
    usize::try_from(hash.wrapping_mul(FACTOR) >> (64 - bits)).unwrap_or(0)
}

/// Returns the number of equal bytes at the beginning.
pub(crate) fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Appends a run of literals with its length.
pub(crate) fn push_run(literals: &[u8], out: &mut Vec<u8>) {
    push_number(literals.len(), out);
    out.extend_from_slice(literals);
}

/// Appends a number, seven bits a byte.
pub(crate) fn push_number(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Restores the entries of a file.
#[derive(Default)]
pub(crate) struct RepetitionReader {
    earlier: EarlierBytes,
}

impl RepetitionReader {
    /// Returns an entry of at most `limit` bytes; `None` if it is longer or damaged.
    pub(crate) fn restore(&mut self, mut tokens: &[u8], limit: usize) -> Option<Vec<u8>> {
        let bytes = &mut self.earlier.bytes;
        let start = bytes.len();
        loop {
            let (run, rest) = tokens_after_number(&mut tokens).and_then(|length| tokens.split_at_checked(length))?;
            bytes.extend_from_slice(run);
            tokens = rest;
            if tokens.is_empty() {
                break;
            }
            let (length, distance) = (tokens_after_number(&mut tokens)?, tokens_after_number(&mut tokens)?);
            let room = limit.checked_sub(bytes.len() - start)?;
            let mut from = bytes.len().checked_sub(distance).filter(|_| distance > 0 && length <= room)?;
            let mut left = length;
            // A copy may contain bytes that it creates itself.
            while left > 0 {
                let part = left.min(bytes.len() - from);
                bytes.extend_from_within(from..from + part);
                (from, left) = (from + part, left - part);
            }
        }
        let entry = bytes.get(start..).filter(|entry| entry.len() <= limit)?.to_vec();
        self.earlier.trim();
        Some(entry)
    }
}

/// Takes a number from the beginning of tokens.
pub(crate) fn tokens_after_number(tokens: &mut &[u8]) -> Option<usize> {
    let mut number = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (first, rest) = tokens.split_first()?;
        *tokens = rest;
        number |= usize::from(first & 0x7f).checked_shl(shift)?;
        if *first < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes that do not repeat, from a small generator with a seed.
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()[7]
        };
        (0..length).map(|_| next()).collect()
    }

    /// Writes and restores entries; returns the sizes of their tokens.
    fn round_trip(entries: &[Vec<u8>]) -> Vec<usize> {
        let (mut writer, mut reader) = (RepetitionWriter::new(), RepetitionReader::default());
        let mut sizes = Vec::new();
        for entry in entries {
            let tokens = writer.shorten(entry);
            assert_eq!(reader.restore(&tokens, entry.len()).as_ref(), Some(entry));
            sizes.push(tokens.len());
        }
        sizes
    }

    #[test]
    fn entries_of_all_kinds_are_restored() {
        let long = noise(100_000, 1);
        let shifted = [&b"x"[..], &long[3..70_000], b"y", &long[..500]].concat();
        let zeros = vec![0; 5_000];
        let entries = [Vec::new(), b"short".to_vec(), long.clone(), zeros, shifted, long[50_000..].to_vec(), long];
        let sizes = round_trip(&entries);
        assert!(sizes[3] < 200 && sizes[4] < 300 && sizes[5] < 200 && sizes[6] < 200, "{sizes:?}");
    }

    #[test]
    fn repetitions_of_96_bytes_are_found_wherever_they_begin() {
        for begin in 0..STEP {
            let text = noise(4_000, 2);
            let again = [&noise(5, 3)[..], &text[1_000 + begin..1_000 + begin + MIN_COPY + STEP]].concat();
            let sizes = round_trip(&[text, again]);
            assert!(sizes[1] < 20, "{sizes:?} at {begin}");
        }
    }

    #[test]
    fn bytes_beyond_the_window_are_dropped_on_both_sides() {
        let entries: Vec<Vec<u8>> = (0..40).map(|number| noise(300_000, number % 33)).collect();
        let sizes = round_trip(&entries);
        assert!(sizes[32] > 290_000, "{sizes:?}");
    }

    #[test]
    fn damaged_tokens_are_refused_or_stay_within_the_limit() {
        let text = noise(2_000, 4);
        let tokens = RepetitionWriter::new().shorten(&[&text[..], &text].concat());
        let mut seed = noise(3 * 20_000, 5).into_iter();
        for _ in 0..20_000 {
            let mut damaged = tokens.clone();
            let (Some(high), Some(low), Some(value)) = (seed.next(), seed.next(), seed.next()) else { break };
            let at = usize::from(high) << 8 | usize::from(low);
            let length = damaged.len();
            damaged[at % length] = value;
            let restored = RepetitionReader::default().restore(&damaged, 5_000);
            assert!(restored.is_none_or(|entry| entry.len() <= 5_000));
        }
        assert_eq!(RepetitionReader::default().restore(&[0, 0xff, 0xff, 0xff, 0x7f, 1, 0], 5_000), None);
        assert_eq!(RepetitionReader::default().restore(&[1, 7, 3, 1, 0], 5_000), Some(vec![7; 4]));
        assert_eq!(RepetitionReader::default().restore(&[1, 7, 9, 1, 0], 5), None);
    }
}
