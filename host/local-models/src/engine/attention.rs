//! Attention, normalization and rotation on plain slices. Models spend most of their time in matrix products; these need
//! no library.

use rayon::prelude::*;

/// Products of a position that are worth a second thread.
const PARALLEL_WORK: usize = 1 << 16;

/// Sizes of a model's attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadShape {
    pub(crate) heads: usize,
    /// Heads of keys and values, each shared by as many heads of queries.
    pub(crate) key_heads: usize,
    /// Numbers of a head.
    pub(crate) size: usize,
}

/// Returns the product of two vectors, in lanes that compilers turn into vector instructions.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (left_lanes, right_lanes) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    let rest: f32 = left_lanes.remainder().iter().zip(right_lanes.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in left_lanes.zip(right_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Normalizes each vector of `length` by its root mean square.
pub(crate) fn normalized(vectors: &[f32], weights: &[f32], epsilon: f32) -> Vec<f32> {
    let mut normalized = vectors.to_vec();
    for vector in normalized.chunks_exact_mut(weights.len()) {
        let scale = 1.0 / (dot(vector, vector) / vector.len() as f32 + epsilon).sqrt();
        vector.iter_mut().zip(weights).for_each(|(number, weight)| *number *= scale * weight);
    }
    normalized
}

/// Adds vectors to others.
pub(crate) fn add(target: &mut [f32], other: &[f32]) {
    target.iter_mut().zip(other).for_each(|(target, other)| *target += other);
}

/// Adds a bias to each vector.
pub(crate) fn add_bias(vectors: &mut [f32], bias: Option<&[f32]>) {
    if let Some(bias) = bias {
        vectors.chunks_exact_mut(bias.len()).for_each(|vector| add(vector, bias));
    }
}

/// Computes SiLU of `gate`, times `up`.
pub(crate) fn gated(gate: &mut [f32], up: &[f32]) {
    gate.iter_mut().zip(up).for_each(|(gate, up)| *gate = *gate / (1.0 + (-*gate).exp()) * up);
}

/// Rotates heads by the position of their token.
#[derive(Debug)]
pub(crate) struct Rotation {
    /// Angle of each pair of numbers for a step of one position.
    pub(crate) frequencies: Vec<f32>,
    /// Pairs are a half apart, and not adjacent.
    pub(crate) is_split: bool,
}

impl Rotation {
    /// Rotates the heads of consecutive tokens, of which the first has this position.
    pub(crate) fn apply(&self, vectors: &mut [f32], heads: usize, size: usize, first: usize) {
        let half = self.frequencies.len();
        for (at, token) in vectors.chunks_exact_mut(heads * size).enumerate() {
            let position = (first + at) as f32;
            let turns: Vec<(f32, f32)> =
                self.frequencies.iter().map(|frequency| (position * frequency).sin_cos()).collect();
            for head in token.chunks_exact_mut(size) {
                for (pair, (sin, cos)) in turns.iter().enumerate() {
                    let (a, b) = if self.is_split { (pair, pair + half) } else { (2 * pair, 2 * pair + 1) };
                    (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
                }
            }
        }
    }
}

/// Keys and values of all positions so far, one vector each for a position.
#[derive(Debug, Default)]
pub(crate) struct KeyValues {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

/// Computes the attention of the last `count` positions to all positions up to their own.
pub(crate) fn attend(queries: &[f32], cache: &KeyValues, shape: HeadShape, count: usize) -> Vec<f32> {
    let width = shape.key_heads * shape.size;
    let total = cache.keys.len() / width;
    let group = shape.heads / shape.key_heads;
    let mut output = vec![0.0; queries.len()];
    let attend_head = |at: usize, output: &mut [f32]| {
        let (token, head) = (at / shape.heads, at % shape.heads);
        let query = &queries[at * shape.size..(at + 1) * shape.size];
        let start = head / group * shape.size;
        let visible = total - count + token + 1;
        attend_one(query, cache, width, start, visible, output);
    };
    if total * queries.len() < PARALLEL_WORK {
        output.chunks_exact_mut(shape.size).enumerate().for_each(|(at, output)| attend_head(at, output));
    } else {
        output.par_chunks_exact_mut(shape.size).enumerate().for_each(|(at, output)| attend_head(at, output));
    }
    output
}

fn attend_one(query: &[f32], cache: &KeyValues, width: usize, start: usize, visible: usize, output: &mut [f32]) {
    let size = query.len();
    let scale = 1.0 / (size as f32).sqrt();
    let keys = cache.keys.chunks_exact(width).take(visible);
    let mut shares: Vec<f32> = keys.map(|key| dot(query, &key[start..start + size]) * scale).collect();
    let top = shares.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    shares.iter_mut().for_each(|share| *share = (*share - top).exp());
    let sum: f32 = shares.iter().sum();
    for (share, value) in shares.iter().zip(cache.values.chunks_exact(width)) {
        let share = share / sum;
        output.iter_mut().zip(&value[start..start + size]).for_each(|(output, value)| *output += share * value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_prefers_the_matching_key_and_sees_no_later_one() {
        let shape = HeadShape { heads: 2, key_heads: 1, size: 2 };
        let cache = KeyValues { keys: vec![20.0, 0.0, 0.0, 20.0], values: vec![1.0, 2.0, 3.0, 4.0] };
        // Two tokens with two heads each; the first token sees its own position only.
        let queries = [0.0, 1.0, 1.0, 0.0, 20.0, 0.0, 0.0, 20.0];
        let output = attend(&queries, &cache, shape, 2);
        let expected = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0, 4.0];
        assert!(output.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3), "{output:?}");
    }

    #[test]
    fn rotation_keeps_lengths_and_leaves_the_first_position() {
        for is_split in [false, true] {
            let rotation = Rotation { frequencies: vec![1.0, 0.1], is_split };
            let mut vectors = [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0];
            rotation.apply(&mut vectors, 1, 4, 0);
            assert_eq!(vectors[..4], [1.0, 2.0, 3.0, 4.0]);
            assert!((dot(&vectors[4..], &vectors[4..]) - 30.0).abs() < 1e-3);
            let second = if is_split { 2 } else { 1 };
            assert!((vectors[4] - (1_f32.cos() - (second as f32 + 1.0) * 1_f32.sin())).abs() < 1e-5);
        }
    }
}
