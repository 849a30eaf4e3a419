//! Errors of models and of their files.

/// A file is not a usable GGUF file.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The file could not be read.
    #[error("could not read the file")]
    Read(#[from] std::io::Error),
    /// The file does not begin like a GGUF file.
    #[error("not a GGUF file")]
    NotGguf,
    /// The file has another version of the format.
    #[error("version {0} of GGUF is not supported (2 and 3 are)")]
    Version(u32),
    /// The file ends before its header or its tensors do.
    #[error("the file is truncated: {0} bytes are missing")]
    Truncated(u64),
    /// The header contradicts itself, or exceeds a limit.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// A tensor has a format that the engine cannot compute with.
    #[error("tensor format {0} is not supported")]
    TensorFormat(u32),
    /// The metadata lacks a value, or has one of another type.
    #[error("the metadata has no usable `{0}`")]
    Metadata(String),
    /// The file lacks a tensor that its architecture needs.
    #[error("the file has no tensor `{0}`")]
    Tensor(String),
    /// The model has an architecture that the engine does not know.
    #[error("the architecture `{0}` is not supported (llama, qwen2 and qwen3 are)")]
    Architecture(String),
    /// The vocabulary is of a kind that the tokenizer does not know.
    #[error("the vocabulary `{0}` is not supported (gpt2 and llama are)")]
    Vocabulary(String),
}

/// A model cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum LocalModelError {
    /// The model's file is unusable.
    #[error("`{path}`: {source}")]
    File {
        /// The file.
        path: String,
        /// The cause.
        source: GgufError,
    },
    /// The machine has too little free memory.
    #[error("not enough memory for the model: it needs {} MB, and {} MB are free", needed >> 20, available >> 20)]
    Memory {
        /// Bytes that the model needs.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// The chat template of the model failed.
    #[error("the model's chat template failed: {0}")]
    Template(String),
    /// The conversation does not fit into the model's context window.
    #[error("the conversation has {tokens} tokens, and the model's window has {window}")]
    Window {
        /// Tokens of the conversation.
        tokens: usize,
        /// Tokens of the window.
        window: usize,
    },
    /// The model was not made for embeddings.
    #[error("the model was not made for embeddings")]
    NoEmbeddings,
    /// A text is empty, or longer than the context window.
    #[error("the text has {tokens} tokens, and the model takes 1 to {window}")]
    TextLength {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of the window.
        window: usize,
    },
    /// The engine failed.
    #[error("inference failed: {0}")]
    Inference(String),
    /// The request was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl LocalModelError {
    /// Returns the error as one of a provider.
    pub fn into_provider_error(self) -> pinion_protocol::ProviderError {
        use pinion_protocol::ProviderError;
        match self {
            Self::Cancelled => ProviderError::Cancelled,
            Self::Window { .. } => ProviderError::ContextOverflow { message: self.to_string() },
            other => ProviderError::Api { status: None, message: other.to_string() },
        }
    }
}
