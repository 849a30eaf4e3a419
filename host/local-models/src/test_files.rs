//! Small GGUF files for tests.

/// A file under construction.
#[derive(Default)]
pub(crate) struct ModelFile {
    values: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: Vec<u8>,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl ModelFile {
    fn value(mut self, name: &str, kind: u32, value: &[u8]) -> Self {
        self.values.push([&text(name)[..], &kind.to_le_bytes(), value].concat());
        self
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        self.value(name, 8, &text(value))
    }

    pub(crate) fn integer(self, name: &str, value: u32) -> Self {
        self.value(name, 4, &value.to_le_bytes())
    }

    pub(crate) fn float(self, name: &str, value: f32) -> Self {
        self.value(name, 6, &value.to_le_bytes())
    }

    pub(crate) fn texts(self, name: &str, values: &[String]) -> Self {
        let items: Vec<u8> = values.iter().flat_map(|value| text(value)).collect();
        let array = [&8_u32.to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), &items].concat();
        self.value(name, 9, &array)
    }

    pub(crate) fn integers(self, name: &str, values: &[i32]) -> Self {
        let items: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let array = [&5_u32.to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), &items].concat();
        self.value(name, 9, &array)
    }

    pub(crate) fn floats(self, name: &str, values: &[f32]) -> Self {
        let items: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let array = [&6_u32.to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), &items].concat();
        self.value(name, 9, &array)
    }

    pub(crate) fn tensor_header(mut self, name: &str, dimensions: &[u64], format: u32, start: u64) -> Self {
        let sizes: Vec<u8> = dimensions.iter().flat_map(|size| size.to_le_bytes()).collect();
        let count = dimensions.len() as u32;
        let parts = [&text(name)[..], &count.to_le_bytes(), &sizes, &format.to_le_bytes(), &start.to_le_bytes()];
        self.tensors.push(parts.concat());
        self
    }

    /// Adds a tensor of numbers that depend on their place only.
    pub(crate) fn tensor(mut self, name: &str, dimensions: &[u64]) -> Self {
        let start = self.data.len().next_multiple_of(32);
        self.data.resize(start, 0);
        let count = dimensions.iter().product::<u64>() as u32;
        let is_norm = dimensions.len() == 1;
        for at in 0..count {
            let number = if is_norm { 1.0 } else { (((at * 7919 + 13) % 97) as f32 - 48.0) / 200.0 };
            self.data.extend(f32::to_le_bytes(number));
        }
        self.tensor_header(name, dimensions, 0, start as u64)
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let counts = [(self.tensors.len() as u64).to_le_bytes(), (self.values.len() as u64).to_le_bytes()];
        let mut bytes = [b"GGUF", &3_u32.to_le_bytes()[..], &counts.concat()].concat();
        bytes.extend(self.values.concat());
        bytes.extend(self.tensors.concat());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(self.data);
        bytes
    }
}

/// The vocabulary of the tests: control tokens, all bytes, and some merged tokens.
pub(crate) fn vocabulary() -> (Vec<String>, Vec<i32>, Vec<String>) {
    let merges = ["r e", "a d", "re ad", "Ġ t", "h e", "Ġt he", "l l", "he ll", "hell o"];
    let control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned);
    let bytes = (0..=255).map(|byte| crate::tokenizer::letter_of(byte).to_string());
    let merged = merges.iter().map(|merge| merge.replace(' ', ""));
    let tokens: Vec<String> = control.into_iter().chain(bytes).chain(merged).collect();
    let kinds = (0..tokens.len()).map(|at| if at < 3 { 3 } else { 1 }).collect();
    (tokens, kinds, merges.map(str::to_owned).to_vec())
}

/// A model with one layer and made-up weights.
pub(crate) fn tiny_model() -> Vec<u8> {
    let (tokens, kinds, merges) = vocabulary();
    let count = tokens.len() as u64;
    ModelFile::default()
        .text("general.architecture", "llama")
        .integer("llama.context_length", 64)
        .integer("llama.block_count", 1)
        .integer("llama.embedding_length", 32)
        .integer("llama.feed_forward_length", 64)
        .integer("llama.attention.head_count", 4)
        .integer("llama.attention.head_count_kv", 2)
        .float("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "smollm")
        .texts("tokenizer.ggml.tokens", &tokens)
        .integers("tokenizer.ggml.token_type", &kinds)
        .texts("tokenizer.ggml.merges", &merges)
        .integer("tokenizer.ggml.eos_token_id", 2)
        .tensor("token_embd.weight", &[32, count])
        .tensor("output_norm.weight", &[32])
        .tensor("blk.0.attn_norm.weight", &[32])
        .tensor("blk.0.attn_q.weight", &[32, 32])
        .tensor("blk.0.attn_k.weight", &[32, 16])
        .tensor("blk.0.attn_v.weight", &[32, 16])
        .tensor("blk.0.attn_output.weight", &[32, 32])
        .tensor("blk.0.ffn_norm.weight", &[32])
        .tensor("blk.0.ffn_gate.weight", &[32, 64])
        .tensor("blk.0.ffn_up.weight", &[32, 64])
        .tensor("blk.0.ffn_down.weight", &[64, 32])
        .bytes()
}
