//! Fuzzes the decoder of `bedrock`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    pinion_providers_fuzz::check(|| pinion_providers::bedrock::BedrockDecoder::new("id"), data);
});
