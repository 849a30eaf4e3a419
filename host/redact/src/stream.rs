//! Redaction of bytes and of text that arrive in pieces.

use super::matcher::Matcher;
use super::{KnownSecrets, Secrets};
use std::collections::VecDeque;

/// Bytes that are held back after the last line break. Longer than the forms of almost all secrets; one that is longer is found
/// within a piece only.
const MAX_HELD: usize = 16 << 10;

/// Bytes that were not released yet.
#[derive(Debug, Clone, Default)]
pub(super) struct PendingBytes {
    pub(super) bytes: Vec<u8>,
    /// Bytes at the start that belong to a secret whose mark was released already.
    covered: usize,
}

impl PendingBytes {
    /// Releases the first `keep` bytes. A secret that continues after them must be complete.
    pub(super) fn release(&mut self, matcher: &Matcher, keep: usize) -> Vec<u8> {
        let (mut out, mut done) = (Vec::with_capacity(keep), self.covered);
        for (range, mark) in matcher.scan(&self.bytes).marks {
            if range.start >= keep {
                break;
            }
            if range.start >= done {
                out.extend_from_slice(&self.bytes[done..range.start]);
                out.extend_from_slice(mark.as_bytes());
            }
            done = done.max(range.end);
        }
        if done < keep {
            out.extend_from_slice(&self.bytes[done..keep]);
        }
        self.covered = done.saturating_sub(keep);
        self.bytes.drain(..keep);
        out
    }
}

/// Redacts a stream of bytes, such as the body of a response.
///
/// The reader of a line redactor may have chosen the bytes and sees the sizes of pieces. So it releases bytes by rules
/// that do not depend on secrets: up to the last line break, and beyond that all but the last 16 to 32 KiB. The other
/// kind holds back only bytes that could begin a secret.
#[derive(Debug, Clone)]
pub struct ByteRedactor {
    secrets: Secrets,
    pending: PendingBytes,
    is_by_line: bool,
}

impl ByteRedactor {
    pub(super) fn new(secrets: Secrets, is_by_line: bool) -> Self {
        Self { secrets, pending: PendingBytes::default(), is_by_line }
    }

    /// Adds a piece, and returns the redacted bytes that can be released.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let known = self.secrets.snapshot();
        let bytes = &mut self.pending.bytes;
        let line_end = piece.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| bytes.len() + at + 1);
        bytes.extend_from_slice(piece);
        let keep = match self.is_by_line {
            true if bytes.len() - line_end >= 2 * MAX_HELD => bytes.len() - MAX_HELD,
            true => line_end,
            false => known.matcher().scan(bytes).open,
        };
        self.release(&known, keep)
    }

    /// Returns the remaining bytes, redacted.
    pub fn finish(&mut self) -> Vec<u8> {
        self.release(&self.secrets.snapshot(), self.pending.bytes.len())
    }

    /// Returns whether bytes are held back.
    pub fn is_holding(&self) -> bool {
        !self.pending.bytes.is_empty()
    }

    fn release(&mut self, known: &KnownSecrets, keep: usize) -> Vec<u8> {
        match keep {
            0 => Vec::new(),
            keep => self.pending.release(known.matcher(), keep),
        }
    }
}

/// Redacts a text piece by piece. The concatenated output does not depend on the cuts. Returns each piece undivided, as soon as
/// it is certain that no secret starts in it and continues after it: pieces may come later, and their boundaries stay.
#[derive(Default)]
pub(super) struct StreamRedactor {
    /// Text that was not released yet.
    pending: PendingBytes,
    /// Lengths of the pieces in `pending`.
    pieces: VecDeque<usize>,
}

impl StreamRedactor {
    /// Adds a piece and returns the pieces that can be released, redacted; some may be empty.
    pub(super) fn push(&mut self, matcher: &Matcher, piece: &str) -> Vec<String> {
        self.pending.bytes.extend_from_slice(piece.as_bytes());
        self.pieces.push_back(piece.len());
        self.release(matcher, matcher.scan(&self.pending.bytes).open)
    }

    /// Releases all remaining pieces.
    pub(super) fn finish(&mut self, matcher: &Matcher) -> Vec<String> {
        self.release(matcher, self.pending.bytes.len())
    }

    /// Releases all remaining pieces if at most `max` bytes at their end could start a secret.
    pub(super) fn give_up(&mut self, matcher: &Matcher, max: usize) -> Vec<String> {
        let tail = self.pending.bytes.len() - matcher.scan(&self.pending.bytes).open;
        match !self.pieces.is_empty() && tail <= max {
            true => self.finish(matcher),
            false => Vec::new(),
        }
    }

    fn release(&mut self, matcher: &Matcher, decided: usize) -> Vec<String> {
        let (mut out, mut left) = (Vec::new(), decided);
        while let Some(length) = self.pieces.front().copied().filter(|length| *length <= left) {
            self.pieces.pop_front();
            left -= length;
            let text = self.pending.release(matcher, length);
            // Pieces are texts, and secrets begin and end between characters.
            out.push(
                String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::MARK;
    use super::super::matcher::SecretForm;
    use super::*;
    use proptest::prelude::*;
    use secrecy::SecretString;

    const SECRETS: [&str; 3] = ["Zq7Xw3Vb9Nm2Kp5Ld8Rt", "Kp5Ld8Rt-Zq7Xw3Vb", "schlüssel-größer-9"];

    fn matcher() -> Matcher {
        let forms: Vec<SecretForm> = SECRETS.iter().map(|secret| SecretForm::new(secret.as_bytes(), 0)).collect();
        Matcher::new(&forms)
    }

    fn is_clean(text: &str) -> bool {
        matcher().scan(text.as_bytes()).marks.is_empty()
    }

    fn in_pieces(text: &str, cuts: &[usize]) -> String {
        let matcher = matcher();
        let mut stream = StreamRedactor::default();
        let mut cuts: Vec<usize> = cuts.iter().map(|at| text.floor_char_boundary(at % (text.len() + 1))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut out: Vec<String> =
            cuts.windows(2).flat_map(|cut| stream.push(&matcher, &text[cut[0]..cut[1]])).collect();
        out.extend(stream.finish(&matcher));
        assert_eq!(out.len(), cuts.len() - 1);
        if is_clean(text) {
            assert!(out.iter().zip(cuts.windows(2)).all(|(piece, cut)| *piece == text[cut[0]..cut[1]]));
        }
        out.concat()
    }

    #[test]
    fn part_is_marked_once_for_any_cut() {
        let text = "the key is Zq7Xw3Vb9Nm2Kp5Ld8Rt, yes";
        for step in 1..9 {
            let cuts: Vec<usize> = (0..text.len()).step_by(step).collect();
            assert_eq!(in_pieces(text, &cuts), "the key is [redacted], yes", "{step}");
        }
        let twice = SECRETS[0].repeat(2);
        assert_eq!(in_pieces(&twice, &[20]), "[redacted][redacted]");
        assert_eq!(in_pieces("Zq7Xw3Vb9Nm2Kp5Ld8Rt-Zq7Xw3Vb", &[5, 22]), "[redacted]");
    }

    #[test]
    fn held_back_end_is_released_at_last() {
        assert_eq!(in_pieces("Zq7Xw3Vb9Nm2Kp5Ld8R", &[3]), "Zq7Xw3Vb9Nm2Kp5Ld8R");
    }

    /// Generates texts of secrets, fragments of secrets and other text.
    fn texts() -> impl Strategy<Value = String> {
        let piece = (0..SECRETS.len(), 0..40_usize, 0..40_usize).prop_map(|(which, from, length)| {
            let secret = SECRETS[which];
            let from = secret.floor_char_boundary(from.min(secret.len()));
            secret[from..secret.floor_char_boundary((from + length).min(secret.len()).max(from))].to_owned()
        });
        let other = prop_oneof!["[a-zA-Z0-9 äß-]{0,6}", Just(String::new())];
        prop::collection::vec(prop_oneof![piece, other], 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn output_is_the_same_for_any_cut_and_leaks_nothing(text in texts(), cuts in prop::collection::vec(0..200_usize, 0..12)) {
            let complete = in_pieces(&text, &[]);
            prop_assert_eq!(&in_pieces(&text, &cuts), &complete);
            prop_assert!(is_clean(&complete), "{}", complete);
            if is_clean(&text) {
                prop_assert_eq!(complete, text);
            }
        }
    }

    const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8Rt";

    fn bytes_in_pieces(bytes: &[u8], length: usize, is_by_line: bool) -> Vec<u8> {
        let secrets = Secrets::default();
        secrets.add(&SecretString::from(SECRET));
        let mut redactor = if is_by_line { secrets.line_redactor() } else { secrets.byte_redactor() };
        let mut out: Vec<u8> = bytes.chunks(length).flat_map(|piece| redactor.push(piece)).collect();
        out.extend(redactor.finish());
        out
    }

    #[test]
    fn secret_in_binary_data_is_marked_once_for_any_cut() {
        let data = [b"\xff\0".as_slice(), SECRET.as_bytes(), b"\xc3"].concat();
        for length in 1..data.len() + 1 {
            for is_by_line in [false, true] {
                assert_eq!(bytes_in_pieces(&data, length, is_by_line), b"\xff\0[redacted]\xc3", "{length}");
            }
        }
    }

    #[test]
    fn secret_is_found_at_every_place_of_a_long_line() {
        for before in (0..4 * MAX_HELD).step_by(MAX_HELD / 2 - 7) {
            let data = [b"x".repeat(before), SECRET.as_bytes().to_vec(), b"y".repeat(3 * MAX_HELD)].concat();
            let expected = [b"x".repeat(before), MARK.as_bytes().to_vec(), b"y".repeat(3 * MAX_HELD)].concat();
            assert!(bytes_in_pieces(&data, 1000, true) == expected, "{before}");
        }
    }

    /// Returns the sizes of the pieces that the reader of a stream gets.
    fn sizes(pieces: &[&str]) -> Vec<usize> {
        let secrets = Secrets::default();
        secrets.add(&SecretString::from(SECRET));
        let mut redactor = secrets.line_redactor();
        let mut sizes: Vec<usize> = pieces.iter().map(|piece| redactor.push(piece.as_bytes()).len()).collect();
        sizes.push(redactor.finish().len());
        sizes
    }

    #[test]
    fn sizes_of_pieces_do_not_tell_whether_they_begin_a_secret() {
        for length in 1..SECRET.len() {
            let (right, wrong) = (&SECRET[..length], "!".repeat(length));
            for before in ["", "a line\nand ", "data: 1\n\n"] {
                let pieces = |guess| [before, guess, "%", "more\n", guess].map(str::to_owned);
                let (right, wrong) = (pieces(right), pieces(&wrong));
                assert_eq!(sizes(&right.each_ref().map(String::as_str)), sizes(&wrong.each_ref().map(String::as_str)));
            }
        }
    }

    proptest! {
        #[test]
        fn redacted_bytes_are_the_same_for_any_cut_and_leak_nothing(
            parts in prop::collection::vec((0..20_usize, 0..21_usize, prop::collection::vec(any::<u8>(), 0..4)), 0..8),
            length in 1..40_usize,
            is_by_line in any::<bool>(),
        ) {
            let part = |(from, length, other): &(usize, usize, Vec<u8>)| {
                let to = (from + length).min(SECRET.len());
                [&SECRET.as_bytes()[*from..to.max(*from)], other].concat()
            };
            let data: Vec<u8> = parts.iter().flat_map(part).filter(|byte| *byte != b'\n').collect();
            let complete = bytes_in_pieces(&data, data.len().max(1), is_by_line);
            prop_assert_eq!(&bytes_in_pieces(&data, length, is_by_line), &complete);
            let secrets = Secrets::default();
            secrets.add(&SecretString::from(SECRET));
            prop_assert!(!secrets.are_in(&complete));
            if !secrets.are_in(&data) {
                prop_assert_eq!(complete, data);
            }
        }
    }
}
