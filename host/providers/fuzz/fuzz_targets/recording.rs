//! Fuzzes recordings, which may come from anywhere.

#![no_main]

use pinion_providers::Playback;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = Playback::is_recording(text);
    if let Ok(playback) = Playback::parse(text) {
        assert!(playback.remaining() > 0 || playback.recipient().is_none());
    }
});
