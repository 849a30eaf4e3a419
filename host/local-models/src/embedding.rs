//! Embeddings: a vector for each text, so that texts can be compared.

use crate::error::LocalModelError;
use crate::inference::LoadedModel;

/// The embeddings of some texts.
#[derive(Debug, Clone, PartialEq)]
pub struct TextEmbeddings {
    /// The vector of each text, in the order of the texts, each of length 1.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts.
    pub tokens: u64,
}

/// Computes the embeddings of texts.
///
/// # Errors
/// The model was not made for embeddings, a text is empty or too long, the engine fails, or the request was cancelled.
pub(crate) fn embed_texts(
    model: &LoadedModel,
    texts: &[String],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<TextEmbeddings, LocalModelError> {
    let pooling = model.pooling.ok_or(LocalModelError::NoEmbeddings)?;
    let mut embeddings = TextEmbeddings { vectors: Vec::with_capacity(texts.len()), tokens: 0 };
    for text in texts {
        let tokens = model.tokenizer.encode_whole(text);
        if tokens.is_empty() || tokens.len() > model.window {
            return Err(LocalModelError::TextLength { tokens: tokens.len(), window: model.window });
        }
        let vector = model.weights.start().pooled(&tokens, pooling, is_cancelled)?;
        embeddings.vectors.push(unit_vector(vector));
        embeddings.tokens += tokens.len() as u64;
    }
    Ok(embeddings)
}

/// Scales a vector to the length 1. A vector of zeros stays.
fn unit_vector(vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    match length > 0.0 {
        true => vector.into_iter().map(|number| number / length).collect(),
        false => vector,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_the_length_one() {
        assert_eq!(unit_vector(vec![3.0, 4.0]), [0.6, 0.8]);
        assert_eq!(unit_vector(vec![0.0, 0.0]), [0.0, 0.0]);
    }
}
