//! A tokenizer as vendors have one: pairs of pieces that are frequent in a text are merged, the most frequent first.

use std::collections::HashMap;

/// Merges that are learned. Vendors learn a hundred thousand of much more text.
const MERGES: u32 = 400;

/// A tokenizer whose pieces begin as bytes.
pub(crate) struct BytePairs {
    /// The piece that two pieces become. Earlier merges have lower numbers.
    merged: HashMap<(u32, u32), u32>,
}

/// Splits a text after each mark and space, so that no piece crosses one.
pub(crate) fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|c: char| !c.is_alphanumeric())
}

impl BytePairs {
    /// Learns the merges from a text.
    pub(crate) fn trained(text: &str) -> Self {
        let mut counts: HashMap<&str, u64> = HashMap::new();
        words_of(text).for_each(|word| *counts.entry(word).or_default() += 1);
        let mut words: Vec<(Vec<u32>, u64)> = counts.into_iter().map(|(word, count)| (bytes_of(word), count)).collect();
        let mut merged = HashMap::new();
        for piece in 256..256 + MERGES {
            let mut pairs: HashMap<(u32, u32), u64> = HashMap::new();
            for (pieces, count) in &words {
                pieces.windows(2).for_each(|pair| *pairs.entry((pair[0], pair[1])).or_default() += count);
            }
            let Some((pair, _)) = pairs.into_iter().max_by_key(|&(pair, count)| (count, pair)) else { break };
            merged.insert(pair, piece);
            words.iter_mut().for_each(|(pieces, _)| merge(pieces, pair, piece));
        }
        Self { merged }
    }

    /// Splits a word into pieces.
    pub(crate) fn split(&self, word: &str) -> Vec<u32> {
        let mut pieces = bytes_of(word);
        loop {
            let known = pieces.windows(2).filter_map(|pair| Some((*self.merged.get(&(pair[0], pair[1]))?, pair)));
            let Some((piece, pair)) =
                known.min_by_key(|(piece, _)| *piece).map(|(piece, pair)| (piece, (pair[0], pair[1])))
            else {
                return pieces;
            };
            merge(&mut pieces, pair, piece);
        }
    }
}

fn bytes_of(word: &str) -> Vec<u32> {
    word.bytes().map(u32::from).collect()
}

/// Replaces each pair with a piece, from the left.
fn merge(pieces: &mut Vec<u32>, pair: (u32, u32), piece: u32) {
    let mut at = 0;
    while at + 1 < pieces.len() {
        if (pieces[at], pieces[at + 1]) == pair {
            pieces.splice(at..at + 2, [piece]);
        }
        at += 1;
    }
}
