//! Redaction of text that arrives in pieces.

use super::bytes::PendingBytes;
use super::matcher::Matcher;
use std::collections::VecDeque;

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
    use super::super::matcher::SecretForm;
    use super::*;
    use proptest::prelude::*;

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
}
