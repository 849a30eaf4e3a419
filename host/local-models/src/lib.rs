//! Language models that run in this process.
//!
//! A model is one GGUF file. [`GgufHeader`] checks it, [`Tokenizer`] and [`ChatTemplate`] turn conversations into tokens,
//! and [`LocalProvider`] streams the reply. Tool calls cannot be malformed: from the start of a call on, only tokens are
//! sampled that lead to the name of an offered tool and to arguments of its schema.

mod call_machine;
mod chat_template;
mod conversation;
mod disk_space;
mod embedding;
mod error;
mod gguf;
mod inference;
mod json_machine;
mod json_shape;
mod memory;
mod model_host;
mod pooling;
mod reply_events;
mod reply_machine;
mod sampling;
mod store;
#[cfg(test)]
mod test_files;
#[cfg(test)]
mod test_requests;
mod tokenizer;
mod words;

/// The engine: quantized transformers on the CPU, with the matrix products of `candle`.
#[cfg(feature = "engine")]
mod engine {
    mod attention;
    mod load;
    mod transformer;
    mod weights;

    pub use load::load_model;
}

pub use chat_template::ChatTemplate;
pub use embedding::TextEmbeddings;
#[cfg(feature = "engine")]
pub use engine::load_model;
pub use error::{GgufError, LocalModelError};
pub use gguf::{GgufHeader, MetadataValue, TensorFormat, TensorLocation};
pub use inference::{InferenceSession, LoadedModel, ModelWeights};
pub use model_host::{LocalProvider, ModelHost, ModelLoader, ModelState, PROVIDER_NAME};
pub use pooling::EmbeddingPooling;
pub use sampling::SamplingSettings;
pub use store::{ModelStore, ModelSummary, PartialModel, StoreError, StoredModel, read_summary};
pub use tokenizer::Tokenizer;

#[cfg(test)]
mod model_host_tests;
