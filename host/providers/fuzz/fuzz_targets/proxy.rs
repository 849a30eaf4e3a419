//! Fuzzes the decoder of `proxy`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    pinion_providers_fuzz::check(|| pinion_providers::proxy::ProxyDecoder::new("id"), data);
});
