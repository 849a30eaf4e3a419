//! Redaction of bytes that arrive in pieces and need not be text.

use super::{MARK, Secrets};

/// Redacts a stream of bytes, such as the body of a response. The concatenated output does not depend on the cuts: each
/// covered part is replaced by one mark. Holds back at most seven bytes, which could start a secret.
#[derive(Debug, Clone)]
pub struct ByteRedactor {
    secrets: Secrets,
    /// Bytes that were not released yet.
    pending: Vec<u8>,
    /// Bytes at the start of `pending` that belong to a part whose mark was released already; `None` when the released
    /// bytes do not end in a mark.
    covered: Option<usize>,
}

impl ByteRedactor {
    pub(super) fn new(secrets: Secrets) -> Self {
        Self { secrets, pending: Vec::new(), covered: None }
    }

    /// Adds a piece, and returns the redacted bytes that can be released.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(piece);
        let known = self.secrets.snapshot();
        self.release(self.pending.len() - known.grams.tail(&self.pending))
    }

    /// Returns the remaining bytes, redacted.
    pub fn finish(&mut self) -> Vec<u8> {
        self.release(self.pending.len())
    }

    /// Releases the first `keep` bytes.
    fn release(&mut self, keep: usize) -> Vec<u8> {
        let known = self.secrets.snapshot();
        let mut out = Vec::with_capacity(keep);
        // The end of the last marked part, and of the processed bytes.
        let (mut marked, mut done) = (self.covered, self.covered.unwrap_or_default());
        for found in known.grams.find(&self.pending) {
            if marked.is_none_or(|marked| found.start > marked) {
                if found.start >= keep {
                    break;
                }
                out.extend_from_slice(&self.pending[done..found.start]);
                out.extend_from_slice(MARK.as_bytes());
            }
            done = done.max(found.end);
            marked = Some(done);
        }
        if done < keep {
            out.extend_from_slice(&self.pending[done..keep]);
        }
        self.covered = marked.and_then(|marked| marked.checked_sub(keep));
        self.pending.drain(..keep);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use secrecy::SecretString;

    const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8Rt";

    fn in_pieces(bytes: &[u8], length: usize) -> Vec<u8> {
        let secrets = Secrets::default();
        secrets.add(&SecretString::from(SECRET));
        let mut redactor = secrets.byte_redactor();
        let mut out: Vec<u8> = bytes.chunks(length).flat_map(|piece| redactor.push(piece)).collect();
        out.extend(redactor.finish());
        out
    }

    #[test]
    fn secret_in_binary_data_is_marked_once_for_any_cut() {
        let data = [b"\xff\0".as_slice(), SECRET.as_bytes(), b"\xc3"].concat();
        for length in 1..data.len() + 1 {
            assert_eq!(in_pieces(&data, length), b"\xff\0[redacted]\xc3", "{length}");
        }
    }

    proptest! {
        #[test]
        fn output_is_the_same_for_any_cut_and_leaks_nothing(
            parts in prop::collection::vec((0..20_usize, 0..21_usize, prop::collection::vec(any::<u8>(), 0..4)), 0..8),
            length in 1..40_usize,
        ) {
            let part = |(from, length, other): &(usize, usize, Vec<u8>)| {
                let to = (from + length).min(SECRET.len());
                [&SECRET.as_bytes()[*from..to.max(*from)], other].concat()
            };
            let data: Vec<u8> = parts.iter().flat_map(part).collect();
            let complete = in_pieces(&data, data.len().max(1));
            prop_assert_eq!(&in_pieces(&data, length), &complete);
            let secrets = Secrets::default();
            secrets.add(&SecretString::from(SECRET));
            prop_assert!(!secrets.are_in(&complete));
            if !secrets.are_in(&data) {
                prop_assert_eq!(complete, data);
            }
        }
    }
}
