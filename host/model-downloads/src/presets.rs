//! Known models: one table.

use crate::download::DownloadSource;

/// A known model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPreset {
    /// The name, as in `local/NAME`.
    pub name: &'static str,
    /// The address of the file, at a fixed revision.
    pub url: &'static str,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The SHA-256 digest of the file.
    pub sha256: &'static str,
    /// The licence of the model.
    pub licence: &'static str,
    /// Tokens of the context window.
    pub context: u64,
}

/// The known models, from small to large.
pub const PRESETS: &[ModelPreset] = &[
    ModelPreset {
        name: "qwen3-0.6b",
        url: "https://huggingface.co/Qwen/Qwen3-0.6B-GGUF/resolve/23749fefcc72300e3a2ad315e1317431b06b590a/Qwen3-0.6B-Q8_0.gguf",
        bytes: 639_446_688,
        sha256: "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        licence: "Apache-2.0",
        context: 40_960,
    },
    ModelPreset {
        name: "smollm2-1.7b",
        url: "https://huggingface.co/HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF/resolve/2d4a76a30b4af41ecd395c35725ac11688d4cfe4/smollm2-1.7b-instruct-q4_k_m.gguf",
        bytes: 1_055_609_536,
        sha256: "decd2598bc2c8ed08c19adc3c8fdd461ee19ed5708679d1c54ef54a5a30d4f33",
        licence: "Apache-2.0",
        context: 8_192,
    },
    ModelPreset {
        name: "qwen3-1.7b",
        url: "https://huggingface.co/Qwen/Qwen3-1.7B-GGUF/resolve/90862c4b9d2787eaed51d12237eafdfe7c5f6077/Qwen3-1.7B-Q8_0.gguf",
        bytes: 1_834_426_016,
        sha256: "061b54daade076b5d3362dac252678d17da8c68f07560be70818cace6590cb1a",
        licence: "Apache-2.0",
        context: 40_960,
    },
    ModelPreset {
        name: "qwen3-4b",
        url: "https://huggingface.co/Qwen/Qwen3-4B-GGUF/resolve/bc640142c66e1fdd12af0bd68f40445458f3869b/Qwen3-4B-Q4_K_M.gguf",
        bytes: 2_497_280_256,
        sha256: "7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
        licence: "Apache-2.0",
        context: 40_960,
    },
];

/// Finds a known model by its name.
pub fn find_preset(name: &str) -> Option<&'static ModelPreset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl ModelPreset {
    /// Returns the file that a download has to yield.
    pub fn source(&self) -> DownloadSource<'static> {
        DownloadSource { url: self.url, sha256: self.sha256, bytes: Some(self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_local_models::{ModelStore, StoreError};

    #[test]
    fn presets_name_fixed_files() {
        let is_hex = |text: &str| text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        let store = ModelStore::new("/nonexistent".into());
        for (at, preset) in PRESETS.iter().enumerate() {
            let ModelPreset { name, url, sha256, bytes, .. } = preset;
            assert!(matches!(store.find(name), Err(StoreError::Unknown(_))), "{name} is no name of a model");
            assert_eq!(PRESETS.iter().position(|other| other.name == *name), Some(at), "{name} is there twice");
            assert!(sha256.len() == 64 && is_hex(sha256), "{name}");
            let revision = url.split_once("/resolve/").and_then(|(_, rest)| rest.split_once('/')).unwrap().0;
            assert!(url.starts_with("https://") && revision.len() == 40 && is_hex(revision), "{name}");
            assert!(at == 0 || PRESETS[at - 1].bytes < *bytes, "{name} is out of order");
        }
    }

    #[test]
    fn preset_is_found_by_its_whole_name() {
        assert_eq!(find_preset("qwen3-4b").map(|preset| preset.bytes), Some(2_497_280_256));
        assert_eq!(find_preset("qwen3"), None);
    }
}
