//! Redaction of text that arrives in pieces.

use super::MARK;
use super::grams::Grams;
use std::collections::VecDeque;

/// Redacts a text piece by piece. The concatenated output does not depend on the cuts: each covered part is replaced by
/// one mark. Returns each piece undivided, as soon as it is certain that no secret starts at its end.
#[derive(Default)]
pub(super) struct StreamRedactor {
    /// Text that was not released yet.
    pending: String,
    /// Lengths of the pieces in `pending`.
    pieces: VecDeque<usize>,
    /// Bytes of `pending` that belong to a part whose mark was released already; `None` when the released text does not
    /// end in a mark.
    covered: Option<usize>,
}

impl StreamRedactor {
    /// Adds a piece and returns the pieces that can be released, redacted; some may be empty.
    pub(super) fn push(&mut self, grams: &Grams, piece: &str) -> Vec<String> {
        self.pending.push_str(piece);
        self.pieces.push_back(piece.len());
        let bytes = self.pending.as_bytes();
        let decided = self.pending.floor_char_boundary(bytes.len() - grams.tail(bytes));
        self.release(grams, decided)
    }

    /// Releases all remaining pieces.
    pub(super) fn finish(&mut self, grams: &Grams) -> Vec<String> {
        self.release(grams, self.pending.len())
    }

    /// Releases all remaining pieces if at most `max` bytes at their end could start a secret.
    pub(super) fn give_up(&mut self, grams: &Grams, max: usize) -> Vec<String> {
        match !self.pieces.is_empty() && grams.tail(self.pending.as_bytes()) <= max {
            true => self.finish(grams),
            false => Vec::new(),
        }
    }

    fn release(&mut self, grams: &Grams, decided: usize) -> Vec<String> {
        let (mut out, mut left) = (Vec::new(), decided);
        while let Some(length) = self.pieces.front().copied().filter(|length| *length <= left) {
            self.pieces.pop_front();
            left -= length;
            let (text, covered) = self.redacted(grams, length);
            self.covered = covered;
            self.pending.drain(..length);
            out.push(text);
        }
        out
    }

    /// Returns the redacted form of the first `keep` bytes, and the next value of `covered`.
    fn redacted(&self, grams: &Grams, keep: usize) -> (String, Option<usize>) {
        let mut out = String::with_capacity(keep);
        // The end of the last marked part, and of the processed text.
        let (mut marked, mut done) = (self.covered, self.covered.unwrap_or_default());
        for found in grams.find(self.pending.as_bytes()) {
            let (start, end) =
                (self.pending.floor_char_boundary(found.start), self.pending.ceil_char_boundary(found.end));
            if marked.is_none_or(|marked| start > marked) {
                if start >= keep {
                    break;
                }
                out.push_str(&self.pending[done..start]);
                out.push_str(MARK);
            }
            done = done.max(end);
            marked = Some(done);
        }
        if done < keep {
            out.push_str(&self.pending[done..keep]);
        }
        (out, marked.and_then(|marked| marked.checked_sub(keep)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRETS: [&str; 3] = ["Zq7Xw3Vb9Nm2Kp5Ld8Rt", "Kp5Ld8Rt-Zq7Xw3Vb", "schlüssel-größer-9"];

    fn grams() -> Grams {
        let mut grams = Grams::default();
        grams.add(SECRETS.iter().map(|secret| secret.as_bytes()));
        grams
    }

    fn in_pieces(text: &str, cuts: &[usize]) -> String {
        let grams = grams();
        let mut stream = StreamRedactor::default();
        let mut cuts: Vec<usize> = cuts.iter().map(|at| text.floor_char_boundary(at % (text.len() + 1))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut out: Vec<String> = cuts.windows(2).flat_map(|cut| stream.push(&grams, &text[cut[0]..cut[1]])).collect();
        out.extend(stream.finish(&grams));
        assert_eq!(out.len(), cuts.len() - 1);
        if !grams.any(text.as_bytes()) {
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
        assert_eq!(in_pieces("Zq7Xw3Vb9Zq7Xw3Vb9", &[9]), "[redacted]");
    }

    #[test]
    fn held_back_end_is_released_at_last() {
        assert_eq!(in_pieces("Zq7Xw3V", &[3]), "Zq7Xw3V");
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
            prop_assert!(!grams().any(complete.as_bytes()), "{}", complete);
            if !grams().any(text.as_bytes()) {
                prop_assert_eq!(complete, text);
            }
        }
    }
}
