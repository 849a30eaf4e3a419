//! Fuzzes the decoder of `gemini`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    pinion_providers_fuzz::check(|| pinion_providers::gemini::GeminiDecoder::new("id"), data);
});
