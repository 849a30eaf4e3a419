//! Fuzzes the decoder of `ollama`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    pinion_providers_fuzz::check(|| pinion_providers::ollama::OllamaDecoder::new("id"), data);
});
