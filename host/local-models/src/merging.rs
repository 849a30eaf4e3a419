//! Merges the pieces of a word in the order of a vocabulary, in time that grows with the length almost linearly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Looks up the token that two adjacent tokens become, with its rank: lower ranks merge first.
pub(crate) type PairRank<'a> = &'a dyn Fn(u32, u32) -> Option<(i64, u32)>;

/// Merges adjacent tokens until no pair has a rank.
pub(crate) fn merge(tokens: &mut Vec<u32>, rank: PairRank<'_>) {
    const GONE: usize = usize::MAX;
    let count = tokens.len();
    let mut next: Vec<usize> = (1..=count).collect();
    let mut before: Vec<usize> = (0..count).map(|at| at.wrapping_sub(1)).collect();
    let mut queue = BinaryHeap::new();
    let enqueue = |queue: &mut BinaryHeap<_>, tokens: &[u32], left: usize, right: usize| {
        if let Some((rank, merged)) = rank(tokens[left], tokens[right]) {
            queue.push(Reverse((rank, left, right, tokens[left], tokens[right], merged)));
        }
    };
    for left in 0..count.saturating_sub(1) {
        enqueue(&mut queue, tokens, left, left + 1);
    }
    while let Some(Reverse((_, left, right, left_token, right_token, merged))) = queue.pop() {
        let is_current = next[left] == right && tokens[left] == left_token && tokens[right] == right_token;
        if !is_current {
            continue;
        }
        tokens[left] = merged;
        let after = next[right];
        next[left] = after;
        next[right] = GONE;
        if after < count {
            before[after] = left;
            enqueue(&mut queue, tokens, left, after);
        }
        if let Some(previous) = Some(before[left]).filter(|previous| *previous < count) {
            enqueue(&mut queue, tokens, previous, left);
        }
    }
    let mut at = 0;
    tokens.retain(|_| {
        at += 1;
        next[at - 1] != GONE
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_rank_merges_first_and_leftmost() {
        // 1 2 → 12 before 2 3 → 23; 12 3 → 123 last.
        let rank = |left, right| match (left, right) {
            (1, 2) => Some((0, 12)),
            (2, 3) => Some((1, 23)),
            (12, 3) => Some((2, 123)),
            (9, 9) => Some((3, 99)),
            _ => None,
        };
        let merged = |mut tokens: Vec<u32>| {
            merge(&mut tokens, &rank);
            tokens
        };
        assert_eq!(merged(vec![1, 2, 3]), [123]);
        assert_eq!(merged(vec![4, 2, 3]), [4, 23]);
        assert_eq!(merged(vec![9, 9, 9]), [99, 9]);
        assert_eq!(merged(vec![]), [0; 0]);
        assert_eq!(merged(vec![7]), [7]);
    }

    #[test]
    fn long_word_takes_no_quadratic_time() {
        let mut tokens = vec![9; 200_000];
        merge(&mut tokens, &|left, right| (left == 9 && right == 9).then_some((0, 99)));
        assert_eq!(tokens.len(), 100_000);
    }
}
