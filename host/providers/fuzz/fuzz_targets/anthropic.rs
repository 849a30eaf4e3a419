//! Fuzzes the decoder of `anthropic`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    pinion_providers_fuzz::check(|| pinion_providers::anthropic::AnthropicDecoder::new("id"), data);
});
