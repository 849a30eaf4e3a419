//! The transformer that Llama, Qwen 2 and Qwen 3 share. They differ in biases, in a normalization of queries and keys,
//! and in the pairs that are rotated.

use super::attention::{HeadShape, KeyValues, Rotation, add, add_bias, attend, gated, normalized};
use super::weights::WeightMatrix;
use crate::error::LocalModelError;
use crate::inference::{InferenceSession, ModelWeights};
use crate::pooling::EmbeddingPooling;
use candle_core::quantized::QTensor;
use candle_core::{Device, Tensor};
use std::sync::Arc;

/// Tokens of a prompt that are computed together.
const BATCH: usize = 128;

/// The weights of a model.
#[derive(Debug)]
pub(crate) struct TransformerWeights {
    pub(crate) embedding: Arc<QTensor>,
    pub(crate) layers: Vec<LayerWeights>,
    pub(crate) norm: Vec<f32>,
    pub(crate) output: WeightMatrix,
    pub(crate) heads: HeadShape,
    pub(crate) rotation: Rotation,
    pub(crate) epsilon: f32,
    /// Numbers of a token's vector.
    pub(crate) width: usize,
}

/// The weights of a layer.
#[derive(Debug)]
pub(crate) struct LayerWeights {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Projection,
    pub(crate) key: Projection,
    pub(crate) value: Projection,
    pub(crate) attention_output: WeightMatrix,
    pub(crate) feed_norm: Vec<f32>,
    pub(crate) gate: WeightMatrix,
    pub(crate) up: WeightMatrix,
    pub(crate) down: WeightMatrix,
}

/// A matrix with the parts that only some architectures have.
#[derive(Debug)]
pub(crate) struct Projection {
    pub(crate) matrix: WeightMatrix,
    pub(crate) bias: Option<Vec<f32>>,
    /// Weights that normalize each head.
    pub(crate) norm: Option<Vec<f32>>,
}

impl Projection {
    fn apply(&self, vectors: &[f32], epsilon: f32) -> Result<Vec<f32>, LocalModelError> {
        let mut projected = self.matrix.apply(vectors)?;
        add_bias(&mut projected, self.bias.as_deref());
        Ok(match &self.norm {
            Some(norm) => normalized(&projected, norm, epsilon),
            None => projected,
        })
    }
}

/// The weights, as a session holds them.
pub(crate) struct SharedWeights(pub(crate) Arc<TransformerWeights>);

impl ModelWeights for SharedWeights {
    fn start(&self) -> Box<dyn InferenceSession> {
        let layers = self.0.layers.iter().map(|_| KeyValues::default()).collect();
        Box::new(TransformerSession { weights: self.0.clone(), layers, tokens: Vec::new() })
    }
}

/// Keys and values of the tokens so far.
struct TransformerSession {
    weights: Arc<TransformerWeights>,
    layers: Vec<KeyValues>,
    tokens: Vec<u32>,
}

impl InferenceSession for TransformerSession {
    fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    fn truncate(&mut self, count: usize) {
        let width = self.weights.heads.key_heads * self.weights.heads.size;
        self.tokens.truncate(count);
        for layer in &mut self.layers {
            layer.keys.truncate(self.tokens.len() * width);
            layer.values.truncate(self.tokens.len() * width);
        }
    }

    fn append(&mut self, tokens: &[u32], is_cancelled: &dyn Fn() -> bool) -> Result<Vec<f32>, LocalModelError> {
        let mut last = Vec::new();
        for batch in tokens.chunks(BATCH) {
            let before = self.tokens.len();
            match self.compute(batch, is_cancelled) {
                Ok(vectors) => {
                    self.tokens.extend(batch);
                    last = vectors;
                }
                Err(error) => {
                    self.truncate(before);
                    return Err(error);
                }
            }
        }
        let weights = &self.weights;
        let last = &last[last.len() - weights.width..];
        weights.output.apply(&normalized(last, &weights.norm, weights.epsilon))
    }

    fn pooled(
        &mut self,
        tokens: &[u32],
        pooling: EmbeddingPooling,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<f32>, LocalModelError> {
        let weights = self.weights.clone();
        let mut pooled = vec![0.0; weights.width];
        for batch in tokens.chunks(BATCH) {
            let vectors = normalized(&self.compute(batch, is_cancelled)?, &weights.norm, weights.epsilon);
            self.tokens.extend(batch);
            match pooling {
                EmbeddingPooling::Mean => {
                    vectors.chunks_exact(weights.width).for_each(|vector| add(&mut pooled, vector));
                }
                EmbeddingPooling::Last => pooled = vectors[vectors.len() - weights.width..].to_vec(),
            }
        }
        if pooling == EmbeddingPooling::Mean {
            pooled.iter_mut().for_each(|number| *number /= tokens.len() as f32);
        }
        Ok(pooled)
    }
}

impl TransformerSession {
    /// Computes the vectors of tokens that follow those so far, and adds their keys and values.
    fn compute(&mut self, tokens: &[u32], is_cancelled: &dyn Fn() -> bool) -> Result<Vec<f32>, LocalModelError> {
        let weights = self.weights.clone();
        let ids = Tensor::from_slice(tokens, tokens.len(), &Device::Cpu)?;
        let mut vectors = weights.embedding.embedding(&ids)?.flatten_all()?.to_vec1::<f32>()?;
        for (layer, cache) in weights.layers.iter().zip(&mut self.layers) {
            if is_cancelled() {
                return Err(LocalModelError::Cancelled);
            }
            let input = normalized(&vectors, &layer.attention_norm, weights.epsilon);
            let mut queries = layer.query.apply(&input, weights.epsilon)?;
            let mut keys = layer.key.apply(&input, weights.epsilon)?;
            let values = layer.value.apply(&input, weights.epsilon)?;
            let HeadShape { heads, key_heads, size } = weights.heads;
            weights.rotation.apply(&mut queries, heads, size, self.tokens.len());
            weights.rotation.apply(&mut keys, key_heads, size, self.tokens.len());
            cache.keys.extend(keys);
            cache.values.extend(values);
            let attended = attend(&queries, cache, weights.heads, tokens.len());
            add(&mut vectors, &layer.attention_output.apply(&attended)?);

            let input = normalized(&vectors, &layer.feed_norm, weights.epsilon);
            let mut gate = layer.gate.apply(&input)?;
            gated(&mut gate, &layer.up.apply(&input)?);
            add(&mut vectors, &layer.down.apply(&gate)?);
        }
        Ok(vectors)
    }
}
