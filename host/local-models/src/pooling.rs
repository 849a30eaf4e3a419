//! The form of a model's embeddings.

use crate::gguf::GgufHeader;

/// The way in which one vector stands for all tokens of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingPooling {
    /// The mean of all tokens' vectors.
    Mean,
    /// The vector of the last token.
    Last,
}

impl EmbeddingPooling {
    /// Returns the way that the metadata names; `None` for models that were not made for embeddings.
    pub fn from_header(header: &GgufHeader) -> Option<Self> {
        match header.integer(&format!("{}.pooling_type", header.architecture()))? {
            1 => Some(Self::Mean),
            3 => Some(Self::Last),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_files::ModelFile;

    #[test]
    fn pooling_is_the_one_of_the_metadata() {
        let pooling = |kind: u32| {
            let file = ModelFile::default().text("general.architecture", "qwen3").integer("qwen3.pooling_type", kind);
            let bytes = file.bytes();
            EmbeddingPooling::from_header(&GgufHeader::read(&bytes[..], bytes.len() as u64).unwrap())
        };
        assert_eq!([0, 1, 2, 3].map(pooling), [None, Some(EmbeddingPooling::Mean), None, Some(EmbeddingPooling::Last)]);
    }
}
