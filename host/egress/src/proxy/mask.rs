//! Removal of secrets from responses on their way to a program.

use pinion_protocol::Secrets;
use pinion_protocol::secrets::ByteRedactor;
use secrecy::{ExposeSecret as _, SecretString};

/// A secret, and the placeholder that stands for it.
#[derive(Clone)]
pub(super) struct Masked {
    pub(super) secret: SecretString,
    pub(super) placeholder: String,
}

/// Removes secrets from a body that arrives in pieces: what is the whole secret becomes its placeholder, so that the
/// program can use it again, and parts and encodings become `[redacted]`.
pub(super) struct Mask {
    whole: Replacer,
    rest: ByteRedactor,
}

impl Mask {
    pub(super) fn new(masked: Vec<Masked>, secrets: &Secrets) -> Self {
        Self { whole: Replacer::new(masked), rest: secrets.byte_redactor() }
    }

    /// Adds a piece, and returns the bytes that can be released.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let replaced = self.whole.push(piece);
        self.rest.push(&replaced)
    }

    /// Returns the remaining bytes.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let replaced = self.whole.finish();
        let mut out = self.rest.push(&replaced);
        out.extend(self.rest.finish());
        out
    }
}

/// Replaces secrets by their placeholders. The concatenated output does not depend on the cuts. Holds back fewer bytes
/// than the longest secret has.
struct Replacer {
    /// The longest secret first, so that one that contains another is replaced as a whole.
    masked: Vec<Masked>,
    /// The bytes with which secrets begin.
    first: [bool; 256],
    /// Bytes that could begin a secret.
    pending: Vec<u8>,
}

impl Replacer {
    fn new(mut masked: Vec<Masked>) -> Self {
        masked.retain(|one| !one.secret.expose_secret().is_empty());
        masked.sort_by_key(|one| std::cmp::Reverse(one.secret.expose_secret().len()));
        let mut first = [false; 256];
        for one in &masked {
            first[usize::from(one.secret.expose_secret().as_bytes()[0])] = true;
        }
        Self { masked, first, pending: Vec::new() }
    }

    fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(piece);
        self.release(false)
    }

    fn finish(&mut self) -> Vec<u8> {
        self.release(true)
    }

    fn release(&mut self, is_last: bool) -> Vec<u8> {
        let pending = std::mem::take(&mut self.pending);
        let mut out = Vec::with_capacity(pending.len());
        let mut rest = pending.as_slice();
        'bytes: while !rest.is_empty() {
            let plain = rest.iter().position(|byte| self.first[usize::from(*byte)]).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..plain]);
            rest = &rest[plain..];
            for one in &self.masked {
                let secret = one.secret.expose_secret().as_bytes();
                if rest.starts_with(secret) {
                    out.extend_from_slice(one.placeholder.as_bytes());
                    rest = &rest[secret.len()..];
                    continue 'bytes;
                }
                if !is_last && !rest.is_empty() && secret.starts_with(rest) {
                    break 'bytes;
                }
            }
            if let [byte, others @ ..] = rest {
                out.push(*byte);
                rest = others;
            }
        }
        self.pending = rest.to_vec();
        out
    }
}

/// Replaces whole secrets in a text, such as the value of a header.
pub(super) fn replaced(masked: &[Masked], bytes: &[u8]) -> Vec<u8> {
    let mut replacer = Replacer::new(masked.to_vec());
    let mut out = replacer.push(bytes);
    out.extend(replacer.finish());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn masked(pairs: &[(&str, &str)]) -> Vec<Masked> {
        let one = |(secret, placeholder): &(&str, &str)| Masked {
            secret: SecretString::from(*secret),
            placeholder: (*placeholder).to_owned(),
        };
        pairs.iter().map(one).collect()
    }

    #[test]
    fn encodings_and_parts_are_redacted() {
        let pairs = masked(&[("Zq7Xw3Vb9Nm2Kp5Ld8Rt", "<key>")]);
        let secrets = Secrets::default();
        pairs.iter().for_each(|one| secrets.add(&one.secret));
        let mut mask = Mask::new(pairs, &secrets);
        let mut out = mask.push(b"a Zq7Xw3Vb9Nm2Kp5Ld8Rt b Zq7Xw3Vb9Nm2 c WnE3WHczVmI5Tm0yS3A1TGQ4UnQ= d");
        out.extend(mask.finish());
        assert_eq!(String::from_utf8(out).unwrap(), "a <key> b [redacted] c [redacted]UnQ= d");
    }

    proptest! {
        /// The secrets overlap, and one contains another.
        #[test]
        fn replacement_is_that_of_the_whole_text_for_any_cut(
            text in "(aab|aaba|abaab|a|b|c){0,30}",
            cuts in prop::collection::vec(0..8_usize, 0..40),
        ) {
            let pairs = masked(&[("aab", "1"), ("abaab", "2"), ("aabac", "3")]);
            let mut expected = String::new();
            let mut rest = text.as_str();
            while let Some(c) = rest.chars().next() {
                let longest_first = [("abaab", "2"), ("aabac", "3"), ("aab", "1")];
                let found = longest_first.iter().find(|(secret, _)| rest.starts_with(secret));
                match found {
                    Some((secret, placeholder)) => {
                        expected += placeholder;
                        rest = &rest[secret.len()..];
                    }
                    None => {
                        expected.push(c);
                        rest = &rest[1..];
                    }
                }
            }
            let mut replacer = Replacer::new(pairs);
            let (mut out, mut rest) = (Vec::new(), text.as_bytes());
            for cut in cuts {
                let (piece, others) = rest.split_at(cut.min(rest.len()));
                out.extend(replacer.push(piece));
                prop_assert!(replacer.pending.len() < 5);
                rest = others;
            }
            out.extend(replacer.push(rest));
            out.extend(replacer.finish());
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
