//! Fuzzes the decoder of `openai_responses`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    pinion_providers_fuzz::check(|| pinion_providers::openai_responses::ResponsesDecoder::new("id"), data);
});
