//! Loads a model from its file.

use super::attention::{HeadShape, Rotation};
use super::transformer::{LayerWeights, Projection, SharedWeights, TransformerWeights};
use super::weights::{EngineError, TensorSource, WeightMatrix, format_in_memory, matrix_of};
use crate::chat_template::ChatTemplate;
use crate::error::{GgufError, LocalModelError};
use crate::gguf::GgufHeader;
use crate::inference::LoadedModel;
use crate::memory::available_memory;
use crate::pooling::EmbeddingPooling;
use crate::tokenizer::Tokenizer;
use pinion_files::open::open_file;
use std::path::Path;
use std::sync::Arc;

/// Tokens of a conversation that must fit into memory with the model.
const USUAL_WINDOW: u64 = 4096;
/// Largest value of each size in the metadata.
const MAX_SIZE: u64 = 1 << 20;

/// Loads a model.
///
/// # Errors
/// The file is missing, damaged or of an unknown kind, or the machine has too little free memory.
pub fn load_model(path: &Path) -> Result<LoadedModel, LocalModelError> {
    let in_file = |source| LocalModelError::File { path: path.display().to_string(), source };
    let file = open_file(path).map_err(|error| in_file(error.into()))?;
    let length = file.metadata().map_err(|error| in_file(error.into()))?.len();
    let header = GgufHeader::read(&file, length).map_err(in_file)?;
    let tokenizer = Tokenizer::from_header(&header).map_err(in_file)?;
    let template = ChatTemplate::new(header.text("tokenizer.chat_template"))?;
    let sizes = ModelSizes::read(&header, tokenizer.len()).map_err(in_file)?;
    let needed = sizes.memory(&header);
    if let Some(available) = available_memory().filter(|available| *available < needed) {
        return Err(LocalModelError::Memory { needed, available });
    }
    let weights = sizes.weights(&TensorSource { file: &file, header: &header }).map_err(|error| match error {
        EngineError::File(error) => in_file(error),
        EngineError::Candle(error) => error.into(),
    })?;
    let (window, pooling) = (sizes.window, EmbeddingPooling::from_header(&header));
    Ok(LoadedModel { tokenizer, template, window, pooling, weights: Box::new(SharedWeights(Arc::new(weights))) })
}

/// The sizes in the metadata of a model.
struct ModelSizes {
    architecture: String,
    vocabulary: usize,
    window: usize,
    layers: usize,
    width: usize,
    feed_width: usize,
    heads: HeadShape,
    epsilon: f32,
    rotated: usize,
    rotation_base: f64,
    rotation_scale: f64,
}

impl ModelSizes {
    fn read(header: &GgufHeader, vocabulary: usize) -> Result<Self, GgufError> {
        let architecture = header.architecture().to_owned();
        if !["llama", "qwen2", "qwen3"].contains(&architecture.as_str()) {
            return Err(GgufError::Architecture(architecture.chars().take(40).collect()));
        }
        let key = |name: &str| format!("{architecture}.{name}");
        let optional = |name: &str| header.integer(&key(name)).filter(|size| (1..=MAX_SIZE).contains(size));
        let size = |name: &str| optional(name).map(|size| size as usize).ok_or_else(|| GgufError::Metadata(key(name)));
        let (width, heads) = (size("embedding_length")?, size("attention.head_count")?);
        let key_heads = optional("attention.head_count_kv").map_or(heads, |heads| heads as usize);
        let head_size = optional("attention.key_length").map_or(width / heads, |size| size as usize);
        let value_size = optional("attention.value_length").map_or(head_size, |size| size as usize);
        let rotated = optional("rope.dimension_count").map_or(head_size, |size| size as usize);
        let is_even = heads.is_multiple_of(key_heads) && rotated.is_multiple_of(2) && rotated <= head_size;
        if !is_even || value_size != head_size || head_size == 0 {
            return Err(GgufError::Damaged("the sizes of the attention heads".to_owned()));
        }
        let number = |name: &str| header.number(&key(name)).filter(|number| number.is_finite() && *number > 0.0);
        let scales = header.text(&key("rope.scaling.type")) == Some("linear");
        Ok(Self {
            vocabulary,
            window: size("context_length")?,
            layers: size("block_count")?,
            width,
            feed_width: size("feed_forward_length")?,
            heads: HeadShape { heads, key_heads, size: head_size },
            epsilon: number("attention.layer_norm_rms_epsilon").unwrap_or(1e-5) as f32,
            rotated,
            rotation_base: number("rope.freq_base").unwrap_or(10_000.0),
            rotation_scale: number("rope.scaling.factor").filter(|_| scales).unwrap_or(1.0),
            architecture,
        })
    }

    /// Returns the bytes that the model takes, with the keys and values of a usual conversation.
    fn memory(&self, header: &GgufHeader) -> u64 {
        let tensors = header.tensors().map(|(_, tensor)| {
            let (numbers, bytes) = format_in_memory(tensor.format).block();
            let count = tensor.shape.0 as u64 * tensor.shape.1 as u64;
            (count / numbers).saturating_mul(bytes).max(tensor.bytes)
        });
        let sizes = [self.layers, self.heads.key_heads, self.heads.size];
        let of_token = sizes.iter().fold(2 * 4, |bytes: u64, size| bytes.saturating_mul(*size as u64));
        let cache = of_token.saturating_mul(USUAL_WINDOW.min(self.window as u64));
        tensors.fold(cache, u64::saturating_add)
    }

    fn weights(&self, source: &TensorSource<'_>) -> Result<TransformerWeights, EngineError> {
        let embedding = source.quantized("token_embd.weight", self.vocabulary, self.width)?;
        let output = match source.header.tensor("output.weight") {
            Some(_) => source.matrix("output.weight", self.vocabulary, self.width)?,
            None => matrix_of(embedding.clone(), self.vocabulary, self.width)?,
        };
        let layers = (0..self.layers).map(|layer| self.layer(source, layer)).collect::<Result<_, _>>()?;
        Ok(TransformerWeights {
            embedding,
            layers,
            norm: source.vector("output_norm.weight", self.width)?,
            output,
            heads: self.heads,
            rotation: self.rotation(source)?,
            epsilon: self.epsilon,
            width: self.width,
        })
    }

    fn layer(&self, source: &TensorSource<'_>, layer: usize) -> Result<LayerWeights, EngineError> {
        let HeadShape { heads, key_heads, size } = self.heads;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let matrix = |part: &str, rows, columns| -> Result<WeightMatrix, EngineError> {
            source.matrix(&name(&format!("{part}.weight")), rows, columns)
        };
        let projection = |part: &str, rows: usize| -> Result<Projection, EngineError> {
            Ok(Projection {
                matrix: matrix(part, rows, self.width)?,
                bias: source.optional_vector(&name(&format!("{part}.bias")), rows)?,
                norm: source.optional_vector(&name(&format!("{part}_norm.weight")), size)?,
            })
        };
        Ok(LayerWeights {
            attention_norm: source.vector(&name("attn_norm.weight"), self.width)?,
            query: projection("attn_q", heads * size)?,
            key: projection("attn_k", key_heads * size)?,
            value: projection("attn_v", key_heads * size)?,
            attention_output: matrix("attn_output", self.width, heads * size)?,
            feed_norm: source.vector(&name("ffn_norm.weight"), self.width)?,
            gate: matrix("ffn_gate", self.feed_width, self.width)?,
            up: matrix("ffn_up", self.feed_width, self.width)?,
            down: matrix("ffn_down", self.width, self.feed_width)?,
        })
    }

    fn rotation(&self, source: &TensorSource<'_>) -> Result<Rotation, EngineError> {
        let half = self.rotated / 2;
        let factors = source.optional_vector("rope_freqs.weight", half)?;
        let frequency = |pair: usize| {
            let factor = factors.as_ref().map_or(1.0, |factors| f64::from(factors[pair]));
            let exponent = -2.0 * pair as f64 / self.rotated as f64;
            (self.rotation_base.powf(exponent) / factor / self.rotation_scale) as f32
        };
        let frequencies = (0..half).map(frequency).collect();
        Ok(Rotation { frequencies, is_split: self.architecture != "llama" })
    }
}
